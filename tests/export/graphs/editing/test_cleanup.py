"""A graph that differs from its plan is refused."""

import dataclasses

import onnx
import pytest

from export.errors import ExportError
from export.graphs.editing.cleanup import clean, extract
from tests.samples.export_models import classifier, traced


def tampered(graph, change):
    copy = onnx.ModelProto()
    copy.CopyFrom(graph)
    change(copy.graph)
    return copy


def test_a_promised_output_that_is_gone_is_noticed():
    source = classifier()
    graph = tampered(traced(source), lambda graph: graph.output.pop())
    with pytest.raises(ExportError, match=r"attention: promised outputs \['logits', 'encoder\.blocks\.0\.attention', "):
        clean(graph, source.base)


def test_a_fixed_axis_of_another_size_is_noticed():
    source = classifier()

    def widen(graph):
        graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4

    with pytest.raises(ExportError, match="predict: logits must have an axis of 3"):
        extract(tampered(traced(source), widen), source.plan("predict"))


def test_an_attention_that_is_gone_is_noticed():
    source = classifier()
    plan = dataclasses.replace(source.base, attentions=5)
    with pytest.raises(ExportError, match="attention: must attend 5 times, the graph does 2 times"):
        clean(traced(source), plan)


def test_an_axis_that_was_baked_in_is_noticed():
    source = classifier()

    def bake(graph):
        graph.output[0].type.tensor_type.shape.dim[0].dim_value = 2

    with pytest.raises(ExportError, match="predict: logits must vary in batch, given 2 always"):
        extract(tampered(traced(source), bake), source.plan("predict"))
