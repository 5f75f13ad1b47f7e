"""An export can be described without being made."""

import pytest

from export.bundled import SOURCES
from export.dry_run import describe
from export.errors import CheckpointError
from export.plan import leave_out
from tests.samples.export_models import classifier, translator


def test_what_would_be_made_is_said(tmp_path):
    source, _ = leave_out(translator(), "fp32", ["libra"], explain_in_float=False)
    lines = describe(source, tmp_path / "pair/1", "fp32", "usual").splitlines()
    assert lines[0] == "pair:"
    said = {line[:12].strip(): line[12:] for line in lines[1:]}
    assert said["model"] == "transformer for text2text-generation, in fp32"
    assert said["takes"] == "texts of at most 48 tokens"
    assert said["graphs"] == "attention, predict, relevance, integrated, inside, encode, decode"
    assert said["methods"] == "raw, rollout, norm, relevance, integrated"
    assert said["files"] == "about 0 MB"
    assert said["export"].startswith("about 0.4 GB of memory, ")
    assert said["would go"] == f"to {tmp_path / 'pair/1'}"


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("spoken-tera", "sounds of at most 3 s at 8000 Hz"),
        ("graphs-gtn", "graphs of at most 128 nodes and 2048 edges"),
    ],
)
def test_the_largest_sounds_and_graphs_are_said(tmp_path, name, takes):
    lines = describe(SOURCES[name](), tmp_path, "fp32", "usual").splitlines()
    assert f"  takes     {takes}" in lines


def test_an_artifact_that_would_be_replaced_is_told(tmp_path):
    *_, place = describe(classifier(), tmp_path, "fp32", "full").splitlines()
    assert place == f"  would go  to {tmp_path}, and replace what is there"


def test_in_8_bits_no_graph_is_promised_that_needs_gradients():
    with pytest.raises(CheckpointError, match=r"^--precision int4: is for models that continue texts, given image-cl"):
        leave_out(classifier(), "int4", (), explain_in_float=False)
    source, reasons = leave_out(classifier(), "int8", (), explain_in_float=False)
    assert {"relevance", "libra", "integrated"} == reasons.keys()
    assert {plan.role for plan in source.plans} == {"attention", "predict", "inside"}
    source, reasons = leave_out(classifier(), "int8", (), explain_in_float=True)
    assert (source.explained, reasons) == ("fp32", {})
