"""Angles of rotary positions for texts that are longer than those of a training."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Stretch:
    """All angles are divided by `factor` (Chen et al. 2023, "Position Interpolation", equation 4).

    Cosines and sines are multiplied by `size`.
    """

    factor: float = 1.0
    size: float = 1.0

    def __call__(self, frequencies: Tensor, theta: float) -> Tensor:
        """Return the angles of position 1 instead of `frequencies` (pair), which have the base `theta`."""
        kept = self.kept(frequencies, theta)
        return frequencies * (kept + (1 - kept) / self.factor)

    def kept(self, frequencies: Tensor, theta: float) -> Tensor:
        """Return which share of each angle is not divided (pair), from 0 to 1."""
        return torch.zeros_like(frequencies)


@dataclass(frozen=True)
class Llama3(Stretch):
    """Angles stay as they are that turn `high` times or more within `length` tokens; up to `low` times, all is divided.

    Of those between, a share in proportion is (Grattafiori et al. 2024, "The Llama 3 Herd of Models", in the authors'
    code).
    """

    length: int = 8192
    low: float = 1.0
    high: float = 4.0

    def kept(self, frequencies: Tensor, theta: float) -> Tensor:
        """Return which share of each angle is not divided (pair), from 0 to 1."""
        turns = self.length * frequencies / (2 * math.pi)
        return ((turns - self.low) / (self.high - self.low)).clamp(0, 1)


@dataclass(frozen=True)
class Yarn(Stretch):
    """Angles stay as they are up to the pair that turns `fast` times within `length` tokens (Peng et al. 2023, "YaRN").

    From the pair that turns `slow` times all is divided; between them, a share in proportion to the pair's number
    (section 3.2, in the authors' code). The numbers of both pairs are `whole` ones.
    """

    length: int = 4096
    fast: float = 32.0
    slow: float = 1.0
    whole: bool = True

    def kept(self, frequencies: Tensor, theta: float) -> Tensor:
        """Return which share of each angle is not divided (pair), from 0 to 1."""
        pairs = len(frequencies)
        first, last = (
            pairs * math.log(self.length / (turns * 2 * math.pi)) / math.log(theta) for turns in (self.fast, self.slow)
        )
        if self.whole:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * pairs - 1)
        pair = torch.arange(pairs, dtype=frequencies.dtype)
        return 1 - ((pair - first) / (last - first or 0.001)).clamp(0, 1)
