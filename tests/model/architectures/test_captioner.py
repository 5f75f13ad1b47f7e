"""A captioner against its paper's equations."""

import numpy as np
import pytest
import torch

from model.architectures.captioner import CaptionerConfig, captioner
from model.architectures.recurrent import RecurrentConfig
from model.parts.attention_variants import Hard
from tests.samples.attention_reference import assert_same, randn, sharpen, weights_of
from tests.samples.recurrence_reference import recurring

RECURRENT = RecurrentConfig(11, length=9, target_length=6, embedding=5, source=8, alignment=7, width=6, readout=4)
CAPTIONER = CaptionerConfig((16, 24), 1, cell=8, decoder=RECURRENT)
TARGET = torch.tensor([[1, 4, 2, 8], [1, 3, 5, 7], [1, 9, 9, 2]])


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
def test_a_captioner_is_its_equations(hard):
    model = sharpen(captioner(CAPTIONER, *([Hard()] if hard else [])))
    pixels = randn(3, 1, 16, 24)
    logits, maps = model(pixels, None, TARGET)
    for row in range(3):
        select = (lambda shares: np.eye(6)[shares.argmax()]) if hard else (lambda shares: shares)
        w = weights_of(model)
        annotated, summary = (found[0].detach().numpy() for found in model.encoder(pixels[row : row + 1]))
        assert_same(summary, annotated.mean(0))
        expected, weights = recurring(w, annotated, summary, TARGET[row].numpy(), select)
        assert_same(logits[row], expected)
        assert_same(maps["decoder.attention"][row, 0], weights)
    assert CAPTIONER.grid == (2, 3)
    assert (maps["decoder.attention"].max() == 1) == hard


def test_cells_are_in_reading_order_and_know_their_places():
    model = sharpen(captioner(CAPTIONER)).encoder
    bright = randn(1, 1, 16, 24)
    moved = bright.clone()
    moved[..., :8, 16:] += 5  # the cell at the upper right, which is the third
    apart = (model(moved)[0] - model(bright)[0]).abs().sum(-1)[0]
    assert (apart > 0).tolist() == [False, True, True, False, True, True]  # but for the column farthest to the left
    same = torch.zeros(1, 1, 16, 24, dtype=torch.float64)
    places = model(same)[0][0] - model.layers(same)[0].flatten(1).T
    assert_same(places, model.positions.weight)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="sides must be multiples of the cell's 8, a power of two, given 16x20"):
        CaptionerConfig((16, 20), 1, cell=8, decoder=RECURRENT)
    with pytest.raises(ValueError, match="image: must be 16x24 pixels, given 24x16"):
        captioner(CAPTIONER)(torch.zeros(1, 1, 24, 16), None, TARGET[:1])
