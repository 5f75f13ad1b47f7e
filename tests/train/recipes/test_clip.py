"""What two towers are trained on: labels, those with swapped colours, and which are true of which picture."""

import random

import pytest
import torch
from torch.nn import functional as F

from model.architectures.vit import DIGITS_MEAN, DIGITS_STD
from model.catalogue import build, bundled
from model.vocabularies import UNKNOWN
from tests.samples.attention_reference import assert_same
from tests.train.conftest import same, squares
from train.data.coloured import SIDE, UNSAID, Thing, coloured_scene, holds, label_of
from train.fit import Run
from train.recipes import clip


def scenes(count=40):
    generator = torch.Generator().manual_seed(3)
    return [coloured_scene(*squares(), generator) for _ in range(count)]


def test_a_label_is_true_of_its_scene_and_the_swapped_one_tells_as_much_of_the_same_digits():
    rng, some = random.Random(0), scenes(300)
    pairs = [clip.pair(rng, one) for one in some]
    for drawn in pairs:
        assert holds(drawn.label, drawn.scene.things)
        assert holds(drawn.swapped, drawn.scene.swapped())
        assert [thing.digit for thing in drawn.label] == [thing.digit for thing in drawn.swapped]
        assert [thing.colour == UNSAID for thing in drawn.label] == [thing.colour == UNSAID for thing in drawn.swapped]
        for things, text in ((drawn.label, drawn.text), (drawn.swapped, drawn.swapped_text)):
            told = [word for word in text.split() if word not in ("a", "?")]
            assert told == [word for word in label_of(things).split() if word != "a"]
    assert any(not holds(one.swapped, one.scene.things) for one in pairs)
    assert {len(one.label) for one in pairs} == {1, 2, 3}


def test_the_longest_label_fits_into_the_text_tower():
    longest = "? " * clip.MOST_AROUND + label_of([Thing(0, 0)] * 3)
    tokens = clip.tokens_of([longest, "a red seven"])
    assert tokens.shape[1] <= build("scenes-clip").text.embed.positions.num_embeddings
    assert (tokens == UNKNOWN).sum() == clip.MOST_AROUND


def test_pictures_are_normalised_as_the_exported_model_normalises_them():
    some = scenes(3)
    pixels = clip.pixels_of(some)
    assert pixels.shape == (3, 3, SIDE, SIDE)
    assert_same(pixels * DIGITS_STD + DIGITS_MEAN, torch.stack([one.picture for one in some]), 1e-6)


def test_labels_that_are_true_of_a_picture_and_not_its_own_are_no_choice():
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    true = torch.eye(3, 5, dtype=torch.bool)
    true[0, 2] = true[1, 4] = True
    rows = [
        -F.log_softmax(scores[row, kept], 0)[kept.index(row)]
        for row, kept in enumerate(([0, 1, 3, 4], [0, 1, 2, 3], [0, 1, 2, 3, 4]))
    ]
    columns = [
        -F.log_softmax(scores[kept, column], 0)[kept.index(column)]
        for column, kept in enumerate(([0, 1, 2], [0, 1, 2], [1, 2]))
    ]
    expected = (sum(rows) / 3 + sum(columns) / 3) / 2
    assert_same(clip.contrast(scores, true), expected, 1e-6)


def test_scenes_of_one_thing_come_first():
    assert clip.several(0) == clip.several(0.15) == 0
    assert 0 < clip.several(0.2) < clip.several(0.4) < 1
    assert clip.several(0.45) == clip.several(1) == 1


def test_training_begins_with_a_tower_that_can_read():
    """On gray pictures its patches and positions are those of the other model, but for their common scale."""
    begun, other = clip.begun("scenes-clip"), bundled(clip.BEGINNING)
    gray = torch.rand(2, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    places = torch.arange(1, 145)
    with torch.no_grad():
        own = begun.image.patches(gray.expand(-1, 3, -1, -1)) + begun.image.positions(places)
        assert_same(own, other.patches(gray) + other.positions(places), 1e-5)
    assert same(begun.image.encoder.blocks, other.encoder.blocks)


@pytest.mark.parametrize("swaps", [True, False])
def test_a_step_is_taken_and_measured(monkeypatch, swaps):
    monkeypatch.setattr(clip, "HELD_SCENES", 4)
    monkeypatch.setattr(clip, "POOLED_SCENES", 48)
    module, figure = clip.train("scenes-clip", Run(1), swaps=swaps)
    assert not module.training
    assert figure.startswith("of 60 labels the right one first for ")
