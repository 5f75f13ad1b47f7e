"""Figures of heads over inputs, against the raw maps in float64."""

import numpy as np
import pytest
import regard
from regard.data_sets import Difference

from tests.client.conftest import SEVEN
from tests.conftest import ROOT

PICTURES = [SEVEN, ROOT / "tests/data/digits/four.webp", SEVEN]
WHOLE = {"layers": "all", "heads": "all", "queries": "all"}


def raw(model, given):
    """Return the weights of an input, (layers, heads, queries, keys)."""
    looks = model.attention_batch(given, method="raw", **WHOLE)
    return np.array([[one.values for one in look.attention.maps] for look in looks], np.float64)


def test_figures_of_heads_over_pictures_are_those_of_their_weights(digits):
    summary = regard.summarise(digits, PICTURES)["encoder"]
    weights = raw(digits, PICTURES)  # (pictures, layers, heads, 50, 50)
    entropy = -(weights * np.log(weights.clip(1e-30))).sum(-1).mean(-1)
    np.testing.assert_allclose(summary["entropy"], entropy, atol=2e-3)
    np.testing.assert_allclose(summary.mean["entropy"], entropy.mean(0), atol=2e-3)
    np.testing.assert_allclose(summary.spread["special"], weights[..., 0].mean(-1).std(0), atol=1e-3)
    np.testing.assert_allclose(summary["sink"], weights[..., 1:].mean(-2).max(-1), atol=1e-3)
    down, across = np.divmod(np.arange(49), 7)
    apart = 4 * np.hypot(down[:, None] - down, across[:, None] - across)  # pixels of 28 x 28
    looks = weights[..., 1:, 1:] / weights[..., 1:, 1:].sum(-1, keepdims=True)
    np.testing.assert_allclose(summary["distance"], (looks * apart).sum(-1).mean(-1), rtol=0.01)
    assert summary.spread["entropy"].max() > 0
    assert repr(summary) == "<encoder: entropy, special, distance, sink of 4 layers x 4 heads over 3 inputs>"
    row = summary.table()[5]
    assert (row["layer"], row["head"], row["entropy"]) == (1, 1, pytest.approx(entropy.mean(0)[1, 1], abs=2e-3))


def test_a_head_is_a_sink_in_the_share_of_inputs_in_which_it_is_one():
    """Of what a service answered."""
    one = regard.Diagnosis("encoder", 1.0, {"entropy": np.zeros((1, 2))}, [regard.maps.Sink(0, 1, 0.9)])
    other = regard.Diagnosis("encoder", 2.0, {"entropy": np.ones((1, 2))})
    found = regard.data_sets._summary("encoder", [one, other, other, other])
    assert found.sinks.tolist() == [[0, 0.25]]
    assert found.max_entropy.tolist() == [1, 2, 2, 2]


def test_inputs_go_in_batches_and_are_counted(dates, capsys):
    done = []
    found = regard.summarise(dates, (f"{day} may 1999" for day in range(1, 20)), progress=done.append)
    assert set(found) == {"encoder", "decoder", "cross"}
    assert found["cross"]["entropy"].shape == (19, 3, 4)
    assert done[-1] == 19
    assert len(done) > 1
    assert not capsys.readouterr().err
    regard.summarise(dates, ["1 may 1999"], progress=True)
    assert capsys.readouterr().err == "\r1 inputs\n"
    with pytest.raises(regard.BadInput, match="inputs: must be some"):
        regard.summarise(dates, [])


def test_two_models_differ_by_what_they_say_and_by_the_shares_of_their_maps(digits, dates):
    same = regard.difference(digits, digits, PICTURES, method="raw")
    assert same.flipped == []
    np.testing.assert_array_equal(same.distance, 0)
    assert repr(same) == "<digits and digits over 3 inputs: 0 flipped, maps 0.000 apart by raw>"
    with pytest.raises(regard.BadInput, match="second: must be a model of the same task"):
        regard.difference(digits, dates, PICTURES)


def test_the_distance_is_half_of_what_shares_differ_by_and_none_of_other_shapes():
    one, other = np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    assert regard.data_sets._distance(one, other) == pytest.approx((0.5 + 1.0) / 2)
    assert np.isnan(regard.data_sets._distance(one, other[:1]))
    found = Difference(("a", "b"), "raw", [("7", "7"), ("1", "4")], np.array([0.25, np.nan]))
    assert found.flipped == [1]
    assert repr(found) == "<a and b over 2 inputs: 1 flipped, maps 0.250 apart by raw>"
    assert "nan" in str(found.table())
    assert found.table()[0] == {"input": 0, "first": "7", "second": "7", "distance": 0.25}
