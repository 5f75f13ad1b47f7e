import pytest
import torch
from torch.nn import functional as F

from model.architectures.vit import DIGITS_BOX
from train.data import grounds as data
from train.data.grounds import SIDE, SIZES, anywhere, grounds, ink_of, on_grounds, placed
from train.data.handwritten_digits import SIDE as DIGIT_SIDE
from train.data.handwritten_digits import scans


def boxes(cover):
    """Return left, top, right and bottom of the ink of each picture, in pixels."""
    found = []
    for ink in ink_of(cover):
        rows, columns = ink.any(1).nonzero()[:, 0], ink.any(0).nonzero()[:, 0]
        found.append([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
    return torch.tensor(found).double()


def test_a_digit_in_the_middle_at_its_usual_size_is_the_smaller_network_s_input():
    field = scans()[2][:20]
    cover = placed(field, torch.full((20,), float(DIGITS_BOX)), torch.zeros(20, 2))
    edge = (SIDE - DIGIT_SIDE) // 2
    theirs = F.interpolate(field, (DIGIT_SIDE, DIGIT_SIDE), mode="area")
    torch.testing.assert_close(cover[:, :, edge:-edge, edge:-edge], theirs, rtol=0, atol=0.02)
    assert cover.shape == (20, 1, SIDE, SIDE)
    assert cover[:, :, : edge - 1].max() == 0


@pytest.mark.parametrize("size", [14, 22, 30])
@pytest.mark.parametrize("middle", [(0, 0), (-0.3, 0.2), (0.25, -0.35)])
def test_a_digit_has_the_size_and_the_place_that_are_asked_for(size, middle):
    field = scans()[2][:20]
    found = boxes(placed(field, torch.full((20,), float(size)), torch.tensor([middle] * 20)))
    sides, middles = found[:, 2:] - found[:, :2], (found[:, 2:] + found[:, :2]) / 2
    assert (sides.amax(1) - size).abs().max() <= 2
    wanted = (torch.tensor(middle) + 1) * SIDE / 2
    assert (middles - wanted).abs().max() <= 1.5


def test_digits_stand_anywhere_and_wholly_within_the_picture():
    torch.manual_seed(0)
    size, middle = anywhere(2000)
    assert SIZES[0] <= size.min() < SIZES[0] + 0.1
    assert SIZES[1] - 0.1 < size.max() <= SIZES[1]
    reach = middle.abs() + size[:, None] / SIDE
    assert reach.max() <= 1 + 1e-6
    for axis in middle.T:
        assert axis.min() < -0.6
        assert axis.max() > 0.6
        assert axis.mean().abs() < 0.03


def test_grounds_differ_and_have_mean_nought_and_deviation_one():
    torch.manual_seed(0)
    some = grounds(40)
    assert some.shape == (40, 1, SIDE, SIDE)
    torch.testing.assert_close(some.mean((1, 2, 3)), torch.zeros(40), rtol=0, atol=1e-5)
    torch.testing.assert_close(some.std((1, 2, 3)), torch.ones(40), rtol=0, atol=1e-4)
    flat = F.normalize(some.flatten(1), dim=1)
    alike = (flat @ flat.T - torch.eye(40)).abs()
    assert alike.max() < 0.9
    neighbours = (some[..., 1:] - some[..., :-1]).pow(2).mean((1, 2, 3))
    assert neighbours.min() < 0.05  # clouds
    assert neighbours.max() > 0.4  # specks


def test_ink_stands_out_from_its_ground_and_is_brighter_or_darker(monkeypatch):
    monkeypatch.setattr(data, "GROUND_DEVIATIONS", (0.0, 0.0))
    torch.manual_seed(0)
    cover = torch.zeros(300, 1, SIDE, SIDE)
    cover[:, :, 10:20, 10:20] = 1
    pictures = on_grounds(cover)
    ink, ground = pictures[:, 0, 15, 15], pictures[:, 0, 40, 40]
    assert pictures.min() >= 0
    assert pictures.max() <= 1
    assert (ink - ground).abs().min() >= data.LEAST_CONTRAST - 1e-6
    assert 0.3 < (ink > ground).double().mean() < 0.7
    assert ground.min() < 0.05
    assert ground.max() > 0.95


def test_ink_is_what_is_well_covered():
    cover = torch.zeros(2, 1, SIDE, SIDE)
    cover[0, 0, 3, 5], cover[0, 0, 3, 6], cover[0, 0, 3, 7] = 0.8, 0.21, 0.19
    cover[1, 0, 9, 9] = 0.1
    assert ink_of(cover).nonzero().tolist() == [[0, 3, 5], [0, 3, 6], [1, 9, 9]]
