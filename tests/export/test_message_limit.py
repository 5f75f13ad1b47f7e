"""Weights may be larger than a message of protobuf, which ends at 2 GiB: here the limit is lowered."""

import onnx
import pytest

from contract.manifest import WEIGHTS
from export.graphs.editing import cleanup
from export.graphs.tracing.torch_export import trace
from export.pack import GraphWriter
from export.pipeline import write_graphs
from export.plan import leave_out
from export.verification import _runnable_on_cpu, open_session
from model.architectures.gpt import GPTConfig
from tests.samples.export_models import continuer

LIMIT = 1 << 20
LARGE = GPTConfig(2000, length=12, width=192, layers=2, heads=2, hidden=400)
"""Its weights are three times the limit, and its graphs without them a fraction of it."""


@pytest.fixture
def limited(monkeypatch):
    """Refuse to write larger messages of models and of graphs than the limit, as protobuf does at 2 GiB."""
    monkeypatch.setattr(cleanup, "MOST_CHECKED_BYTES", LIMIT)
    monkeypatch.setattr("export.pipeline.trace", trace)  # not one that was kept as a message
    written = []
    for kind in (onnx.ModelProto, onnx.GraphProto):
        serialize = kind.SerializeToString

        def refused(message, serialize=serialize, **options):
            written.append(message.ByteSize())
            assert written[-1] < LIMIT, "protobuf would refuse it"
            return serialize(message, **options)

        monkeypatch.setattr(kind, "SerializeToString", refused)
    return written


@pytest.mark.parametrize(
    "precision", ["fp32", "int8", *(pytest.param(one, marks=pytest.mark.slow) for one in ("int4", "fp16", "bf16"))]
)
def test_no_message_holds_the_weights_of_a_graph(tmp_path, limited, precision):
    source = continuer(LARGE)
    source, _ = leave_out(source, precision, (), explain_in_float=False)
    with GraphWriter(tmp_path) as graphs:
        write_graphs(source, graphs, precision, opset=23 if precision in ("fp16", "bf16") else 20)
    assert (tmp_path / WEIGHTS).stat().st_size > LIMIT, "or nothing was tried"
    assert len(limited) > len(source.plans)
    with _runnable_on_cpu(tmp_path, precision) as folder:
        open_session(folder, "decode")
