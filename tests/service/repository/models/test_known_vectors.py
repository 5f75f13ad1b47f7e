"""Vectors of labels are kept by text, as many as fit, those asked for last."""

import numpy as np

from service.repository.models.known_vectors import KnownVectors


def vector(number):
    return np.array([number, 2 * number, 0], np.float32)


def test_a_text_is_asked_for_once_and_its_vector_has_length_one():
    known = KnownVectors()
    assert known.missing(["a", "b", "a"]) == ["a", "b"]
    found = known.of(["a", "b", "a"], {"a": vector(3), "b": vector(-1)})
    np.testing.assert_allclose(found, [np.array([1, 2, 0]) * sign / 5**0.5 for sign in (1, -1, 1)])
    assert known.missing(["b", "c"]) == ["c"]
    assert (known.of(["a"], {}) == found[:1]).all()


def test_those_asked_for_last_are_kept_where_there_is_no_room_for_all():
    known = KnownVectors(most_bytes=2 * 28)
    known.of(["a", "b"], {"a": vector(1), "b": vector(2)})
    known.of(["a"], {})
    known.of(["c"], {"c": vector(3)})
    assert known.missing(["a", "b", "c"]) == ["b"]
    assert known.of(["a", "b", "c", "d"], {"b": vector(2), "d": vector(4)}).shape == (4, 3)
