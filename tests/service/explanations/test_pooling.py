import math

import numpy as np
import pytest

from service.explanations.pooling import pool, pooled_length


def blocks(values, most):
    """The value of the largest size of each block, found one by one; of equal sizes the positive one."""
    heads, rows, columns = values.shape
    down, across = math.ceil(rows / most), math.ceil(columns / most)
    return np.array(
        [
            [
                [
                    max(head[top : top + down, left : left + across].ravel(), key=lambda value: (abs(value), value))
                    for left in range(0, columns, across)
                ]
                for top in range(0, rows, down)
            ]
            for head in values
        ]
    ).reshape(heads, math.ceil(rows / down), math.ceil(columns / across))


@pytest.mark.parametrize("most", [2, 3, 7, 32, 256])
@pytest.mark.parametrize("shape", [(2, 178, 178), (1, 1, 50), (3, 9, 1), (2, 7, 33), (1, 33, 32), (1, 5, 4)])
@pytest.mark.parametrize("low", [0.0, -1.0, -0.1])
def test_blocks_are_the_values_of_the_largest_size(most, shape, low):
    values = np.random.default_rng(0).uniform(low, 1, shape).astype(np.float32).round(2)
    found = pool(values, most)
    assert (found.dtype, found.tolist()) == (values.dtype, blocks(values, most).tolist())
    assert found.shape[1:] == tuple(pooled_length(length, most) for length in shape[1:])
    assert max(found.shape[1:]) <= most


def test_of_equal_sizes_the_positive_one_is_taken():
    assert pool(np.array([[[-2, 2, 1, -1]]], np.float32), 2).tolist() == [[[2, 1]]]
    assert pool(np.array([[[-2], [1], [-1], [0]]], np.float32), 2).tolist() == [[[-2], [-1]]]


@pytest.mark.parametrize("shape", [(1, 0, 64), (2, 3, 0), (0, 5, 5), (1, 0, 0)])
def test_a_map_without_rows_or_columns_has_no_blocks_there(shape):
    found = pool(np.zeros(shape, np.float32), 32)
    assert found.shape == (shape[0], *(pooled_length(length, 32) for length in shape[1:]))
    assert found.size == 0


def test_a_length_within_the_most_is_not_pooled():
    assert [pooled_length(length, 32) for length in (1, 31, 32, 33, 64, 65, 178)] == [1, 31, 32, 17, 32, 22, 30]
    assert pooled_length(178, None) == 178
