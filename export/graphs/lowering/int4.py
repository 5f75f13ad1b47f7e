"""Quantization to 4 bits: the matrices of a traced graph by blocks; what they multiply stays single floats."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from export.graphs.editing.builder import Builder
from export.graphs.lowering.int8 import Way, replace_products

BLOCK = 32
"""Numbers that share a scale: neighbours in a column, which one output sums."""
LEVELS = 16
BIT_COUNT = 4
IN_SINGLE_FLOATS = 1
"""The `accuracy_level` at which the kernel computes in single floats."""
COLUMNS_AT_ONCE = 4096
"""Columns of a matrix that are quantized at a time, which takes several copies of them."""


def quantize_blocks(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Quantize matrices to 4 bits with one scale for each block of 32 numbers of a column, the rest being 0.

    A number is one of -8 to 7 steps, of which -8 is the largest of the block, whatever its sign: so that number is
    exact. Embeddings, norms, attention and what matrices multiply stay as they are. Returns a graph
    of its own; the given one is of no more use.
    """
    return replace_products(graph, _ByBlocks(Builder(graph, "int4.")))


class _ByBlocks(Way):
    """Multiplies floats by matrices of 4 bits, in one node of onnxruntime's own, which widens them as it reads them."""

    def product(self, x: str, matrix: npt.NDArray[Any], bias: str) -> str:
        parts = [_packed(matrix[:, first : first + COLUMNS_AT_ONCE].T)
                 for first in range(0, matrix.shape[1], COLUMNS_AT_ONCE)]  # fmt: skip
        packed, scales = (np.concatenate(which) for which in zip(*parts, strict=True))
        product = self.b.op(
            "MatMulNBits", x, self.b.constant(packed, np.uint8), self.b.constant(scales, np.float32),
            domain="com.microsoft", K=matrix.shape[0], N=matrix.shape[1], bits=BIT_COUNT, block_size=BLOCK,
            accuracy_level=IN_SINGLE_FLOATS,
        )  # fmt: skip
        return self.b.op("Add", product, bias) if bias else product


def _packed(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Return rows of numbers as the kernel takes them: bytes (row, block, 16) of two numbers, and scales (row, block).

    The first of two numbers is in the lower half of a byte, and 8 stands for zero.
    """
    filled = np.pad(rows, ((0, 0), (0, -rows.shape[1] % BLOCK)))
    blocks = filled.reshape(len(rows), -1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)
    scales = largest / (-LEVELS // 2)
    steps = np.round(blocks / np.where(scales == 0, 1, scales)) + LEVELS // 2
    numbers = np.clip(steps, 0, LEVELS - 1).astype(np.uint8)
    return np.bitwise_or(numbers[..., ::2], numbers[..., 1::2] << BIT_COUNT, dtype=np.uint8), scales[..., 0].astype(
        np.float32
    )
