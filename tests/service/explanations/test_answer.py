"""Answers with attention: their numbers are rounded, or packed as bytes that give them back."""

import base64
import io

import numpy as np
import orjson
import pytest

from service.explanations.answer import AttentionAnswer, npz, quantized
from tests.samples.attention_queries import TOKENS, query_of, read


def drawn(low, high, seed=0):
    """Values (heads, rows, keys) between bounds, both of which occur."""
    found = np.random.default_rng(seed).uniform(low, high, (2, 3, 50)).astype(np.float32)
    found.flat[:2] = low, high
    return found


def test_values_are_rounded_to_the_digits_asked_for():
    query = query_of(digits=2)
    (shown,) = AttentionAnswer(query, read(np.full((1, 1, 1, TOKENS), 1 / 3, np.float32), query), axes={}).json()[
        "maps"
    ]
    assert b"0.33," in orjson.dumps(shown["values"], option=orjson.OPT_SERIALIZE_NUMPY)


BOUNDS = [(-1.08, 11.4), (-1, 1), (-3, -1), (-1e-20, 5), (-5, 1e-20), (-1e30, 1e30), (-1e-33, 0), (-7, 0), (-0.1, 300)]


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_signed_bytes_are_within_half_a_step_and_a_zero_is_exactly_zero(low, high):
    for seed in range(20):
        values = drawn(low, high, seed)
        values.flat[7] = 0
        packed, given = quantized(values)
        found = packed * given["scale"] + given["offset"]
        assert packed.dtype == np.uint8
        assert np.abs(found - values).max() <= given["scale"] * 0.5000001
        assert found.flat[7] == 0
        assert given["scale"] <= max(float(values.max()) - float(values.min()), 1e-30) / 254


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.2, 0.9), (0, 20), (0, 0), (0, 1e-35)])
def test_bytes_of_values_that_are_not_negative_have_a_scale_alone(low, high):
    values = drawn(low, high)
    packed, given = quantized(values)
    assert given.keys() == {"scale"}
    assert given["scale"] == max(float(values.max()), 1e-30) / 255
    assert np.array_equal(packed, (values / given["scale"]).round())


def test_signed_values_come_back_from_base64_and_from_npz():
    stack = np.random.default_rng(1).normal(size=(1, 1, 1, TOKENS)).astype(np.float32)
    query = query_of(encoding="base64", dtype="uint8")
    answer = AttentionAnswer(query, read(stack, query), axes={})
    (shown,) = orjson.loads(orjson.dumps(answer.json()))["maps"]
    in_json = np.frombuffer(base64.b64decode(shown["values"]), np.uint8) * shown["scale"] + shown["offset"]
    arrays = np.load(io.BytesIO(npz({}, [answer])))
    (entry,) = orjson.loads(bytes(arrays["meta"]))["results"][0]["attention"]["maps"]
    in_npz = arrays[entry["array"]].ravel() * entry["scale"] + entry["offset"]
    for found in (in_json, in_npz):
        assert np.abs(found - stack.ravel()).max() <= shown["scale"] / 2 + 1e-9
