"""The most probable next tokens, found in the graph: a step returns `count` tokens per row, not a vocabulary."""

from collections.abc import Sequence

import numpy as np
import onnx

from contract.generation import COUNT, LIKELIEST, TOKENS
from export.graphs.editing.builder import FLOAT, INT64, Builder
from export.graphs.editing.cleanup import prune
from export.plan import Plan


def without_top_k(plan: Plan) -> Plan:
    """Return the plan of a decode step without the ports that `with_top_k` adds."""
    return plan.without_ports({COUNT}, {LIKELIEST, TOKENS})


def with_top_k(graph: onnx.ModelProto, plan: Plan, suppressed: Sequence[int]) -> onnx.ModelProto:
    """Extend a decode step to return its `count` most probable tokens and their log probabilities.

    Probabilities are among all tokens. Those that are `suppressed` come last, with a log probability of -inf. Equal
    ones come in the order of their indices.
    """
    b = Builder(graph, "likeliest.")
    (logits,) = (value for value in graph.graph.output if value.name == plan.outputs[0].name)
    logs = b.op("LogSoftmax", b.as_float32(logits.name), axis=-1)
    vocabulary = logits.type.tensor_type.shape.dim[-1].dim_value
    known = [token for token in suppressed if 0 <= token < vocabulary]
    if known:
        bias = np.zeros(vocabulary, np.float32)
        bias[known] = -np.inf
        logs = b.op("Add", logs, b.constant(bias, np.float32))
    axes = {port.name: port.axes for port in (*plan.inputs, *plan.outputs)}
    count = b.input(COUNT, INT64, axes[COUNT])
    values, tokens = b.ops("TopK", 2, logs, count, axis=-1)
    b.output(LIKELIEST, values, FLOAT, axes[LIKELIEST])
    b.output(TOKENS, tokens, INT64, axes[TOKENS])
    return prune(graph, plan)
