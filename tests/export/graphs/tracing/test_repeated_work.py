"""A trace that spares repeated work makes the same graph."""

import contextlib

import torch
from torch import nn

from contract.manifest import Port
from export.graphs.tracing import torch_export
from export.plan import Plan
from tests.samples.export_models import classifier


class OfManyTypes(nn.Module):
    """Integers that meet floats, in half and in single precision, before and after what they change."""

    def forward(self, numbers):
        halves = (numbers / 2 + numbers.to(torch.float16)) * 3
        return torch.where(numbers > 1, halves, numbers) + torch.arange(4) * numbers.float()


def test_a_trace_that_spares_repeated_work_makes_the_same_graph(monkeypatch):
    numbers = Port(name="numbers", axes=("batch", 4), dtype="int64")
    values = Port(name="values", axes=("batch", 4), dtype="float32")
    plans = (
        (Plan("predict", OfManyTypes(), (numbers,), (values,), attentions=0), {"batch": 2}),
        (classifier().base, classifier().traced_at),
    )
    spared = [torch_export.trace(plan, sizes) for plan, sizes in plans]
    monkeypatch.setattr(torch_export, "without_repeated_work", contextlib.nullcontext)
    for graph, (plan, sizes) in zip(spared, plans, strict=True):
        assert graph == torch_export.trace(plan, sizes)
