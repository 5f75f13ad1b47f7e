"""Attention queries: what is asked of the graph, and which queries are refused."""

import numpy as np
import pytest

from service.errors import TooLarge, Unacceptable
from service.explanations.query import resolve, select
from service.options import AttentionOptions, parse
from tests.samples.attention_queries import TOKENS, asked, part, read, translator, vit


def test_the_last_layer_the_mean_of_heads_and_the_class_token_are_asked_for_unless_told_otherwise():
    reading, asked_of = part(asked())
    assert (reading.method, reading.fusion, reading.diagnose) == ("raw", "mean", False)
    assert (asked_of.layers, asked_of.heads, asked_of.rows) == ((2,), (), (0,))
    (shown,) = read(np.zeros((1, 1, 1, TOKENS)), asked())
    assert shown.entry == {"name": "a.2", "kind": "encoder", "layer": 2, "heads": "mean", "normalized": True}


def test_layers_heads_and_queries_are_asked_for_by_index():
    reading, asked_of = part(asked(layers=[0, -1], heads=[1], queries=[3, 0]))
    assert (reading.fusion, asked_of.layers, asked_of.heads, asked_of.rows) == ("each", (0, 2), (1,), (3, 0))


@pytest.mark.parametrize("layers", [1, [1], "1", "1:2", "-2"])
def test_an_index_may_be_a_number_a_list_or_the_string_of_a_query(layers):
    _, asked_of = part(asked(layers=layers, queries="all", heads="all"))
    assert (asked_of.layers, asked_of.heads, asked_of.rows) == ((1,), (0, 1), None)


def test_layers_come_back_in_the_order_they_were_asked_for():
    stack = np.arange(2.0).reshape(1, 2, 1, 1).repeat(TOKENS, -1)  # the graph's order is that of the model
    first, second = read(stack, asked(layers=[2, 0]))
    assert (first.entry["layer"], first.values[0, 0, 0]) == (2, 1)
    assert (second.entry["layer"], second.values[0, 0, 0]) == (0, 0)


@pytest.mark.parametrize("fusion", ["max", "min"])
def test_rows_fused_by_max_or_min_are_not_said_to_sum_to_one(fusion):
    (shown,) = read(np.zeros((1, 1, 1, TOKENS)), asked(heads=fusion))
    assert shown.entry["normalized"] is False


def test_rollout_is_through_all_layers_fused_by_the_mean_unless_told_otherwise():
    reading, asked_of = part(asked(method="rollout"))
    assert (reading.method, reading.fusion, asked_of.layers) == ("rollout", "mean", (0, 1, 2))
    (shown,) = read(np.zeros((1, 1, 1, TOKENS)), asked(method="rollout"))
    assert (shown.entry["layer"], shown.entry["layers"], shown.entry["normalized"]) == (None, [0, 1, 2], True)


def test_rollout_has_its_own_words_for_heads_and_layers_and_a_share_to_discard():
    reading, asked_of = part(asked(method="rollout", fusion="max", start_layer=1, discard=0.5))
    assert (reading.fusion, asked_of.layers, asked_of.discard) == ("max", (1, 2), TOKENS * TOKENS // 2)
    assert part(asked(method="rollout", start_layer=-1))[1].layers == (2,)


def test_the_share_to_discard_is_that_of_each_kind():
    lengths = {"source": 20, "target": 11, "target_input": 11}
    ask = asked(translator(), method="rollout", discard=0.5)
    assert [part(ask, kind, **lengths)[1].discard for kind in ("encoder", "decoder", "cross")] == [200, 60, 0]


def test_norm_is_of_the_sum_over_heads():
    (shown,) = read(np.zeros((1, 1, 1, TOKENS)), asked(method="norm"))
    assert (shown.entry["heads"], shown.entry["normalized"], shown.entry["layer"]) == ("sum", False, 2)


def test_kinds_that_are_not_asked_for_have_no_rows():
    lengths = {"source": 4, "target": 3, "target_input": 3}
    assert part(asked(translator(), kind="cross"), "encoder", **lengths)[1].rows == ()
    assert part(asked(translator(), kind="cross"), "cross", **lengths)[1].rows is None
    assert part(asked(translator(), method="rollout"), "cross", **lengths)[1].rows == ()


def test_rows_at_which_tokens_are_the_input_are_one_further():
    lengths = {"source": 4, "target": 4, "target_input": 4}  # three tokens, of which the last is fed too
    ask = asked(translator(), kind="cross", align="input", queries=[0, -1])
    assert part(ask, "cross", **lengths)[1].rows == (1, 3)
    whole = asked(translator(), kind="cross", align="input")
    assert part(whole, "cross", **lengths)[1].rows is None
    stack = np.arange(4.0)[:, None].repeat(4, 1)[None, None]
    (shown,) = whole.read(whole.reading(lengths), lengths, {"cross": stack})
    assert shown.values[0, :, 0].tolist() == [1, 2, 3]
    assert shown.rows == (0, 1, 2)


def test_inputs_with_the_same_controls_share_a_bucket():
    short, long = {"image": 3}, {"image": TOKENS}
    assert asked(queries="all").reading(short) == asked(queries="all").reading(long)
    assert asked(queries=-1).reading(short) != asked(queries=-1).reading(long)
    assert asked(method="rollout").reading(long) != asked().reading(long)
    assert hash(asked().reading(long)) == hash(asked(layers=2).reading(long))


def test_the_controls_of_a_batch_are_those_of_its_longest_input():
    special = {"image": np.zeros((2, TOKENS), bool)}
    feed = asked(queries="all", heads=[1]).reading({"image": 3}).feed({"image": TOKENS}, special)
    assert {name: array.tolist() for name, array in feed.items() if name != "encoder.special"} == {
        "method": 0, "fusion": 0, "diagnose": False, "encoder.discard": 0, "encoder.layers": [2], "encoder.heads": [1],
        "encoder.rows": [0, 1, 2, 3, 4],
    }  # fmt: skip


def test_an_answer_past_the_limit_is_refused_with_both_sizes():
    ask = asked(layers="all", heads="all", queries="all")
    with pytest.raises(
        TooLarge, match=r"attention: at most 1000 bytes an answer, this one would have \d+; ask for fewer"
    ):
        ask.check_size([ask.size({"image": TOKENS})], 1000)


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
        ({"method": "guess"}, "method: Input should be 'raw', 'rollout'"),
        ({"target": 3}, "target: is for relevance"),
        ({"method": "relevance", "target": [1.5]}, "target: must be 1 to 256 indices or labels"),
        ({"method": "relevance", "target": 5}, "target: must be from 0 to 2 or a label, given another"),
        ({"method": "relevance", "target": "-1"}, "target: must be from 0 to 2 or a label"),
        ({"method": "relevance", "target": "dog"}, "target: must be from 0 to 2 or a label"),
        ({"method": "relevance", "target": "0,0"}, "target: must be at most 256, each once, given 2"),
        ({"method": "relevance", "target": "0," * 300 + "1"}, "target: must be at most 256, each once"),
        ({"evaluate": "deletion", "layers": "all"}, "evaluate: needs one map of one row"),
        ({"evaluate": "deletion", "heads": "all"}, "evaluate: needs one map of one row"),
        ({"evaluate": "deletion", "queries": [1, 2]}, "evaluate: needs one map of one row"),
        ({"evaluate": "deletion", "method": "relevance", "target": "0,1"}, "evaluate: needs one map of one row"),
        ({"method": "relevance", "target": []}, "target: must be 1 to 256 indices or labels"),
        ({"method": "relevance", "heads": "max"}, "heads: relevance is the mean over heads"),
        ({"method": "norm", "heads": "all"}, "heads: norm is of the sum over all heads"),
        ({"method": "rollout", "heads": "all"}, "heads: rollout fuses them, by mean, max or min"),
        ({"method": "rollout", "heads": [0]}, "heads: rollout fuses them"),
        ({"method": "rollout", "heads": "max", "fusion": "max"}, "fusion: says what heads does"),
        ({"method": "rollout", "layers": 1, "start_layer": 1}, "start_layer: says what layers does"),
        ({"method": "rollout", "start_layer": 3}, "start_layer: must be from -3 to 2, given 3"),
        ({"method": "rollout", "discard": 1.5}, "discard: Input should be less than 1, given 1.5"),
        ({"method": "rollout", "discard": -0.1}, "discard: Input should be greater than or equal to 0"),
        ({"discard": 0.5}, "discard: is for rollout"),
        ({"start_layer": 0}, "start_layer: is for rollout"),
        ({"fusion": "max"}, "fusion: is for rollout"),
        ({"hard": True}, "hard: is read off cross"),
        ({"steps": True}, "steps: is read off cross"),
        ({"align": "input"}, "align: is for raw, rollout and norm of generated tokens"),
        ({"merge": "words"}, "merge: is for texts"),
        ({"evaluate": "erosion"}, "evaluate: must be some of deletion, insertion"),
        ({"evaluate": "deletion,deletion"}, "evaluate: must be some of"),
        ({"format": "bmp"}, "format: Input should be 'json', 'npz' or 'png'"),
        ({"opacity": 1.5}, "opacity: Input should be less than or equal to 1"),
        ({"colormap": "jet"}, "colormap: Input should be 'viridis'"),
        ({"colour": "red"}, "options: unknown option; known are align, colormap"),
    ],
)
def test_what_the_model_cannot_show_is_refused_with_the_reason(options, words):
    with pytest.raises(Unacceptable, match=words):
        asked(**options)


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("rollout", "needs maps of tokens onto themselves whose rows sum to one"),
        ("norm", "needs values that are joined by one projection"),
        ("relevance", "needs a class or token to explain"),
    ],
)
def test_a_method_that_the_model_cannot_serve_is_refused_with_the_reason_and_those_it_serves(method, reason):
    with pytest.raises(Unacceptable, match=f"method {method}: {reason}.*; this model serves raw"):
        asked(vit("raw"), method=method)


def test_a_method_that_only_another_kind_can_serve_is_refused_for_this_one():
    with pytest.raises(Unacceptable, match=r"method rollout: .*, not cross of this model"):
        asked(translator(), method="rollout", kind="cross")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("tench, Tinca tinca", (0,)), (["tench, Tinca tinca", "1"], (0, 2)), ("1", (2,)), ("1,cat", (2, 1)),
        ("cat, 0", (1, 0)), (1, (1,)), ([1, 2], (1, 2)), ("2", (2,)),
    ],
)  # fmt: skip
def test_a_label_is_a_label_before_it_is_a_number_or_a_list(given, wanted):
    model = vit().model_copy(update={"labels": ("tench, Tinca tinca", "cat", "1")})
    ask = resolve(parse(AttentionOptions, {"method": "relevance", "target": given}, strings=False), model)
    assert ask.targets == wanted


def test_a_row_that_the_input_does_not_have_is_refused():
    with pytest.raises(Unacceptable, match="queries: must be from -5 to 4, given 7"):
        part(asked(queries=[7]))


def test_the_class_token_is_refused_where_there_is_none():
    with pytest.raises(Unacceptable, match="queries: cls needs a class token"):
        asked(translator(), queries="cls")


def test_select_counts_negative_indices_from_the_end():
    assert select("rows", (-1, 0), 4) == [3, 0]
    assert select("rows", slice(-2, None), 4) == [2, 3]
    assert select("rows", "all", 3) == [0, 1, 2]
