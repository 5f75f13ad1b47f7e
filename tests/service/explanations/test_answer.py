"""Answers with attention: their size is known before, and their numbers are rounded as asked."""

import numpy as np
import orjson
import pytest

from service.explanations.answer import AttentionAnswer, npz
from tests.samples.attention_queries import HEADS, LAYERS, TOKENS, asked, read


@pytest.mark.parametrize("options", [{}, {"layers": "all", "heads": "all", "queries": "all"}, {"method": "rollout"}])
@pytest.mark.parametrize("digits", [1, 5, 9])
def test_the_estimated_size_is_an_upper_bound_of_the_answer_and_not_far_above_it(options, digits):
    ask = asked(**options, digits=digits)
    one = ask.wanted[0]
    heads = 1 if isinstance(one.heads, str) else len(one.heads)
    stack = np.random.default_rng(0).random((heads, len(one.layers), len(one.rows(TOKENS)), TOKENS)).astype(np.float32)
    shown = AttentionAnswer(ask, read(stack if ask.method == "raw" else stack[:, :1], ask), axes={}).json()
    size, estimated = len(orjson.dumps(shown, option=orjson.OPT_SERIALIZE_NUMPY)), ask.size({"image": TOKENS})
    assert size <= estimated <= 3 * size + 256


@pytest.mark.parametrize("method", ["raw", "norm"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("tokens", [TOKENS, 197])
def test_the_estimated_size_of_base64_is_that_of_its_bytes(method, dtype, tokens):
    heads = {"heads": "all"} if method == "raw" else {}
    ask = asked(method=method, layers="all", queries="all", encoding="base64", dtype=dtype, **heads)
    stack = np.random.default_rng(0).random((HEADS if heads else 1, LAYERS, tokens, tokens), np.float32)
    sight = AttentionAnswer(ask, read(stack, ask, image=tokens), axes={})
    size, estimated = len(orjson.dumps(sight.json())), ask.size({"image": tokens})
    assert size <= estimated <= 1.02 * size + LAYERS * 384


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("tokens", [TOKENS, 197])
def test_the_estimated_size_of_an_npz_is_that_of_its_bytes(dtype, tokens):
    ask = asked(layers="all", heads="all", queries="all", format="npz", dtype=dtype)
    stack = np.random.default_rng(0).random((HEADS, LAYERS, tokens, tokens), np.float32)
    size = len(npz({}, [AttentionAnswer(ask, read(stack, ask, image=tokens), axes={})]))
    assert size <= ask.size({"image": tokens}) <= size + LAYERS * 384


def test_values_are_rounded_to_the_digits_asked_for():
    ask = asked(digits=2)
    (shown,) = AttentionAnswer(ask, read(np.full((1, 1, 1, TOKENS), 1 / 3, np.float32), ask), axes={}).json()["maps"]
    assert b"0.33," in orjson.dumps(shown["values"], option=orjson.OPT_SERIALIZE_NUMPY)
