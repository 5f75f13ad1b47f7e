import numpy as np
import orjson
import pytest

from contract.manifest import Kind
from service.attention import resolve, select
from service.errors import TooLarge, Unacceptable
from service.options import AttentionOptions, parse
from tests.service.test_served import manifest_of

LAYERS, HEADS, TOKENS = 3, 2, 5


@pytest.fixture
def stack():
    scores = np.random.default_rng(0).normal(size=(LAYERS, HEADS, TOKENS, TOKENS)) * 3  # sharp, or every bug passes
    weights = np.exp(scores)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def vit(normalized=True):
    kind = Kind(
        kind="encoder", maps=("a.0", "a.1", "a.2"), heads=HEADS, query="image", key="image", normalized=normalized,
        prefix=1, grid=(2, 2),
    )  # fmt: skip
    return manifest_of(attention=(kind,))


def read(stack, manifest=None, **options):
    ask = resolve(parse(AttentionOptions, options, strings=False), manifest or vit())
    return ask.read({"encoder": stack})


def test_raw_shows_the_last_layer_the_mean_of_heads_and_the_class_token_unless_told_otherwise(stack):
    (shown,) = read(stack)
    assert shown["values"] == pytest.approx(stack[-1].mean(0)[None, :1], abs=1e-5)
    assert {name: shown[name] for name in ("name", "kind", "layer", "heads", "normalized", "shape")} == {
        "name": "a.2", "kind": "encoder", "layer": 2, "heads": "mean", "normalized": True, "shape": [1, 1, TOKENS],
    }  # fmt: skip


def test_layers_heads_and_queries_are_picked_by_index(stack):
    first, second = read(stack, layers=[0, -1], heads=[1], queries=[3, 0])
    assert (first["layer"], second["layer"]) == (0, 2)
    assert second["values"] == pytest.approx(stack[2][[1]][:, [3, 0]], abs=1e-5)
    assert second["heads"] == [1]


@pytest.mark.parametrize("layers", [1, [1], "1", "1:2", "-2"])
def test_an_index_may_be_a_number_a_list_or_the_string_of_a_query(stack, layers):
    (shown,) = read(stack, layers=layers, queries="all", heads="all")
    assert shown["values"] == pytest.approx(stack[1], abs=1e-5)


@pytest.mark.parametrize("fusion", ["max", "min"])
def test_rows_fused_by_max_or_min_are_not_said_to_sum_to_one(stack, fusion):
    (shown,) = read(stack, heads=fusion, queries="all")
    assert shown["values"][0] == pytest.approx(getattr(stack[-1], fusion)(0), abs=1e-5)
    assert shown["normalized"] is False


def test_digits_are_the_decimals_of_a_value(stack):
    (shown,) = read(stack, digits=2)
    assert all(len(f"{value:.7g}") <= 4 for value in shown["values"].ravel())


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_rollout_is_the_product_of_the_layers_with_their_residuals(stack, fusion):
    joint = np.eye(TOKENS)
    for layer in stack.astype(np.float64):  # Abnar & Zuidema 2020, from the first layer up
        mixed = getattr(layer, fusion)(0) + np.eye(TOKENS)
        joint = mixed / mixed.sum(1, keepdims=True) @ joint
    (shown,) = read(stack, method="rollout", heads=fusion, queries="all", digits=9)
    assert shown["values"][0] == pytest.approx(joint, abs=1e-7)
    assert shown["values"][0].sum(-1) == pytest.approx(1, abs=1e-6)
    assert (shown["layer"], shown["layers"]) == (None, [0, 1, 2])


def test_rollout_from_a_later_layer_leaves_out_the_earlier_ones(stack):
    (shown,) = read(stack, method="rollout", layers="2:", queries="all", digits=9)
    mixed = (stack[2].astype(np.float64).mean(0) + np.eye(TOKENS)) / 2
    assert shown["values"][0] == pytest.approx(mixed, abs=1e-6)


def test_rollout_of_layers_that_look_only_at_themselves_is_the_identity():
    identity = np.broadcast_to(np.eye(TOKENS, dtype=np.float32), (LAYERS, HEADS, TOKENS, TOKENS))
    (shown,) = read(identity, method="rollout", queries="all")
    assert np.array_equal(shown["values"][0], np.eye(TOKENS))


def test_the_estimated_size_is_an_upper_bound_of_the_answer_and_not_far_above_it(stack):
    for options in ({}, {"layers": "all", "heads": "all", "queries": "all"}, {"method": "rollout", "queries": "all"}):
        for digits in (1, 5, 9):
            ask = resolve(parse(AttentionOptions, {**options, "digits": digits}, strings=False), vit())
            size = len(orjson.dumps(ask.read({"encoder": stack}), option=orjson.OPT_SERIALIZE_NUMPY))
            estimated = ask.size({"image": TOKENS})
            assert size <= estimated <= 2.5 * size + 256


def test_an_answer_past_the_limit_is_refused_with_both_sizes():
    ask = resolve(parse(AttentionOptions, {"layers": "all", "heads": "all", "queries": "all"}, strings=False), vit())
    with pytest.raises(
        TooLarge, match=r"attention: at most 1000 bytes an answer, this one would have \d+; ask for fewer"
    ):
        ask.check_size([{"image": TOKENS}], 1000)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layers": 99}, "layers: must be from -3 to 2, given 99"),
        ({"heads": -13}, "heads: must be from -2 to 1, given -13"),
        ({"layers": "3:9"}, "layers: a range must hold some of the 3"),
        ({"queries": "banana"}, "queries: must be 'all', 'cls', an index"),
        ({"queries": []}, "queries: must be"),
        ({"heads": "median"}, "heads: must be 'all', 'mean', 'max', 'min'"),
        ({"layers": [0, 1, 0]}, "layers: each may be given once"),
        ({"layers": [0, -3]}, "layers: each may be given once"),
        ({"layers": [0] * 10**6}, "layers: must be"),
        ({"layers": 1.5}, "layers: must be"),
        ({"layers": True}, "layers: must be"),
        ({"layers": "1" * 5000}, "layers: must be"),
        ({"digits": 0}, "digits: Input should be greater than or equal to 1, given 0"),
        ({"digits": 10}, "digits: Input should be less than or equal to 9, given 10"),
        ({"kind": "cross"}, "kind: this model has encoder, given cross"),
        ({"method": "norm"}, "method norm: this model serves raw, rollout"),
        ({"method": "relevance"}, "method relevance: this model serves raw, rollout"),
        ({"method": "guess"}, "method: Input should be 'raw', 'rollout'"),
        ({"target": 3}, "target: this model serves raw, rollout, and neither takes a target"),
        ({"format": "npz"}, "format: must be json"),
        ({"method": "rollout", "heads": "all"}, "heads: rollout fuses them, by mean, max or min"),
        ({"method": "rollout", "heads": [0]}, "heads: rollout fuses them"),
        ({"colour": "red"}, "options: unknown option; known are digits, format, heads"),
    ],
)
def test_what_the_model_cannot_show_is_refused_with_the_reason(options, words):
    with pytest.raises(Unacceptable, match=words):
        resolve(parse(AttentionOptions, options, strings=False), vit())


def test_a_row_that_the_input_does_not_have_is_refused(stack):
    with pytest.raises(Unacceptable, match="queries: must be from -5 to 4, given 7"):
        read(stack, queries=[7])


def test_rollout_is_refused_where_rows_do_not_sum_to_one():
    with pytest.raises(
        Unacceptable, match="method rollout: needs maps of tokens onto themselves whose rows sum to one"
    ):
        resolve(parse(AttentionOptions, {"method": "rollout"}, strings=False), vit(normalized=False))


def test_the_class_token_is_refused_where_there_is_none():
    kind = Kind(kind="encoder", maps=("a",), heads=1, query="source", key="source", normalized=True)
    with pytest.raises(Unacceptable, match="queries: cls needs a class token"):
        resolve(parse(AttentionOptions, {"queries": "cls"}, strings=False), manifest_of(attention=(kind,)))


def test_select_counts_negative_indices_from_the_end():
    assert select("rows", (-1, 0), 4) == [3, 0]
    assert select("rows", slice(-2, None), 4) == [2, 3]
    assert select("rows", "all", 3) == [0, 1, 2]
