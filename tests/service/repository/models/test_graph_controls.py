"""The controls of an attention graph: what a query asks of it, and the maps read from its outputs."""

import numpy as np
import pytest

from service.errors import Unacceptable
from service.repository.models.graph_controls import controls_of, read_diagnostics, read_maps
from tests.samples.attention_queries import TOKENS, finder, query_of, read, translator
from tests.samples.attention_queries import controls as controls_for


def test_the_last_layer_the_mean_of_heads_and_the_class_token_are_asked_for_unless_told_otherwise():
    controls, of_kind = controls_for(query_of())
    assert (controls.method, controls.fusion, controls.diagnose) == ("raw", "mean", False)
    assert (of_kind.layers, of_kind.heads, of_kind.rows) == ((2,), (), (0,))
    (shown,) = read(np.zeros((1, 1, 1, TOKENS)), query_of())
    assert shown.entry == {"name": "a.2", "kind": "encoder", "layer": 2, "heads": "mean", "normalized": True}


def test_layers_heads_and_queries_are_asked_for_by_index():
    controls, of_kind = controls_for(query_of(layers=[0, -1], heads=[1], queries=[3, 0]))
    assert (controls.fusion, of_kind.layers, of_kind.heads, of_kind.rows) == ("each", (0, 2), (1,), (3, 0))


@pytest.mark.parametrize("layers", [1, [1], "1", "1:2", "-2"])
def test_an_index_may_be_a_number_a_list_or_the_string_of_a_query(layers):
    _, of_kind = controls_for(query_of(layers=layers, queries="all", heads="all"))
    assert (of_kind.layers, of_kind.heads, of_kind.rows) == ((1,), (0, 1), None)


def test_layers_come_back_in_the_order_they_were_asked_for():
    stack = np.arange(2.0).reshape(1, 2, 1, 1).repeat(TOKENS, -1)  # the graph's order is that of the model
    first, second = read(stack, query_of(layers=[2, 0]))
    assert (first.entry["layer"], first.values[0, 0, 0]) == (2, 1)
    assert (second.entry["layer"], second.values[0, 0, 0]) == (0, 0)


@pytest.mark.parametrize("fusion", ["max", "min"])
def test_rows_fused_by_max_or_min_are_not_said_to_sum_to_one(fusion):
    (shown,) = read(np.zeros((1, 1, 1, TOKENS)), query_of(heads=fusion))
    assert shown.entry["normalized"] is False


def test_rollout_is_through_all_layers_fused_by_the_mean_unless_told_otherwise():
    controls, of_kind = controls_for(query_of(method="rollout"))
    assert (controls.method, controls.fusion, of_kind.layers) == ("rollout", "mean", (0, 1, 2))
    (shown,) = read(np.zeros((1, 1, 1, TOKENS)), query_of(method="rollout"))
    assert (shown.entry["layer"], shown.entry["layers"], shown.entry["normalized"]) == (None, [0, 1, 2], True)


def test_rollout_has_its_own_words_for_heads_and_layers_and_a_share_to_discard():
    controls, of_kind = controls_for(query_of(method="rollout", fusion="max", start_layer=1, discard=0.5))
    assert (controls.fusion, of_kind.layers, of_kind.discard) == ("max", (1, 2), TOKENS * TOKENS // 2)
    assert controls_for(query_of(method="rollout", start_layer=-1))[1].layers == (2,)


@pytest.mark.parametrize("share", [0.29, 0.47, 0.57, 0.59, 0.83, 0.94])
def test_a_share_to_discard_is_exact(share):
    """0.29 of 100 is 29, but 0.29 * 100 is less in floats."""
    _, of_kind = controls_for(query_of(method="rollout", discard=share))
    assert of_kind.discard == round(100 * share) * TOKENS**2 // 100


def test_the_share_to_discard_is_that_of_each_kind():
    lengths = {"source": 20, "target": 11, "target_input": 11}
    query = query_of(translator(), method="rollout", discard=0.5)
    assert [controls_for(query, kind, **lengths)[1].discard for kind in ("encoder", "decoder", "cross")] == [200, 60, 0]


def test_norm_is_of_the_sum_over_heads():
    (shown,) = read(np.zeros((1, 1, 1, TOKENS)), query_of(method="norm"))
    assert (shown.entry["heads"], shown.entry["normalized"], shown.entry["layer"]) == ("sum", False, 2)


def test_figures_are_means_over_the_rows_of_cells_that_are_seen():
    query = query_of(finder(), method="raw", digits=9)
    seen = np.array([True, True, False, True, False, False])
    rng = np.random.default_rng(0)
    stacks = {kind.name: np.zeros((2, 2, 0, 6 if kind.grid else 4)) for kind in query.model_kinds}
    shapes = {"encoder": (6, 3), "decoder": (4, 2), "cross": (4, 2)}  # queries; of cells there is a distance, too
    figures = {name: rng.random((2, 2, *shape)) for name, shape in shapes.items()}
    stacks |= {f"{name}.diagnostics": own for name, own in figures.items()}
    encoder, decoder, cross = read_diagnostics(query, stacks, seen)
    assert encoder["entropy"] == pytest.approx(figures["encoder"][:, :, seen, 0].mean(-1))
    assert encoder["distance"] == pytest.approx(figures["encoder"][:, :, seen, 2].mean(-1))
    assert decoder["special"] == pytest.approx(figures["decoder"][..., 1].mean(-1))
    assert cross["entropy"] == pytest.approx(figures["cross"][..., 0].mean(-1))
    most = [one["max_entropy"] for one in (encoder, decoder, cross)]
    assert most == pytest.approx([np.log(3), np.log(4), np.log(3)])


def test_kinds_that_are_not_asked_for_have_no_rows():
    lengths = {"source": 4, "target": 3, "target_input": 3}
    assert controls_for(query_of(translator(), kind="cross"), "encoder", **lengths)[1].rows == ()
    assert controls_for(query_of(translator(), kind="cross"), "cross", **lengths)[1].rows is None
    assert controls_for(query_of(translator(), method="rollout"), "cross", **lengths)[1].rows == ()


def test_rows_at_which_tokens_are_the_input_are_one_further():
    lengths = {"source": 4, "target": 4, "target_input": 4}  # three tokens, of which the last is fed too
    query = query_of(translator(), kind="cross", align="input", queries=[0, -1])
    assert controls_for(query, "cross", **lengths)[1].rows == (1, 3)
    whole = query_of(translator(), kind="cross", align="input")
    assert controls_for(whole, "cross", **lengths)[1].rows is None
    stack = np.arange(4.0)[:, None].repeat(4, 1)[None, None]
    (shown,) = read_maps(whole, controls_of(whole, lengths), lengths, {"cross": stack})
    assert shown.values[0, :, 0].tolist() == [1, 2, 3]
    assert shown.rows == (0, 1, 2)


def test_inputs_with_the_same_controls_share_a_bucket():
    short, long = {"image": 3}, {"image": TOKENS}
    assert controls_of(query_of(queries="all"), short) == controls_of(query_of(queries="all"), long)
    assert controls_of(query_of(queries=-1), short) != controls_of(query_of(queries=-1), long)
    assert controls_of(query_of(method="rollout"), long) != controls_of(query_of(), long)
    assert hash(controls_of(query_of(), long)) == hash(controls_of(query_of(layers=2), long))


def test_the_controls_of_a_batch_are_those_of_its_longest_input():
    special = {"image": np.zeros((2, TOKENS), bool)}
    feed = controls_of(query_of(queries="all", heads=[1]), {"image": 3}).feed({"image": TOKENS}, special)
    assert {name: array.tolist() for name, array in feed.items() if name != "encoder.special"} == {
        "method": 0, "fusion": 0, "diagnose": False, "encoder.discard": 0, "encoder.sinks": 0,
        "encoder.layers": [2], "encoder.heads": [1], "encoder.rows": [0, 1, 2, 3, 4], "encoder.after": [],
    }  # fmt: skip


def test_a_row_that_the_input_does_not_have_is_refused():
    with pytest.raises(Unacceptable, match="queries: must be from -5 to 4, given 7"):
        controls_for(query_of(queries=[7]))
