"""Parts without attention: feed-forwards, positions, patches. Each is a plain `x -> x`."""

import torch
from torch import Tensor, nn


class FeedForward(nn.Sequential):
    """Widen, bend, narrow: the same two layers at every position (Vaswani et al. 2017, equation 2)."""

    def __init__(self, width: int, hidden: int, activation: nn.Module) -> None:
        super().__init__(nn.Linear(width, hidden), activation, nn.Linear(hidden, width))


def sinusoids(length: int, width: int) -> Tensor:
    """Return (length, width): PE(pos, 2i) = sin(pos / 10000^(2i/width)), PE(pos, 2i+1) = cos of the same angle.

    Vaswani et al. 2017, section 3.5. Computed in float64 and returned in the default type.
    """
    if width % 2:
        raise ValueError(f"sinusoidal positions: width must be even, given {width}")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angle = position / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)  # (length, width / 2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).to(torch.get_default_dtype())


class SinusoidalPositions(nn.Module):
    """Sinusoids looked up by index. Learned positions are an `nn.Embedding`, called the same way."""

    table: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, width), persistent=False)

    def forward(self, index: Tensor) -> Tensor:
        """Index (...) -> (..., width)."""
        return self.table[index]


class Embedding(nn.Module):
    """Tokens scaled by √width plus their positions (Vaswani et al. 2017, sections 3.4 and 3.5)."""

    def __init__(self, tokens: nn.Embedding, positions: nn.Module) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.scale = tokens.embedding_dim**0.5

    def forward(self, tokens: Tensor, index: Tensor) -> Tensor:
        """Embed tokens (batch, length) at positions index (length) or (batch, length) -> (batch, length, width)."""
        return self.tokens(tokens) * self.scale + self.positions(index)


class Patches(nn.Module):
    """Cut an image into square patches and project each one (Dosovitskiy et al. 2021, equation 1)."""

    def __init__(self, image: tuple[int, int], channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.image = image
        self.projection = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels (batch, channels, height, width of the image) -> (batch, patches in reading order, width)."""
        if pixels.shape[-2:] != self.image:
            height, width = pixels.shape[-2:]
            raise ValueError(f"image: must be {self.image[0]}x{self.image[1]} pixels, given {height}x{width}")
        return self.projection(pixels).flatten(2).transpose(1, 2)
