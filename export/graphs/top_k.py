"""The likeliest next tokens, taken in the graph: a step returns as many as are looked at, not a vocabulary a row."""

from collections.abc import Sequence

import numpy as np
import onnx

from contract.manifest import COUNT, LIKELIEST, TOKENS
from export.graphs.builder import FLOAT, INT64, Builder
from export.graphs.cleanup import finish
from export.plan import Plan


def stepping(plan: Plan) -> Plan:
    """Return the plan of a step without what `with_likeliest` adds to its graph."""
    return plan.cut({COUNT}, {LIKELIEST, TOKENS})


def with_likeliest(graph: onnx.ModelProto, plan: Plan, suppressed: Sequence[int]) -> onnx.ModelProto:
    """Return the graph of a step that also returns its `count` likeliest tokens and the logarithms of their shares.

    The shares are of all tokens; those that are `suppressed` come last, with a logarithm of -inf. Equals come in the
    order of their indices.
    """
    b = Builder(graph, "likeliest.")
    (logits,) = (value for value in graph.graph.output if value.name == plan.outputs[0].name)
    logs = b.op("LogSoftmax", b.floats(logits.name), axis=-1)
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
    return finish(graph, plan)
