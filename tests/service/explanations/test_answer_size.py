"""The size of an answer, known before anything runs, and its limits."""

from typing import get_args

import numpy as np
import orjson
import pytest

from contract.manifest import Method
from service.errors import TooLarge
from service.explanations.answer import AttentionAnswer, AttentionMap, npz
from service.explanations.answer_size import answer_bytes, check_picture, check_size
from service.explanations.curves import picture_size
from service.explanations.evaluation import CURVE_NAMES, Evaluation, Score
from service.explanations.pictures import Space
from service.inputs.model_input import Picture
from tests.samples.attention_queries import HEADS, LAYERS, TOKENS, continuer, dumped, query_of, read, translator, vit


@pytest.mark.parametrize("options", [{}, {"layers": "all", "heads": "all", "queries": "all"}, {"method": "rollout"}])
@pytest.mark.parametrize("digits", [1, 5, 9])
def test_the_estimated_size_is_an_upper_bound_of_the_answer_and_not_far_above_it(options, digits):
    query = query_of(**options, digits=digits)
    one = query.kinds[0]
    heads = 1 if isinstance(one.heads, str) else len(one.heads)
    stack = np.random.default_rng(0).random((heads, len(one.layers), len(one.rows(TOKENS)), TOKENS)).astype(np.float32)
    shown = AttentionAnswer(query, read(stack if query.method == "raw" else stack[:, :1], query), axes={}).json()
    size, estimated = len(dumped(shown)), answer_bytes(query, {"image": TOKENS})
    assert size <= estimated <= 3 * size + 256


@pytest.mark.parametrize("digits", [1, 5, 9])
def test_the_estimated_size_counts_the_signs_of_weights_that_may_be_negative(digits):
    manifest = vit("raw", "norm")
    signed = manifest.model_copy(
        update={"attention": (manifest.attention[0].model_copy(update={"normalized": False}),)}
    )
    query = query_of(signed, layers="all", heads="all", queries="all", digits=digits)
    stack = -12 - np.random.default_rng(0).random((HEADS, LAYERS, 197, 197), np.float32)
    size = len(dumped(AttentionAnswer(query, read(stack, query, image=197), axes={}).json()))
    assert size <= answer_bytes(query, {"image": 197})


@pytest.mark.parametrize("method", ["raw", "norm"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("tokens", [TOKENS, 197])
def test_the_estimated_size_of_base64_is_that_of_its_bytes(method, dtype, tokens):
    heads = {"heads": "all"} if method == "raw" else {}
    query = query_of(method=method, layers="all", queries="all", encoding="base64", dtype=dtype, **heads)
    stack = np.random.default_rng(0).random((HEADS if heads else 1, LAYERS, tokens, tokens), np.float32)
    answer = AttentionAnswer(query, read(stack, query, image=tokens), axes={})
    size, estimated = len(orjson.dumps(answer.json())), answer_bytes(query, {"image": tokens})
    assert size <= estimated <= 1.02 * size + LAYERS * 384


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("tokens", [TOKENS, 197])
def test_the_estimated_size_of_an_npz_is_that_of_its_bytes(dtype, tokens):
    query = query_of(layers="all", heads="all", queries="all", format="npz", dtype=dtype)
    stack = np.random.default_rng(0).random((HEADS, LAYERS, tokens, tokens), np.float32)
    size = len(npz({}, [AttentionAnswer(query, read(stack, query, image=tokens), axes={})]))
    assert size <= answer_bytes(query, {"image": tokens}) <= size + LAYERS * 384


@pytest.mark.parametrize("options", [{"digits": 3}, {"encoding": "base64", "dtype": "uint8"}, {"format": "npz"}])
def test_the_estimated_size_is_that_of_pooled_maps(options):
    tokens = 178
    query = query_of(layers="all", heads="all", queries="all", pool=32, **options)
    stack = np.random.default_rng(0).random((HEADS, LAYERS, tokens, tokens), np.float32)
    answer = AttentionAnswer(query, read(stack, query, image=tokens))
    size = len(npz({}, [answer])) if query.form == "npz" else len(dumped(answer.json()))
    estimated = answer_bytes(query, {"image": tokens})
    assert size <= estimated <= 1.2 * size + LAYERS * 384


@pytest.mark.parametrize("method", ["libra", "integrated"])
@pytest.mark.parametrize("digits", [1, 9])
def test_the_estimated_size_counts_how_signed_values_add_up(method, digits):
    query = query_of(translator(), method=method, digits=digits, kind="decoder", against={"token": 3})
    number = -1234.567890123456
    figures = {
        "position": 10, "token": 99999, "text": "a" * 20, "against": {"token": 99999, "text": "b" * 20},
        "conserved": {"tokens": number, "biases": number, "score": number, "precision": "fp32"},
        "completeness": {"tokens": number, "score": number, "baseline": number, "error": number},
        "parts": {name: {"sum": number, "share": 0.12345678901234567} for name in ("source", "prefix", "start")},
    }  # fmt: skip
    count, keys = 11, 11
    entry = {"name": "decoder", "kind": "decoder", "heads": "sum", "signed": True, "targets": [figures] * count}
    values = np.full((1, count, keys), -999.123456789, np.float32)
    answer = AttentionAnswer(query, [AttentionMap(query.kinds[0].kind, entry, values, tuple(range(count)))])
    size = len(dumped(answer.json()))
    lengths = {"source": 4, "target": count, "target_input": keys}
    assert size <= answer_bytes(query, lengths, query.count_targets(count)) <= 2.5 * size


def test_a_picture_of_generated_tokens_has_a_panel_a_layer_and_one_of_classes_a_panel_a_target():
    lengths = {"target": 12, "target_input": 12, "image": TOKENS}
    layers = query_of(continuer(), method="libra", layers="all").in_form("png")
    check_picture(layers, lengths, None, 12, Space(10**7))
    with pytest.raises(TooLarge, match="png: at most 100 pixels"):
        check_picture(layers, lengths, None, 12, Space(100))
    picture = Picture(np.zeros((4, 4, 1), np.uint8), (0, 0, 4, 4), 4, 4)
    several = query_of(method="libra", target="0,1,2", layers="all").in_form("png")
    check_picture(several, lengths, picture, 3, Space(10**7))
    with pytest.raises(TooLarge, match="png: at most 144 panels, given 150"):
        check_picture(several, lengths, picture, 50, Space(10**7))


def test_an_answer_past_the_limit_is_refused_with_both_sizes():
    query = query_of(layers="all", heads="all", queries="all")
    with pytest.raises(
        TooLarge, match=r"attention: at most 1000 bytes an answer, this one would have \d+; ask for fewer"
    ):
        check_size(query, [{"image": TOKENS}], [1], 1000)


@pytest.mark.parametrize("digits", [1, 9])
@pytest.mark.parametrize("evaluate", ["deletion", "deletion,insertion", "compare"])
def test_the_estimated_size_counts_the_curves_of_an_evaluation(digits, evaluate):
    compared = evaluate == "compare"
    names = CURVE_NAMES if compared else evaluate.split(",")
    orders = [*get_args(Method), "random"] if compared else ["raw", "random"]
    curves = {order: {name: np.full(11, -1234.123456789) for name in names} for order in orders}
    evaluation = Evaluation(Score("cosine", "", {"target": None, "position": 12}), "tokens", curves, compared, digits)
    query, without = query_of(evaluate=evaluate, digits=digits), query_of(digits=digits)
    shown = dumped(evaluation.json())
    added = answer_bytes(query, {"image": TOKENS}) - answer_bytes(without, {"image": TOKENS})
    assert len(shown) <= added <= 8 * len(shown)


@pytest.mark.parametrize(
    ("evaluate", "size"), [("insertion", (1, 2)), ("deletion,insertion", (2, 2)), ("compare", (2, 8))]
)
def test_curves_are_as_large_as_they_are_drawn_whatever_the_maps_are(evaluate, size):
    query = query_of(translator(), evaluate=evaluate, format="png", target=0, layers=0)
    width, height = picture_size(*size)
    check_picture(query, {"source": 5, "target": 3, "target_input": 3}, None, 1, Space(width * height))
    with pytest.raises(
        TooLarge, match=rf"^png: at most {width * height - 1} pixels, this one would have {width} x {height}; "
    ):
        check_picture(query, {"source": 5, "target": 3, "target_input": 3}, None, 1, Space(width * height - 1))
