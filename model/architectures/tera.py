"""TERA (Liu et al. 2021): an encoder of frames of sound, trained to restore what was altered in them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.parts.attention import Context, Maps, Recall, under
from model.parts.blocks import PostNormBlock, Stack
from model.parts.positions import SinusoidalPositions
from model.parts.stacks import BlockSizes


@dataclass(frozen=True)
class TeraConfig(BlockSizes):
    """Sizes of a TERA: `bands` of the mel scale, and how many `frames` a sound has."""

    bands: int
    frames: int
    width: int
    layers: int
    heads: int
    hidden: int
    activation: str = "gelu"
    epsilon: float = 1e-12


TERA_SIZES = {
    # bundled: spoken digits; 3 s of frames of 10 ms
    "spoken-tera": TeraConfig(40, frames=300, width=96, layers=3, heads=4, hidden=384),
}


class FrameProjection(nn.Module):
    """A linear layer of each frame, plus sinusoids, normalised (Liu et al. 2021, section III-C)."""

    def __init__(self, config: TeraConfig) -> None:
        super().__init__()
        self.projection = nn.Linear(config.bands, config.width)
        self.positions = SinusoidalPositions(config.frames, config.width)
        self.norm = config.norm()

    def forward(self, sound: Tensor) -> Tensor:
        """Take log-mel frames (batch, band, frame) -> (batch, frame, width)."""
        x = self.projection(sound.transpose(1, 2))
        return self.norm(x + self.positions(torch.arange(x.shape[1], device=x.device)))


def heard(sound: Tensor) -> Tensor:
    """Return which of log-mel frames (batch, band, frame) hold more than the silence behind a sound: (batch, frame)."""
    return sound.amax(1) > sound.amin(dim=(1, 2))[:, None]


class Tera(nn.Module):
    """Let the frames of a sound look at each other."""

    def __init__(self, embed: FrameProjection, encoder: Stack) -> None:
        super().__init__()
        self.embed = embed
        self.encoder = encoder

    def forward(self, sound: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[Tensor, Maps]:
        """Return the mean of the states of frames that hold sound, (batch, width), and the encoder's maps.

        sound (batch, band, frame) are log-mel frames.
        """
        x, maps = self.states(sound, recalls)
        shown = heard(sound).to(x.dtype)[:, None]  # (batch, 1, frame)
        return (shown @ x)[:, 0] / shown.sum(2).clamp(min=1.0), maps

    def states(self, sound: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[Tensor, Maps]:
        """Return the states of all frames, (batch, frame, width), and the encoder's maps."""
        x, maps = self.encoder(self.embed(sound), Context(), recalls)
        return x, under("encoder", maps)


def tera(config: TeraConfig) -> Tera:
    """Compose a TERA, of blocks that normalise after each branch."""
    return Tera(FrameProjection(config), Stack(config.blocks(PostNormBlock), nn.Identity()))
