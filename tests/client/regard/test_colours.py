import numpy as np
import pytest
from regard import colours

from service.explanations import colormaps


def test_the_tables_are_those_of_the_service():
    np.testing.assert_array_equal(colours.HEAT, colormaps.COLORMAPS["viridis"])
    np.testing.assert_array_equal(colours.SIGNED, colormaps.SIGNED)
    np.testing.assert_array_equal(colours.AGAINST_AND_FOR, colormaps.AGAINST_AND_FOR)


def test_a_share_has_the_nearest_colour():
    found = colours.hexes(np.array([0, 0.5, 1]), colours.SIGNED)
    assert found == ["#053061", "#ffffff", "#67001f"]


@pytest.mark.parametrize(("ground", "ink"), [("#ffffff", "#000000"), ("#fde725", "#000000"), ("#053061", "#ffffff")])
def test_letters_are_black_on_what_is_bright(ground, ink):
    assert colours.ink_on(ground) == ink
