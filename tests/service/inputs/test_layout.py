"""Where nodes are drawn: as far apart as there are edges between them."""

import numpy as np
import pytest

from service.inputs.layout import GAP, layout

SIX = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


def apart(places):
    return np.linalg.norm(places[:, None] - places, axis=-1)


def test_a_path_is_drawn_as_a_line_of_equal_steps():
    found = apart(layout(6, SIX))
    steps = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(found / found[0, 5] * 5, steps, atol=0.02)


def test_a_cycle_is_drawn_as_a_regular_polygon():
    found = apart(layout(6, [*SIX, (5, 0)]))
    np.testing.assert_allclose(found[0, 1:] / found[0, 1], [1, 3**0.5, 2, 3**0.5, 1], atol=0.02)


@pytest.mark.parametrize(
    ("count", "links"),
    [(1, []), (1, [(0, 0)]), (2, [(0, 1)]), (3, []), (8, [(0, node) for node in range(1, 8)]), (5, [(0, 1), (3, 4)]),
     (18, [(end, node) for end in (0, 1) for node in range(2, 18)]), (128, [])],
)  # fmt: skip
def test_places_fill_a_square_and_none_lies_on_another(count, links):
    places = layout(count, links)
    assert places.shape == (count, 2)
    assert places.min() > -1e-9
    assert places.max() < 1 + 1e-9
    if count > 1:
        assert np.ptp(places, axis=0).max() == pytest.approx(1)
        nearest = (apart(places) + np.eye(count)).min()
        assert nearest > 0.8 * min(GAP, 1 / (1 + count**0.5))
    np.testing.assert_array_equal(places, layout(count, links))


def test_parts_that_no_path_links_lie_farther_from_one_another_than_their_nodes():
    found = apart(layout(6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]))
    assert found[:3, :3].max() < found[:3, 3:].min()
