"""docs/quality.md and the recommendations are those of the results beside it."""

import json

import pytest

from benchmarks.quality import page
from benchmarks.quality.__main__ import PAGE, PARTS, RESULTS
from contract.manifest import Recommendation
from model.catalogue import BUNDLED

FOUND = json.loads(RESULTS.read_text())


def test_every_part_was_measured():
    assert FOUND.keys() == PARTS.keys()


def test_the_page_is_that_of_the_results():
    assert PAGE.read_text() == page.written(FOUND), "run: make quality"


def test_the_recommendations_are_those_of_the_results():
    kept = {
        file.parent.name: Recommendation.model_validate_json(file.read_text()) for file in BUNDLED.glob("*/best.json")
    }
    assert kept == page.recommendations(FOUND), "run: make quality"


def test_the_best_method_is_that_with_the_best_figure():
    for best in page.recommendations(FOUND).values():
        ends = {"lower": min, "higher": max}[best.measure.rpartition(", ")[2].split()[0]]
        assert best.values[best.method] == ends(best.values.values())


def test_of_equal_figures_that_with_more_mass_on_the_truth_is_best():
    methods = {
        name: {"error": error, "interval": [0, 1], "mass": mass}
        for name, error, mass in (("raw", 0.0, 0.7), ("libra", 0.0, 0.8), ("norm", 0.1, 0.9))
    }
    found = page.recommendations({"dates": {"methods": methods}})
    assert found["dates"].method == "libra"
    assert found["dates"].values == {"raw": 0.0, "libra": 0.0, "norm": 0.1}


def test_what_was_not_measured_is_said_to_be_missing():
    written = page.written({name: own for name, own in FOUND.items() if name not in ("minilm", "judge")})
    assert written.count(page.NOT_MEASURED) == 3  # two tables, and what one of them says in short


def test_a_figure_of_several_seeds_has_its_least_and_its_most():
    assert page.spread([0.5, 0.75, 1.0]) == "0.750 (0.500 to 1.000)"
    assert page.spread([1.0, 1.0]) == "1.000"


@pytest.mark.parametrize("name", ["digits", "dates", "dates-clm", "dates-mlm", "dates-tags", "dates-rank", "minilm"])
def test_no_method_of_a_bundled_model_was_left_out(name):
    methods = page.recommendations(FOUND)[name].values
    wanted = {"raw", "rollout", "norm", "relevance", "libra", "integrated"} - (
        {"rollout"} if name == "dates" else set()
    )
    assert methods.keys() == wanted
