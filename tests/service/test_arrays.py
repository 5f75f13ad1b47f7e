import numpy as np

from service.arrays import padded, softmax


def test_shorter_rows_are_padded_with_zeros_or_false():
    assert padded([np.array([1, 2]), np.array([3])]).tolist() == [[1, 2], [3, 0]]
    assert padded([np.array([True]), np.array([True, True])]).tolist() == [[True, False], [True, True]]


def test_softmax_of_large_logits_is_finite():
    assert softmax(np.array([1000.0, 1000.0], np.float32)).tolist() == [0.5, 0.5]
