"""Sound becomes frames, as layers of a graph: logarithms of the power in bands of the mel scale, or convolutions."""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
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
SMALLEST_BAND = 1.1920928955078125e-07
"""Of Kaldi's filter bank: the step of single floats at 1."""
EMPHASIS = 0.97
"""How much of each sample is taken off the next one."""
LEAST_FREQUENCY = 20.0
"""Hertz at which Kaldi's lowest band begins."""
LEAST_VARIANCE = 1e-7


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


def kaldi_mel_of(hertz: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the mels of hertz by Kaldi's scale, which is logarithmic from the start."""
    mels: npt.NDArray[np.float64] = 1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0)
    return mels


def kaldi_filters(sizes: MelSizes) -> npt.NDArray[np.float64]:
    """Return the weight of each frequency in each band, (band, frequency): triangles of height 1 on Kaldi's scale.

    Frequencies are those of the window, filled up to a power of two. Of many bands, the lowest may have none.
    """
    long = 1 << (sizes.window - 1).bit_length()
    lowest, highest = kaldi_mel_of([LEAST_FREQUENCY, sizes.rate / 2])
    edges = np.linspace(lowest, highest, sizes.bands + 2)
    mels = kaldi_mel_of(np.linspace(0.0, sizes.rate / 2, long // 2 + 1))
    rising = (mels - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - mels) / np.diff(edges)[1:, None]
    weights: npt.NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling))
    return weights


class Wide(nn.Module):
    """A module whose tables stay single floats in a model of half floats, which have too few decades for sound."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Wide":
        held = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call] # torch's own
        for name, table in self._buffers.items():
            if table is not None and table.dtype.itemsize < torch.float32.itemsize:
                self._buffers[name] = held[name]
        return self


class LogMel(Wide):
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


class FilterBank(Wide):
    """Logarithms of the power in mel bands as Kaldi has them, normalised (Gong et al. 2021, AST).

    A frame's mean is taken off, high frequencies are raised (x[t] - 0.97 x[t - 1]), and a Hann window is laid over: all
    of it is one convolution with waves. Frames that the sound does not fill are 0 before they are normalised.
    """

    waves: Tensor
    filters: Tensor

    def __init__(self, sizes: MelSizes, mean: float, std: float) -> None:
        super().__init__()
        self.sizes = sizes
        self.mean = mean
        self.std = std
        long = 1 << (sizes.window - 1).bit_length()
        turn = 2 * np.pi * np.outer(np.arange(long // 2 + 1), np.arange(sizes.window)) / long
        raised = np.eye(sizes.window) - EMPHASIS * np.eye(sizes.window, k=-1)  # the window hides the first sample
        centred = np.eye(sizes.window) - 1 / sizes.window
        waves = np.concatenate([np.cos(turn), np.sin(turn)]) * np.hanning(sizes.window) @ raised @ centred
        self.register_buffer("waves", torch.tensor(waves[:, None], dtype=torch.float32), persistent=False)
        self.register_buffer("filters", torch.tensor(kaldi_filters(sizes), dtype=torch.float32), persistent=False)

    def forward(self, samples: Tensor, filled: Tensor) -> Tensor:
        """Take samples (batch, sample), and how many frames the sound fills (batch) -> (batch, 1, band, frame)."""
        parts = F.conv1d(samples.to(self.waves.dtype)[:, None], self.waves, stride=self.sizes.hop)
        real, imaginary = parts.chunk(2, dim=1)
        power = self.filters @ (real * real + imaginary * imaginary)
        bands = power.clamp(min=SMALLEST_BAND).log()[:, None]
        shown = torch.arange(bands.shape[-1], device=filled.device) < filled[:, None]
        return (bands.masked_fill(~shown[:, None, None], 0) - self.mean) / (2 * self.std)


class UnitVariance(nn.Module):
    """(x - mean) / √(variance + 1e-7) of each sound (Baevski et al. 2020, section 4.2)."""

    def forward(self, samples: Tensor) -> Tensor:
        """Take samples (batch, sample) -> the same shape."""
        centred = samples - samples.mean(dim=1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(dim=1, keepdim=True) + LEAST_VARIANCE)


class ChannelNorm(nn.Module):
    """Each channel of a sound by its own mean and variance: a group norm with as many groups as channels.

    In half floats it computes in single ones, since it adds up all of a sound.
    """

    def __init__(self, channels: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, channel, frame) -> the same shape."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(dim=2, keepdim=True)
        normal = centred * torch.rsqrt(centred.square().mean(dim=2, keepdim=True) + self.epsilon)
        return normal.to(x.dtype) * self.weight[:, None] + self.bias[:, None]


class ChannelsNorm(nn.LayerNorm):
    """A layer norm of the channels of each frame."""

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, channel, frame) -> the same shape."""
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


@dataclass(frozen=True)
class Convolution:
    """Sizes of a convolution along time: its channels, its kernel and its stride."""

    channels: int
    kernel: int
    stride: int


class WaveFeatures(nn.Sequential):
    """Convolutions of a wave, each with an activation behind its norm (Baevski et al. 2020, section 2).

    Either the first alone has a norm, of each channel, or each has one of all channels of a frame.
    """

    def __init__(
        self, layers: Sequence[Convolution], activation: Callable[[], nn.Module], *, each_norm: bool, bias: bool
    ) -> None:
        made: list[nn.Module] = []
        inputs = 1
        for layer in layers:
            norm = ChannelsNorm(layer.channels) if each_norm else nn.Identity() if made else ChannelNorm(layer.channels)
            convolution = nn.Conv1d(inputs, layer.channels, layer.kernel, layer.stride, bias=bias)
            made.append(nn.Sequential(OrderedDict(convolution=convolution, norm=norm, activation=activation())))
            inputs = layer.channels
        super().__init__(*made)

    def forward(self, samples: Tensor) -> Tensor:
        """Take samples (batch, sample) -> (batch, frame, channel)."""
        features: Tensor = super().forward(samples[:, None])  # type: ignore[no-untyped-call] # torch's own
        return features.transpose(1, 2)


class PositionConvolution(nn.Module):
    """A grouped convolution of frames, which says where each stands by what is around it (Baevski et al. 2020, 2)."""

    def __init__(self, width: int, kernel: int, groups: int, activation: nn.Module) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=groups)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, frame, width) -> the same shape; an even kernel has one frame more before than behind."""
        around = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        placed: Tensor = self.activation(around[:, : x.shape[1]])
        return placed
