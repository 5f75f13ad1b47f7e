"""The norms of what each key contributes (Kobayashi et al. 2020), of one layer."""

import numpy as np
import numpy.typing as npt

from export.graphs.editing.builder import Builder


def norms_of_layer(b: Builder, heads: int, value: str, projection: npt.NDArray[np.generic], alpha: str) -> list[str]:
    """Return ‖Σ alpha f(value)‖ (batch, row, key) over heads, from the Gram matrix of the projected values f."""
    width = projection.shape[1]
    output = b.constant(projection.reshape(heads, -1, width), np.float32)
    added = b.op("MatMul", value, output)  # (batch, heads, key, width)
    turned = _heads_last(b, alpha)  # (batch, key, row, heads)
    # at rank 3 the runtime takes the swap of axes into the product, rather than turn the vectors twice
    vectors = b.op("Transpose", added, perm=[0, 2, 1, 3])
    flat = b.op("Reshape", vectors, b.constant([-1, heads, width]))
    gram = b.op("MatMul", flat, b.op("Transpose", flat, perm=[0, 2, 1]))
    outer = b.op("Slice", b.op("Shape", turned), b.constant([0]), b.constant([2]))
    pairs = b.op("Concat", outer, b.constant([heads] * 2), axis=0)
    gram = b.op("Reshape", gram, pairs)  # (batch, key, heads, heads)
    square = b.reduce("ReduceSum", b.op("Mul", b.op("MatMul", turned, gram), turned), 3, keep=False)
    return [b.op("Transpose", b.op("Sqrt", b.op("Relu", square)), perm=[0, 2, 1])]


def _heads_last(b: Builder, alpha: str) -> str:
    """Transpose (batch, heads, row, key) to (batch, key, row, heads), in two steps: one takes thrice the time."""
    shape = b.op("Shape", alpha)
    flat = b.op("Reshape", alpha, b.constant([0, 0, -1]))
    rows = b.op("Concat", *(b.op("Gather", shape, b.constant([axis])) for axis in (0, 2, 3, 1)), axis=0)
    split = b.op("Reshape", b.op("Transpose", flat, perm=[0, 2, 1]), rows)
    return b.op("Transpose", split, perm=[0, 2, 1, 3])
