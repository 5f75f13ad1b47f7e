"""How a detector is trained: matching, loss, and what is measured."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from model.catalogue import build, bundled
from tests.train.conftest import squares
from train.data.scenes import SIDE, scene
from train.recipes import scenes
from train.recipes.scenes import generalized_overlap, matched, measure, set_loss, tensors, to_corners, to_middle


def drawn(count, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return [scene(*squares(), generator) for _ in range(count)]


def test_boxes_are_shares_of_the_sides_and_come_back():
    some = drawn(4)
    pixels, digits, boxes = tensors(some)
    assert pixels.shape == (4, 1, SIDE, SIDE)
    for one, own, places in zip(some, digits, boxes, strict=True):
        assert tuple(own.tolist()) == one.digits
        assert torch.allclose(to_corners(places) * SIDE, one.boxes.float(), atol=1e-4)
        assert torch.allclose(to_middle(to_corners(places)), places)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ((0.0, 0.0, 1.0, 1.0), 1.0),
        ((0.0, 0.0, 0.5, 1.0), 0.5),
        ((2.0, 0.0, 3.0, 1.0), -1 / 3),  # a gap of one between two squares: nothing in common, three around
        ((1.0, 1.0, 2.0, 2.0), -0.5),
    ],
)
def test_the_generalized_overlap_is_that_of_the_paper(other, expected):
    one = torch.tensor([0.0, 0.0, 1.0, 1.0])
    assert generalized_overlap(one, torch.tensor(other)).item() == pytest.approx(expected, abs=1e-6)
    assert generalized_overlap(torch.tensor(other), one).item() == pytest.approx(expected, abs=1e-6)


def answers(batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(batch, 5, 11, generator=generator)
    boxes = torch.rand(batch, 5, 4, generator=generator) * 0.3 + 0.1
    return logits, boxes


def test_the_matching_is_the_cheapest_of_all():
    (logits,), (boxes,) = answers(1)
    digits, truth = torch.tensor([3, 1, 4]), torch.rand(3, 4, generator=torch.Generator().manual_seed(1)) * 0.3 + 0.1
    shares = logits.double().softmax(-1)

    def cost(number, index):
        apart = (boxes[number] - truth[index]).abs().sum().double()
        common = generalized_overlap(to_corners(boxes[number]), to_corners(truth[index])).double()
        return float(-shares[number, digits[index]] + 5 * apart - 2 * common)

    best = min(
        itertools.permutations(range(5), 3), key=lambda order: sum(cost(one, index) for index, one in enumerate(order))
    )
    rows, columns = matched(logits, boxes, digits, truth)
    assert dict(zip(columns.tolist(), rows.tolist(), strict=True)) == dict(enumerate(best))


def test_the_loss_is_that_of_the_matched_objects_and_of_none_for_the_others():
    logits, boxes = answers(1, seed=3)
    digits, truth = [torch.tensor([2])], [torch.tensor([[0.2, 0.2, 0.1, 0.1]])]
    rows, _ = matched(logits[0], boxes[0], digits[0], truth[0])
    wanted = torch.full((5,), 10)
    wanted[rows] = 2
    weight = torch.ones(11)
    weight[10] = scenes.NONE_WEIGHT
    placed = boxes[0, rows]
    common = generalized_overlap(to_corners(placed), to_corners(truth[0]))
    expected = (
        F.cross_entropy(logits[0], wanted, weight) + (5 * (placed - truth[0]).abs().sum(-1) + 2 * (1 - common)).mean()
    )
    assert set_loss((logits, boxes), digits, truth).item() == pytest.approx(expected.item(), rel=1e-6)


def test_a_loss_does_not_depend_on_the_order_of_the_digits():
    logits, boxes = answers(2, seed=4)
    generator = torch.Generator().manual_seed(5)
    digits = [torch.tensor([2, 7, 7]), torch.tensor([0])]
    truth = [torch.rand(3, 4, generator=generator) * 0.2 + 0.1, torch.rand(1, 4, generator=generator) * 0.2 + 0.1]
    turned = ([digits[0].flip(0), digits[1]], [truth[0].flip(0), truth[1]])
    assert set_loss((logits, boxes), digits, truth).item() == pytest.approx(
        set_loss((logits, boxes), *turned).item(), rel=1e-6
    )


def test_the_bundled_detector_finds_held_out_digits_and_looks_at_them():
    """The figures of its card, on fewer scenes."""
    *_, held, labels = scenes.scans()
    generator = torch.Generator().manual_seed(11)
    said = measure(bundled("scenes-detr"), [scene(held, labels, generator) for _ in range(150)])
    figures = dict(part.split()[:2] for part in said.split("; ")[0].split(", "))
    assert float(figures["AP"]) > 0.7
    assert float(figures["AP50"]) > 0.95
    layers = said.rpartition("by layer: ")[2].partition(",")[0]
    assert max(float(share.rstrip("%")) for share in layers.split()) > 85
    assert np.isfinite([float(value) for value in figures.values()]).all()


def test_an_untrained_detector_finds_nothing_of_worth():
    torch.manual_seed(0)
    said = measure(build("scenes-detr"), drawn(40))
    assert float(said.split()[1].rstrip(",")) < 0.05
