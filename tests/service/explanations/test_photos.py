"""What is seen of the maps of a real Vision Transformer (`photos`) over photographs, as `make quality` measures it."""

import functools

import numpy as np
import pytest

from benchmarks.quality.photos import STYLES, colours, seen
from service.explanations.drawing import Style
from tests.conftest import ROOT

BOXES = {"cat": (93.96, 18.75, 357.04, 281.25), "astronaut": (30, 30, 450, 450), "rocket": (100, 20, 380, 300)}
"""Where the model looks in each photograph."""
MAPS = ("rollout", "usual", "raw", "norm", *(f"head {head}" for head in range(6)))
"""Of the last layer, but for rollout, and rollout as it is usual of this model (without sinks, discard 0.9)."""


@functools.cache
def maps():
    """The maps of the class token, (16, 16), by photograph and name."""
    return dict(np.load(ROOT / "tests/data/photo_maps.npz"))


def file_of(photo):
    return ROOT / f"model/bundled/photos/examples/{photo}.jpg"


@functools.cache
def measured(photo, name, style):
    return seen(file_of(photo), BOXES[photo], maps()[f"{photo}/{name}"].astype(float), style)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("photo", BOXES)
def test_a_map_is_seen(photo, name):
    changed, mass, order = measured(photo, name, Style())
    assert changed >= 0.15
    assert mass >= 0.55
    assert order >= 0.6


def test_most_of_all_maps_is_seen_in_its_order():
    _, mass, order = np.mean([measured(photo, name, Style()) for photo in BOXES for name in MAPS], axis=0)
    assert mass >= 0.75
    assert order >= 0.85


def test_to_the_largest_value_over_the_photograph_rollout_is_a_dot():
    plain, _ = STYLES.values()
    changed, mass, _ = np.mean([measured(photo, "rollout", plain) for photo in BOXES], axis=0)
    assert changed < 0.05
    assert mass < 0.2


def test_a_map_without_differences_colours_nothing():
    shown = [colours(file_of("cat"), BOXES["cat"], np.full((16, 16), one), Style()) for one in (0.0, 1 / 256)]
    assert (shown[0] == shown[1]).all()
