"""Evaluations as JSON: the curves of one map beside a random order, or a row for each method."""

import numpy as np
import orjson
import pytest

from service.explanations.evaluation import FRACTIONS, Evaluation, Score, area
from tests.samples.attention_queries import dumped

CLASS = Score("probability", "seven", {"target": 7})


def curves(*orders, names=("deletion", "insertion")):
    """Return random curves for some orders and the random one."""
    random = np.random.default_rng(0)
    return {order: {name: random.random(11) for name in names} for order in (*orders, "random")}


def shown(evaluation):
    return orjson.loads(dumped(evaluation.json()))


def test_the_curves_of_a_map_stand_beside_those_of_the_random_order():
    found = curves("libra")
    answer = shown(Evaluation(CLASS, "patches", found, compared=False, digits=3))
    assert answer.keys() == {"target", "measure", "fractions", "curves"}
    assert (answer["target"], answer["measure"]) == (7, "probability")
    assert answer["fractions"] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert [one["name"] for one in answer["curves"]] == ["deletion", "insertion"]
    for curve in answer["curves"]:
        for said, order in ((curve, "libra"), (curve["random"], "random")):
            assert said["probabilities"] == pytest.approx(found[order][curve["name"]].round(3))
            assert said["area"] == pytest.approx(area(found[order][curve["name"]]), abs=5.1e-4)
        assert curve["random"]["seed"] == 0


def test_one_curve_is_answered_where_one_is_asked_for():
    answer = shown(Evaluation(CLASS, "patches", curves("raw", names=("insertion",)), compared=False, digits=3))
    assert [one["name"] for one in answer["curves"]] == ["insertion"]


def test_a_comparison_has_a_row_for_each_method_in_their_order_and_one_for_the_random_order():
    found = curves("raw", "rollout", "libra")
    token = Score("probability", "2021", {"target": 12, "position": 3})
    answer = shown(Evaluation(token, "tokens", found, compared=True, digits=4))
    assert answer.keys() == {"target", "position", "measure", "fractions", "compare"}
    assert [row["method"] for row in answer["compare"]] == ["raw", "rollout", "libra", "random"]
    assert [row.get("seed") for row in answer["compare"]] == [None, None, None, 0]
    for row in answer["compare"]:
        for name in ("deletion", "insertion"):
            curve = found[row["method"]][name]
            assert row[name]["probabilities"] == pytest.approx(curve.round(4))
            assert row[name]["area"] == pytest.approx(area(curve), abs=5.1e-5)


@pytest.mark.parametrize(
    ("curve", "expected"),
    [(np.ones(11), 1), (np.zeros(11), 0), (FRACTIONS, 0.5), (FRACTIONS**2, 0.335), (np.eye(11)[0], 0.05)],
)
def test_the_area_is_that_of_straight_lines_between_the_points(curve, expected):
    assert area(curve) == pytest.approx(expected)
    assert area(curve) == pytest.approx(np.trapezoid(curve, dx=0.1))
