"""Graphs in memory: traced, run, and their operators."""

import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from export.graphs.editing.cleanup import clean, extract
from export.graphs.lowering.float16 import in_half_precision
from export.graphs.lowering.fusion import FUSION_OPSET
from export.graphs.lowering.top_k import without_top_k
from tests.samples.export_models import classifier, translator
from tests.samples.traces import traced_once


def traced_in(plan, sizes, precision="fp32", opset=FUSION_OPSET):
    plan = in_half_precision(plan, precision)
    return clean(traced_once(plan, sizes, opset), plan)


def session(graph):
    return ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])


def kinds(graph):
    return [node.op_type for node in graph.graph.node]


def copied(graph):
    return onnx.ModelProto.FromString(graph.SerializeToString())


def model_of(nodes, inputs, outputs, weights=None, opset=20, kind=TensorProto.FLOAT):
    """Return a graph of nodes; inputs and outputs are shapes by name, and weights are arrays."""

    def values(shapes):
        return [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()]

    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", values(inputs), values(outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def plain_graphs():
    """Sources, plans and graphs in full precision: of images, of pairs of texts, and of both graphs that generate."""
    image, pair = classifier(), translator()
    made = {}
    for name, source, plan in (
        ("images", image, image.plan("predict")),
        ("texts", pair, pair.plan("predict")),
        ("encode", pair, pair.plan("encode")),
        ("decode", pair, without_top_k(pair.plan("decode"))),
    ):
        whole = traced_in(source.base if name in ("images", "texts") else plan, source.traced_at)
        made[name] = (source, plan, extract(whole, plan))
    return made
