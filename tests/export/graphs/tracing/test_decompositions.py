"""Operators without a translation are replaced where they stand, and the graph is the one that PyTorch would make."""

import collections
import contextlib

import onnxruntime as ort
import pytest
import torch
from torch import nn

from contract.manifest import Port
from export.graphs.tracing import torch_export
from export.graphs.tracing.torch_export import trace
from export.plan import Plan
from tests.samples.export_models import classifier, translator


@pytest.fixture
def left_to_pytorch(monkeypatch):
    """The programs that PyTorch decomposed."""
    programs, plain = [], torch.export.ExportedProgram.run_decompositions

    def run(program, table):
        programs.append(program)
        return plain(program, table)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", run)
    return programs


def operators(graph):
    return collections.Counter(node.op_type for node in graph.graph.node)


class Applied(nn.Module):
    """Functions of one tensor, as a definition."""

    def __init__(self, *functions):
        super().__init__()
        self.functions = functions

    def forward(self, x):
        return tuple(function(x) for function in self.functions)


def batch_norm(**options):
    norm = nn.BatchNorm1d(3, **options)
    norm.running_mean.copy_(torch.tensor([0.5, -1.0, 2.0]))
    norm.running_var.copy_(torch.tensor([0.25, 4.0, 1.5]))
    if norm.affine:
        nn.init.uniform_(norm.weight, 0.5, 2.0)
        nn.init.uniform_(norm.bias)
    return norm.eval()


AFFINE, NORM = batch_norm(), batch_norm(affine=False)
CELL = nn.GRUCell(5, 4)
BY_ITS_BATCH = nn.BatchNorm1d(3, track_running_stats=False).eval()


def written_in_place(x):
    doubled = x * 2
    doubled[:, 1] = x[:, 0]
    return doubled


def compare(*functions):
    """Trace functions of (batch, 3, length, 5), and compare what the graph answers at other sizes."""
    module = Applied(*functions)
    x = Port(name="x", dtype="float32", axes=("batch", 3, "length", 5))
    outputs = tuple(Port(name=f"y{number}", dtype="float32", axes=()) for number in range(len(functions)))
    graph = trace(Plan("predict", module, (x,), outputs, attentions=0), {"batch": 2, "length": 7})
    session = ort.InferenceSession(graph.SerializeToString())
    for sizes in ((2, 3, 7, 5), (1, 3, 4, 5), (4, 3, 1, 5)):
        given = torch.randn(sizes)
        with torch.no_grad():
            wanted = [one.numpy() for one in module(given.clone())]
        for one, found in zip(wanted, session.run(None, {"x": given.numpy()}), strict=True):
            assert found.shape == one.shape
            assert found.dtype == one.dtype
            assert abs(found - one).max() <= 1e-6 * max(1, abs(one).max())


def test_single_nodes_are_replaced(left_to_pytorch):
    torch.manual_seed(0)
    compare(
        lambda x: x.to(torch.float64),
        lambda x: (x > 0).to(torch.int64),
        lambda x: x.flatten(),
        lambda x: x[0, 0, 0, 0].flatten(),  # of a tensor without axes
        lambda x: x.flatten(2),
        lambda x: x.flatten(1, -2),
        lambda x: x.flatten(0, 1),
        lambda x: x.transpose(1, 2).flatten(-2),
        lambda x: torch.cat((x, x), dim=2).flatten(1, 2),
        lambda x: torch.cat((x, x), dim=2).flatten(0, 1),  # keeps a size that is none of an input's
        lambda x: x[0, 0].T @ x[0, 0],
        lambda x: AFFINE(x[..., 0]) + NORM(x[..., 1]),
        lambda x: nn.functional.one_hot(x.argmax(-1), 5),
        lambda x: CELL(x[:, 0, 0], x[:, 1, 0, :4]),
    )
    assert not left_to_pytorch


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.functional.cosine_similarity(x, x[:1]),
        lambda x: x.flatten(2) + x.relu_().flatten(2),
        lambda x: BY_ITS_BATCH(x[..., 0]),
        written_in_place,
    ],
)
def test_a_program_that_needs_more_is_left_to_pytorch(function, left_to_pytorch):
    torch.manual_seed(0)
    compare(function)
    assert len(left_to_pytorch) == 1


@pytest.mark.parametrize("make", [classifier, pytest.param(translator, marks=pytest.mark.slow)])
def test_a_graph_has_the_operators_that_pytorch_would_have_made(make, left_to_pytorch, monkeypatch):
    source = make()
    ours = trace(source.base, source.traced_at)
    assert not left_to_pytorch
    monkeypatch.setattr(torch_export, "decomposed_in_place", contextlib.nullcontext)
    plain = trace(source.base, source.traced_at)
    assert len(left_to_pytorch) == 1
    assert operators(ours) == operators(plain)
