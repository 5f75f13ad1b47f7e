import numpy as np
import torch

from tests.train.conftest import squares
from train.data.scenes import LINE_MIDDLES, scene


def test_a_scene_holds_its_digits_where_it_says_and_nothing_else():
    generator = torch.Generator().manual_seed(0)
    counts = set()
    for _ in range(200):
        one = scene(*squares(), generator)
        counts.add(len(one.digits))
        rest = one.picture.clone()
        for digit, (left, top, right, bottom) in zip(one.digits, one.boxes.tolist(), strict=True):
            inside = one.picture[0, top:bottom, left:right]
            assert abs(inside.max().item() - np.linspace(0.3, 1, 10)[digit]) < 1e-5
            rest[0, max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2] = 0
        assert not rest.any()
    assert counts == {1, 2, 3, 4, 5}


def test_digits_are_in_reading_order():
    generator = torch.Generator().manual_seed(1)
    for _ in range(100):
        boxes = scene(*squares(), generator).boxes.double()
        middles = (boxes[:, :2] + boxes[:, 2:]) / 2
        upper = middles[:, 1] < sum(LINE_MIDDLES) / 2
        assert upper.tolist() == sorted(upper.tolist(), reverse=True)
        for line in (upper, ~upper):
            across = middles[line, 0].tolist()
            assert across == sorted(across)
