import torch

from tests.train.conftest import squares
from train.data.marked import ARM, EDGE, QUARTER, THICKNESS, marked_scene
from train.data.scenes import SIDE


def some(count=200, alike=0.0):
    generator = torch.Generator().manual_seed(0)
    return [marked_scene(*squares(0.9), generator, alike) for _ in range(count)]


def test_every_quarter_holds_the_digit_that_the_scene_says_in_its_box():
    for sample in some():
        assert sample.picture.shape == (1, SIDE, SIDE)
        assert len(sample.digits) == len(sample.boxes) == 4
        for quarter, (digit, (left, top, right, bottom)) in enumerate(
            zip(sample.digits, sample.boxes.tolist(), strict=True)
        ):
            brightness = torch.linspace(0.3, 0.9, 10)[digit].item()
            assert abs(sample.picture[0, top:bottom, left:right].max().item() - brightness) < 1e-5
            for low, high, part in ((left, right, quarter % 2), (top, bottom, quarter // 2)):
                assert part * QUARTER + EDGE <= low < high <= (part + 1) * QUARTER - EDGE


def test_the_mark_is_an_angle_in_a_corner_of_the_marked_quarter_and_nowhere_else():
    corners = set()
    for sample in some():
        white = (sample.picture[0] == 1).nonzero()
        assert len(white) == 2 * ARM * THICKNESS - THICKNESS**2
        quarters = (white // QUARTER).unique(dim=0)
        assert quarters.tolist() == [[sample.marked // 2, sample.marked % 2]]
        left, top, right, bottom = sample.mark.tolist()
        assert (right - left, bottom - top) == (ARM, ARM)
        assert (white.min(0).values.tolist(), white.max(0).values.tolist()) == ([top, left], [bottom - 1, right - 1])
        inside = white % QUARTER
        ends = [(0, ARM - 1), (QUARTER - ARM, QUARTER - 1)]
        place = tuple(ends.index((axis.min().item(), axis.max().item())) for axis in inside.T)
        corner = [QUARTER - 1 if far else 0 for far in place]
        assert corner in inside.tolist()  # the arms meet in the corner
        corners.add((sample.marked, place))
    assert len(corners) == 16


def test_what_stands_in_the_marked_quarter_is_drawn_evenly_and_apart_from_the_rest():
    scenes = some(2000)
    asked = torch.tensor([one.digits[one.marked] for one in scenes])
    others = torch.tensor([one.digits[one.marked - 1] for one in scenes])
    assert (asked.bincount(minlength=10) - 200).abs().max() < 60
    assert abs((asked == others).double().mean().item() - 0.1) < 0.03


def test_digits_can_be_alike_at_first():
    assert all(len(set(one.digits)) == 1 for one in some(50, alike=1.0))
    repeated = [digit == one.digits[one.marked] for one in some(alike=0.5) for digit in one.digits]
    assert abs(sum(repeated) / len(repeated) - (0.25 + 0.75 * 0.55)) < 0.06
