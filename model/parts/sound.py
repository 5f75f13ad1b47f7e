"""Sound becomes frames: the logarithm of the power in bands of the mel scale, as layers of a graph."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

KNEE = 1000.0
"""Slaney's mel scale is linear in hertz up to here, and logarithmic beyond."""
HERTZ_PER_MEL = 200.0 / 3
STEP = math.log(6.4) / 27.0
"""Of the logarithm of hertz, a mel beyond the knee."""
SMALLEST_POWER = 1e-10


@dataclass(frozen=True)
class MelSizes:
    """Sizes of frames: samples a second, those of a frame and between two, and how many bands there are."""

    rate: int = 16_000
    window: int = 400
    hop: int = 160
    bands: int = 80


def hertz_of(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the hertz of mels, by Slaney's scale (Auditory Toolbox 1998)."""
    knee = KNEE / HERTZ_PER_MEL
    return np.where(mels < knee, mels * HERTZ_PER_MEL, KNEE * np.exp(STEP * (mels - knee)))


def mel_of(hertz: float) -> float:
    """Return the mels of hertz, by Slaney's scale."""
    return hertz / HERTZ_PER_MEL if hertz < KNEE else KNEE / HERTZ_PER_MEL + math.log(hertz / KNEE) / STEP


def mel_filters(sizes: MelSizes) -> npt.NDArray[np.float64]:
    """Return the weight of each frequency in each band, (band, window / 2 + 1): triangles of one area."""
    edges = hertz_of(np.linspace(0.0, mel_of(sizes.rate / 2), sizes.bands + 2))
    frequencies = np.linspace(0.0, sizes.rate / 2, sizes.window // 2 + 1)
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    height = 2.0 / (edges[2:] - edges[:-2])
    weights: npt.NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling)) * height[:, None]
    return weights


class LogMel(nn.Module):
    """Log-mel frames, as Whisper has them (Radford et al. 2023, section 2.2), by two convolutions and a product.

    A frame is every `hop` samples, in the middle of a Hann window; the loudest band of a sound is the top of 8 decades.
    """

    waves: Tensor
    filters: Tensor

    def __init__(self, sizes: MelSizes) -> None:
        super().__init__()
        self.sizes = sizes
        count, time = sizes.window // 2 + 1, np.arange(sizes.window)
        turn = 2 * np.pi * np.outer(np.arange(count), time) / sizes.window
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * time / sizes.window)
        waves = np.concatenate([np.cos(turn), np.sin(turn)]) * hann
        self.register_buffer("waves", torch.tensor(waves[:, None], dtype=torch.float32), persistent=False)
        self.register_buffer("filters", torch.tensor(mel_filters(sizes), dtype=torch.float32), persistent=False)

    def forward(self, samples: Tensor, kept: Tensor | None = None) -> Tensor:
        """Take samples (batch, side + sample + side) from -1 to 1 -> frames (batch, band, sample / hop).

        The sides, half a window each, are what is before and behind; frames from `kept` (batch) on are 0.
        """
        parts = F.conv1d(samples[:, None], self.waves, stride=self.sizes.hop)[..., :-1]  # (batch, 2 x frequency, frame)
        real, imaginary = parts.chunk(2, dim=1)
        power = self.filters @ (real * real + imaginary * imaginary)
        logarithm = power.clamp(min=SMALLEST_POWER).log10()
        loudest = logarithm.amax(dim=(1, 2), keepdim=True)
        frames = (torch.maximum(logarithm, loudest - 8.0) + 4.0) / 4.0
        if kept is None:
            return frames
        heard = torch.arange(frames.shape[-1], device=frames.device) < kept[:, None]
        return frames * heard[:, None].to(frames.dtype)
