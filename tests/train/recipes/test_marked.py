"""What a Swin is trained on, and how what it looked at is measured."""

import pytest
import torch
from torch import nn

from model.architectures.swin import SCENES_MEAN, SCENES_STD
from model.catalogue import build
from model.methods.windows import unfold
from tests.samples.attention_reference import assert_same, randn, sharpen
from tests.train.conftest import squares
from train.data.marked import marked_scene
from train.data.scenes import SIDE, on_box
from train.recipes.marked import Heat, alike, heat, held_out, measure, tensors, truths


def scenes(count=4):
    generator = torch.Generator().manual_seed(2)
    return [marked_scene(*squares(0.9), generator) for _ in range(count)]


def test_the_answer_is_the_digit_of_the_marked_quarter():
    some = scenes()
    pixels, digits = tensors(some)
    assert pixels.shape == (4, 1, SIDE, SIDE)
    assert abs((pixels[0] * SCENES_STD + SCENES_MEAN - some[0].picture).max().item()) < 1e-6
    assert digits.tolist() == [one.digits[one.marked] for one in some]


@pytest.mark.parametrize("cell", [4, 8])
def test_cells_are_on_what_they_touch(cell):
    some = scenes()
    asked, others, mark = truths(some, cell).tolist()
    for index, one in enumerate(some):
        for place in range((SIDE // cell) ** 2):
            on = [on_box(place, box, cell) for box in one.boxes]
            assert asked[index][place] == on.pop(one.marked)
            assert others[index][place] == any(on)
            assert mark[index][place] == on_box(place, one.mark, cell)
        assert sum(mark[index]) == (4 if cell == 4 else 1)


def test_digits_are_alike_at_first_and_apart_at_last():
    assert alike(0) == alike(0.1) == 1
    assert 0 < alike(0.4) < alike(0.2) < 1
    assert alike(0.6) == alike(1) == 0


def test_heat_is_that_of_the_squares_of_all_tokens():
    model = sharpen(build("scenes-swin"))
    logits, maps = model(randn(2, 1, SIDE, SIDE))
    score = logits.max(-1).values.sum()
    gradients = dict(zip(maps, torch.autograd.grad(score, list(maps.values()), retain_graph=True), strict=True))
    found = heat(model, maps, logits)
    merge = torch.zeros(64, 256, dtype=torch.float64)
    for token in range(256):
        merge[token // 32 * 8 + token % 16 // 2, token] = 1 / 4
    rolled = relevant = torch.eye(256, dtype=torch.float64).expand(2, -1, -1)
    for path, weights in maps.items():
        places = model.get_submodule(path).windows.places()
        size = places.numel()
        if rolled.shape[1] != size:
            rolled, relevant = merge @ rolled, merge @ relevant
        square, evidence = (unfold(one, places).mean(1) for one in (weights, (weights * gradients[path]).clamp(min=0)))
        eye = torch.eye(size, dtype=torch.float64)
        rolled, relevant = (square + eye) / 2 @ rolled, (evidence + eye) @ relevant
    assert_same(found.rollout, rolled.mean(1))
    assert_same(found.relevance, relevant.mean(1))
    assert_same(found.last, square.mean(1))


class Knowing(nn.Module):
    """Answers what it was told, and looks nowhere in particular."""

    def __init__(self, model, digits):
        super().__init__()
        self.model, self.stages, self.digits = model, model.stages, digits

    def forward(self, pixels):
        logits, maps = self.model(pixels)
        return logits + 1e4 * nn.functional.one_hot(self.digits[: len(pixels)], 10), maps


def test_accuracy_counts_the_answers_that_are_right():
    some = scenes(8)
    digits = tensors(some)[1]
    model = build("scenes-swin")
    assert measure(Knowing(model, digits), some).startswith("accuracy 100.00% on 8 held-out scenes; hottest cell")
    assert measure(Knowing(model, (digits + 1) % 10), some).startswith("accuracy 0.00% on 8 held-out scenes")
    digits[0] += 1
    assert measure(Knowing(model, digits % 10), some).startswith("accuracy 87.50% on 8 held-out scenes")


def test_pointing_counts_scenes_whose_hottest_cell_is_on_the_box(monkeypatch):
    some = scenes(8)
    hot = torch.zeros(8, 256)
    for index, one in enumerate(some):
        left, top, right, bottom = (one.boxes[one.marked] if index < 6 else one.mark).tolist()
        hot[index, (top + bottom) // 2 // 4 * 16 + (left + right) // 2 // 4] = 1
    monkeypatch.setattr("train.recipes.marked.heat", lambda module, maps, logits: Heat(hot, hot, hot))
    assert "rollout 75.0% 0.0% 25.0% (by chance" in measure(build("scenes-swin"), some)


def test_held_out_scenes_are_always_the_same():
    for one, other in zip(held_out(3), held_out(3), strict=True):
        assert torch.equal(one.picture, other.picture)
        assert (one.digits, one.marked) == (other.digits, other.marked)
