"""Angles for longer texts, a pair after the other as the papers say."""

import math

import pytest
import torch

from model.parts.positions import Rotary
from model.parts.stretch import Llama3, Stretch, Yarn
from tests.samples.attention_reference import assert_same

THETA, PAIRS = 500.0, 16
USUAL = [THETA ** (-pair / PAIRS) for pair in range(PAIRS)]


def changed(stretch):
    return stretch(torch.tensor(USUAL, dtype=torch.float64), THETA)


def llama3(angle, factor, length, low, high):
    """As Grattafiori et al. 2024 have it, by wavelengths."""
    wave = 2 * math.pi / angle
    if wave < length / high:
        return angle
    if wave > length / low:
        return angle / factor
    smooth = (length / wave - low) / (high - low)
    return (1 - smooth) * angle / factor + smooth * angle


def yarn(pair, factor, length, fast, slow, *, whole):
    """Peng et al. 2023, equation 20, with the ramp by the number of a pair, as in the authors' code."""
    ends = [PAIRS * math.log(length / (turns * 2 * math.pi)) / math.log(THETA) for turns in (fast, slow)]
    first, last = (math.floor(ends[0]), math.ceil(ends[1])) if whole else ends
    first, last = max(first, 0), min(last, 2 * PAIRS - 1)
    divided = min(max((pair - first) / (last - first), 0), 1)
    return USUAL[pair] * (1 - divided) + USUAL[pair] / factor * divided


def test_all_angles_are_divided():
    assert_same(changed(Stretch(4.0)), torch.tensor(USUAL, dtype=torch.float64) / 4)
    assert_same(Rotary(2 * PAIRS, THETA, Stretch()).frequencies, torch.tensor(USUAL), 1e-7)


def test_fast_angles_stay_and_slow_ones_are_divided():
    given = changed(Llama3(8.0, length=128, low=1.0, high=4.0))
    wanted = [llama3(angle, 8.0, 128, 1.0, 4.0) for angle in USUAL]
    assert_same(given, torch.tensor(wanted, dtype=torch.float64))
    assert {one == angle for one, angle in zip(wanted, USUAL, strict=True)} == {True, False}
    assert any(angle / 8 < one < angle for one, angle in zip(wanted, USUAL, strict=True))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("length", "fast"), [(512, 32.0), (4096, 8.0), (20, 32.0)])
def test_a_ramp_by_the_number_of_a_pair_leads_from_one_to_the_other(length, fast, whole):
    given = changed(Yarn(4.0, length=length, fast=fast, slow=1.5, whole=whole))
    wanted = [yarn(pair, 4.0, length, fast, 1.5, whole=whole) for pair in range(PAIRS)]
    assert_same(given, torch.tensor(wanted, dtype=torch.float64))
    assert len({round(one / angle, 9) for one, angle in zip(wanted, USUAL, strict=True)}) > 2


def test_a_ramp_of_no_length_is_a_step():
    given = changed(Yarn(2.0, length=12, fast=1.0, slow=1.0, whole=False))
    shares = given / torch.tensor(USUAL, dtype=torch.float64)
    assert {round(float(share), 6) for share in shares} == {1.0, 0.5}


def test_cosines_and_sines_have_a_size():
    at = torch.tensor([0, 3])
    usual, larger = Rotary(8, 30.0)(at), Rotary(8, 30.0, Stretch(size=1.25))(at)
    assert_same(larger.cosine, usual.cosine * 1.25)
    assert_same(larger.sine, usual.sine * 1.25)
