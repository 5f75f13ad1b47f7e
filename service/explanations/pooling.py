"""Pooling of maps: blocks of rows and columns become one value each, so that large maps are small answers."""

import numpy as np
import numpy.typing as npt


def pool(values: npt.NDArray[np.float32], most: int) -> npt.NDArray[np.float32]:
    """Return the value of the largest size of each block of (heads, rows, columns), at most `most` blocks a side.

    It keeps its sign; of equal sizes the positive one is taken.
    """
    heads, rows, columns = values.shape
    down, across = (_block_size(length, most) for length in (rows, columns))
    beyond = (0, 0), (0, -rows % down), (0, -columns % across)
    whole = np.pad(values, beyond, mode="edge")  # repeating an edge changes no maximum
    blocks = whole.reshape(heads, whole.shape[1] // down, down, whole.shape[2] // across, across)
    largest: npt.NDArray[np.float32] = blocks.max(axis=2).max(axis=-1)
    if values.min(initial=0) >= 0:
        return largest
    least = blocks.min(axis=2).min(axis=-1)
    return np.where(-least > largest, least, largest)


def pooled_length(length: int, most: int | None) -> int:
    """Return the number of blocks of an axis of this length; without `most`, the length."""
    return length if most is None else -(-length // _block_size(length, most))


def _block_size(length: int, most: int) -> int:
    """Return how many rows or columns each block has; the last one may have fewer."""
    return max(1, -(-length // most))
