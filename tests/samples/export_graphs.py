"""Graphs in memory: traced, run, and their operators."""

import onnxruntime as ort

from export.graphs.cleanup import clean
from export.graphs.float16 import in_half_precision
from export.graphs.fusion import FUSION_OPSET
from tests.samples.traces import traced_once


def traced_in(plan, sizes, precision="fp32", opset=FUSION_OPSET):
    plan = in_half_precision(plan, precision)
    return clean(traced_once(plan, sizes, opset), plan)


def session(graph):
    return ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])


def kinds(graph):
    return [node.op_type for node in graph.graph.node]
