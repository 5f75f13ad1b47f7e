"""Measures of maps against numbers worked out by hand."""

import numpy as np
import pytest

from benchmarks.quality import measures

MAPS = np.array([[0.1, 0.6, -0.5, 0.3], [-1.0, -2.0, -3.0, -4.0], [5.0, 1.0, 2.0, 2.0]])
EVIDENCE = np.array([[False, True, True, False], [False, True, False, False], [True, False, True, False]])


def test_pointing_asks_whether_the_hottest_is_evidence():
    assert measures.hits(MAPS, EVIDENCE).tolist() == [1, 0, 1]


def test_mass_is_a_share_of_what_is_positive():
    assert measures.mass(MAPS, EVIDENCE) == pytest.approx([0.6, 0, 0.7])


def test_precision_takes_as_many_as_there_are():
    assert measures.precision(MAPS, EVIDENCE) == pytest.approx([0.5, 0, 1])


def test_padding_is_never_hot():
    maps = np.array([[-1.0, -2.0, -np.inf]])
    evidence = np.array([[True, False, False]])
    assert {name: one.tolist() for name, one in measures.located(maps, evidence).items()} == {
        "pointing": [1],
        "mass": [0],
        "precision": [1],
    }


def test_rank_correlation_is_that_of_spearman():
    stats = pytest.importorskip("scipy.stats")
    one, other = np.random.default_rng(0).normal(size=(2, 5, 9))
    expected = [stats.spearmanr(*pair).statistic for pair in zip(one, other, strict=True)]
    assert measures.rank_correlation(one, other) == pytest.approx(expected)


def test_the_interval_of_a_mean_is_two_standard_errors_to_each_side():
    mean, half = measures.interval(np.array([1.0, 2, 3, 4]))
    assert mean == 2.5
    assert half == pytest.approx(1.96 * np.std([1, 2, 3, 4], ddof=1) / 2)


def test_the_interval_of_a_share_is_not_empty_at_its_ends():
    low, high = measures.share_interval(0, 60)
    assert low == 0
    assert 0.05 < high < 0.07
    assert measures.share_interval(30, 60) == pytest.approx((0.377, 0.623), abs=1e-3)  # Wilson 1927


def some_patches(image, chosen):
    """Return an image of 4 x 3 patches of 3 x 2 pixels, black but for the chosen ones."""
    found = np.zeros_like(image)
    for patch in chosen:
        row, column = divmod(int(patch), 3)
        place = slice(3 * row, 3 * row + 3), slice(2 * column, 2 * column + 2)
        found[place] = image[place]
    return found


@pytest.mark.parametrize("name", ["deletion", "insertion"])
def test_curves_take_patches_away_hottest_first_or_put_them_back(name):
    rng = np.random.default_rng(0)
    pixels = rng.integers(1, 256, (3, 12, 6, 1), dtype=np.uint8)
    scores = rng.normal(size=(3, 12))
    seen = []

    def predict(images):
        seen.append(images)
        return images.mean((1, 2, 3)) / 255

    areas = measures.curve_areas(predict, pixels, (4, 3), {"own": scores})
    own = seen[:11] if name == "deletion" else seen[11:]
    assert len(seen) == 22
    for row in range(3):
        hottest_first = sorted(range(12), key=lambda patch, row=row: -scores[row, patch])
        for step, count in enumerate([0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12]):  # tenths of twelve, rounded
            chosen = hottest_first[count:] if name == "deletion" else hottest_first[:count]
            np.testing.assert_array_equal(own[step][row], some_patches(pixels[row], chosen))
    heights = np.array([one.mean((1, 2, 3)) / 255 for one in own])  # (step, image)
    assert areas["own"][name] == pytest.approx(np.trapezoid(heights, dx=0.1, axis=0))
