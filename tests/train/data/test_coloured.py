import torch

from model.vocabularies import COLOURS, WORDS
from tests.train.conftest import squares
from train.data.coloured import (
    EDGE,
    MOST,
    PAINT_DEVIATION,
    PAINTS,
    QUARTER,
    SIDE,
    UNSAID,
    ColouredScene,
    Thing,
    coloured_scene,
    holds,
    label_of,
)


def some(count=200, things=None, alike=0.0):
    generator = torch.Generator().manual_seed(0)
    return [coloured_scene(*squares(), generator, things, alike) for _ in range(count)]


def test_a_scene_holds_its_things_where_it_says_in_their_colours_and_nothing_else():
    counts = set()
    for scene in some():
        counts.add(len(scene.things))
        rest = scene.picture.clone()
        assert rest.shape == (3, SIDE, SIDE)
        for thing, (left, top, right, bottom) in zip(scene.things, scene.boxes.tolist(), strict=True):
            bright = torch.linspace(0.3, 1, 10)[thing.digit]
            seen = scene.picture[:, (top + bottom) // 2, (left + right) // 2] / bright
            assert (seen - PAINTS[thing.colour]).abs().max() < 6 * PAINT_DEVIATION
            assert left // QUARTER == (right - 1) // QUARTER
            assert top // QUARTER == (bottom - 1) // QUARTER
            assert {edge % QUARTER for edge in (left, top)}.isdisjoint(range(EDGE))
            rest[:, top:bottom, left:right] = 0
        assert rest.max() <= 0.25
    assert counts == {1, 2, 3}


def test_no_two_things_are_the_same_and_some_are_alike_in_part():
    drawn = some(400, 2, alike=0.3)
    assert all(len(set(one.things)) == len(one.things) for one in drawn)
    pairs = [one.things for one in drawn if len(one.things) == 2]
    for part, chance in ((0, 0.3 + 0.4 / 6), (1, 0.3 + 0.4 / 10)):
        alike = sum(first[part] == second[part] for first, second in pairs) / len(drawn)
        assert abs(alike - chance) < 0.08


def test_the_number_of_things_can_be_given():
    assert {len(one.things) for one in some(50, 1)} == {1}
    assert max(len(one.things) for one in some(50, MOST)) == MOST


def test_swapped_colours_are_those_of_the_same_scene():
    scene = ColouredScene(torch.zeros(3, SIDE, SIDE), (Thing(0, 7), Thing(2, 2), Thing(3, 2)), torch.zeros(3, 4))
    assert scene.swapped() == (Thing(2, 7), Thing(3, 2), Thing(0, 2))


def test_a_label_names_things_and_what_is_unsaid_may_be_anything():
    seven, two = Thing(COLOURS.index("red"), WORDS.index("seven")), Thing(COLOURS.index("blue"), WORDS.index("two"))
    assert label_of([seven, two]) == "a red seven and a blue two"
    assert label_of([seven._replace(colour=UNSAID), two._replace(digit=UNSAID)]) == "a seven and a blue digit"
    for label, true in (
        ([seven], True),
        ([two, seven], True),
        ([seven._replace(colour=UNSAID)], True),
        ([two._replace(digit=UNSAID), seven], True),
        ([Thing(two.colour, seven.digit)], False),
        ([seven, Thing(3, UNSAID)], False),
    ):
        assert holds(label, (seven, two)) is true
