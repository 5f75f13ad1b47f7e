import numpy as np
import pytest

from service.explanations.scale import count_above, end_of_colours, matrix_range, overlay_range


def of_sizes(count):
    return np.arange(1.0, count + 1)


@pytest.mark.parametrize(("count", "end"), [(1, 1), (49, 49), (50, 49), (100, 98), (256, 251)])
def test_colours_end_at_the_98th_percentile_by_nearest_rank(count, end):
    values = np.random.default_rng(0).permutation(of_sizes(count)).reshape(-1, 1)
    assert end_of_colours(values) == end
    assert end_of_colours(-values) == end
    assert end_of_colours(np.concatenate([values, np.zeros((900, 1))])) == end, "zeros do not count"


def test_at_most_half_of_the_sum_is_above():
    values = np.full(256, 1e-5)
    values[:3] = 0.2, 0.3, 0.4
    assert end_of_colours(values) == 0.3
    assert end_of_colours(np.eye(16)[0] * 0.99 + 1e-5) == pytest.approx(0.99001)
    assert count_above(values, overlay_range(values, signed=False)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_at_most_two_per_cent_are_above_and_the_order_below_is_kept(seed):
    values = np.random.default_rng(seed).exponential(size=(16, 16)) ** 2
    found = overlay_range(values, signed=False)
    assert count_above(values, found) <= 0.02 * values.size
    assert values[values > found.high].sum() <= values.sum() / 2
    shares, below = found.shares(values), values < found.high
    assert (np.diff(shares[below][np.argsort(values[below])]) >= 0).all()


def test_maps_without_differences_are_cold():
    for value in (0.0, 0.25, -3.0, 5e-324):
        assert (overlay_range(np.full((7, 7), value), signed=False).shares(np.full((7, 7), value)) == 0).all()
    assert (overlay_range(np.zeros((7, 7)), signed=True).shares(np.zeros((7, 7))) == 0.5).all()


def test_the_range_is_that_of_signed_sizes_or_of_what_is_above_zero():
    values = np.array([[-5.0, 1.0], [2.0, 3.0]])
    assert overlay_range(values, signed=True) == matrix_range(values, signed=True)
    assert (overlay_range(values, signed=True).low, overlay_range(values, signed=True).high) == (-5, 5)
    assert (overlay_range(values, signed=False).low, overlay_range(values, signed=False).high) == (-5, 3)
    assert count_above(values, overlay_range(values, signed=False, scale="full")) == 0, "the coldest is not above"
    below = np.array([[-5.0, -1.0]])
    assert (overlay_range(below, signed=False).low, overlay_range(below, signed=False).high) == (-5, -1)
    many = np.random.default_rng(0).exponential(size=(16, 16))
    assert overlay_range(many, signed=False, scale="full").high == many.max() > overlay_range(many, signed=False).high
