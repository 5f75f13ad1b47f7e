"""Tracing: what it leaves behind."""

import gc

import torch

from export.graphs.tracing.torch_export import trace
from tests.samples.export_models import classifier


def test_nothing_holds_the_weights_that_were_traced_but_the_definition():
    """Else they stay in memory beside those in float64 that the graphs are verified against."""
    source = classifier()
    graph = trace(source.base, source.traced_at)
    assert any(tensor.raw_data for tensor in graph.graph.initializer)
    gc.collect()
    weights = {one.data_ptr(): one for one in source.traced.parameters() if one.dim() == 2}
    others = [
        one
        for one in gc.get_objects()
        if type(one) is torch.Tensor and one.layout is torch.strided and one.data_ptr() in weights
    ]
    assert len(weights) > 4
    assert not others
