"""Convolutions along tokens, as gates and as merges."""

from torch import Tensor, nn


class DepthwiseConvolution(nn.Conv1d):
    """One filter for each channel, along the tokens, with zeros beyond their ends.

    Raises ValueError for an even kernel, which has no middle.
    """

    def __init__(self, width: int, kernel: int) -> None:
        if kernel % 2 == 0:
            raise ValueError(f"depth-wise convolution: kernel must be odd, given {kernel}")
        super().__init__(width, width, kernel, padding=kernel // 2, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, token, width) -> the same shape."""
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class ConvolutionalGate(nn.Module):
    """One half of the width gates the other: A ⊙ DwConv(Norm(B)) (Peng et al. 2022, section 2.3)."""

    def __init__(self, width: int, kernel: int) -> None:
        if width % 2:
            raise ValueError(f"convolutional gate: width must be even, to be split in halves, given {width}")
        super().__init__()
        self.width = width // 2
        self.norm = nn.LayerNorm(self.width)
        self.convolution = DepthwiseConvolution(self.width, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, token, width) -> (batch, token, width / 2)."""
        gated: Tensor = x[..., : self.width] * self.convolution(self.norm(x[..., self.width :]))
        return gated


class ConvolutionalGatingMLP(nn.Sequential):
    """cgMLP: widen, GELU, convolutional gate, narrow (Peng et al. 2022, section 2.3)."""

    def __init__(self, width: int, hidden: int, kernel: int) -> None:
        super().__init__(
            nn.Linear(width, hidden), nn.GELU(), ConvolutionalGate(hidden, kernel), nn.Linear(hidden // 2, width)
        )


class DepthwiseMerge(nn.Module):
    """Merge two branches y: Wy', where y' = DwConv(y) + y (Kim et al. 2022, section 2.2).

    A Branchformer merges by W alone, without the convolution (Peng et al. 2022, section 2.4).
    """

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.convolution = DepthwiseConvolution(2 * width, kernel)
        self.output = nn.Linear(2 * width, width)

    def forward(self, y: Tensor) -> Tensor:
        """Take y (batch, token, twice the width) -> (batch, token, width)."""
        merged: Tensor = self.output(self.convolution(y) + y)
        return merged
