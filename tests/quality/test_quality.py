"""Do maps name the evidence, on models of which it is known; the numbers are in docs/attention.md."""

import pytest
import torch

from tests.quality.recipes import (
    METHODS,
    Definition,
    Graphs,
    alignment,
    digit_curves,
    exported,
    likeness_to_random,
    plain_dates,
    pointing,
    reversals,
    reverser,
    spotter,
)

pytestmark = pytest.mark.slow  # it trains what it looks at: more than a minute


@pytest.fixture(scope="module", autouse=True)
def alike():
    """Train the same weights whenever this runs on one machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def spots(alike, tmp_path_factory):
    return exported(spotter(seed=0), tmp_path_factory.mktemp("spots"))


@pytest.fixture(scope="module")
def reversal(alike):
    return alignment(Definition(reverser(seed=0)), *reversals(300, torch.Generator().manual_seed(10**6)))


@pytest.fixture(scope="module")
def dates(alike, artifacts):
    return alignment(Graphs(artifacts / "dates" / "1"), *plain_dates(100))


def test_relevance_points_at_the_one_textured_patch(spots):
    right, shares = pointing(spots, textured=1)
    assert right >= 0.98
    assert shares["relevance"] >= 0.95
    assert shares["relevance"] > shares["raw"]


def test_of_two_textured_patches_relevance_alone_points_at_the_one_that_is_asked_for(spots):
    right, shares = pointing(spots, textured=2)
    assert right >= 0.98
    assert shares["relevance"] >= 0.95
    for method in ("rollout", "raw", "norm"):  # which know of no class: at best right for one of two
        assert shares[method] <= 0.5


def test_relevance_depends_on_the_weights(spots):
    """Adebayo et al. 2018, section 3: the maps of a model that knows nothing are others."""
    assert abs(likeness_to_random(spots, seeds=range(100, 110)).mean()) < 0.3


def test_a_reversal_is_aligned_by_the_rows_that_emit(reversal):
    exact, wrong = reversal
    assert exact >= 0.98
    for method in ("raw", "norm"):
        assert min(wrong[method, "emit"]) < 0.1
        assert min(wrong[method, "input"]) > 0.5
    assert wrong["relevance", "emit"][0] < 0.3


def test_a_date_is_aligned_by_the_rows_that_emit(dates):
    exact, wrong = dates
    assert exact >= 0.98
    for method in ("raw", "norm"):
        *layers, _ = wrong[method, "emit"]
        assert min(layers) < 0.05
        assert min(wrong[method, "input"]) > 0.5
    assert wrong["relevance", "emit"][0] < 0.4


@pytest.fixture(scope="module")
def digits(alike, artifacts):
    return digit_curves(Graphs(artifacts / "digits" / "1"))


@pytest.mark.parametrize("method", METHODS)
def test_taking_what_a_map_of_a_digit_names_takes_the_digit(digits, method):
    areas = {name: [digits[one, name].mean() for one in (method, "random")] for name in ("deletion", "insertion")}
    assert areas["deletion"][0] < areas["deletion"][1] - 0.2
    assert areas["insertion"][0] > areas["insertion"][1] + 0.2
