import itertools
import random

import numpy as np
import pytest
import torch

from model.catalogue import bundled
from train.data.handwritten_digits import pixels, strokes
from train.data.strokes import SHAPES, draw


def test_there_are_shapes_for_every_digit_inside_their_box():
    assert list(SHAPES) == list(range(10))
    for shape in itertools.chain.from_iterable(SHAPES.values()):
        assert shape
        for x, y in itertools.chain.from_iterable(shape):
            assert -0.05 <= x <= 0.75
            assert -0.05 <= y <= 1.05


@pytest.mark.parametrize("digit", range(10))
@pytest.mark.parametrize("side", [28, 56])
def test_a_digit_is_drawn_in_white_on_a_black_square(digit, side):
    image = draw(random.Random(digit), digit, side)
    ink = np.asarray(image)
    assert (image.mode, image.size) == ("L", (side, side))
    assert set(np.unique(ink)) == {0, 255}
    assert 0.01 < (ink > 0).mean() < 0.5


def test_the_same_seed_draws_the_same_digit_and_another_call_another():
    rng, again = random.Random(3), random.Random(3)
    first, second = draw(rng, 4, 56).tobytes(), draw(rng, 4, 56).tobytes()
    assert [draw(again, 4, 56).tobytes() for _ in range(2)] == [first, second]
    assert first != second


def test_the_bundled_model_reads_fresh_drawings_of_every_digit():
    fields, labels = strokes(300, seed=1234)
    with torch.no_grad():
        guesses = bundled("digits")(pixels(fields))[0].argmax(1)
    assert labels.tolist() == list(range(10)) * 30
    right = torch.stack([(guesses == labels)[labels == digit].double().mean() for digit in range(10)])
    assert right.min() >= 0.9
    assert right.mean() >= 0.97
