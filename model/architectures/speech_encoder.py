"""Encoders of speech: wav2vec 2.0 (Baevski et al. 2020) and HuBERT (Hsu et al. 2021), which hear a wave itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from model.parts.attention import Context, Maps, Recall, under
from model.parts.blocks import PostNormBlock, PreNormBlock, Stack
from model.parts.feed_forward import ACTIVATIONS
from model.parts.heads import head_width
from model.parts.sound import Convolution, PositionConvolution, WaveFeatures
from model.parts.stacks import BlockSizes


@dataclass(frozen=True)
class SpeechEncoderConfig(BlockSizes):
    """Sizes of a speech encoder; `positions` is the kernel of the convolution that places frames, in `groups`.

    `norm_first` normalises before each branch, else after. `each_norm` and `convolution_bias` are those of
    `WaveFeatures`; `projection_norm` says whether its features are normalised.
    """

    channels: tuple[int, ...]
    kernels: tuple[int, ...]
    strides: tuple[int, ...]
    positions: int
    groups: int
    width: int
    layers: int
    heads: int
    hidden: int
    each_norm: bool = False
    convolution_bias: bool = False
    convolution_activation: str = "gelu"
    projection_norm: bool = True
    norm_first: bool = False
    activation: str = "gelu"
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        if not len(self.channels) == len(self.kernels) == len(self.strides) > 0:
            counts = f"{len(self.channels)}, {len(self.kernels)} and {len(self.strides)}"
            raise ValueError(f"convolutions: channels, kernels and strides must be as many, given {counts}")

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        """The convolutions of a wave."""
        return tuple(map(Convolution, self.channels, self.kernels, self.strides))

    @property
    def hop(self) -> int:
        """Samples from the start of a frame to that of the next."""
        hop = 1
        for layer in self.convolutions:
            hop *= layer.stride
        return hop

    @property
    def window(self) -> int:
        """Samples that a frame is made of."""
        window = 1
        for layer in reversed(self.convolutions):
            window = (window - 1) * layer.stride + layer.kernel
        return window


class SpeechEncoder(nn.Module):
    """Convolutions of a wave, frames placed by another one, an encoder, and a head that takes its last states."""

    def __init__(
        self, features: WaveFeatures, projection: nn.Sequential, positions: nn.Module, norm: nn.Module, encoder: Stack,
        head: nn.Module,
    ) -> None:  # fmt: skip
        super().__init__()
        self.features = features
        self.projection = projection
        self.positions = positions
        self.norm = norm
        self.encoder = encoder
        self.head = head

    @property
    def width(self) -> int:
        """How many numbers the head returns for a sound, or for a frame."""
        return head_width(self.head, self.projection[-1].out_features)  # type: ignore[arg-type] # a Linear's

    def forward(self, samples: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[Tensor, Maps]:
        """Take normalised samples (batch, sample) -> the head's answer, and the encoder's maps."""
        x = self.projection(self.features(samples))  # (batch, frame, width)
        x = self.norm(x + self.positions(x))
        x, maps = self.encoder(x, Context(), recalls)
        return self.head(x), under("encoder", maps)


def speech_encoder(config: SpeechEncoderConfig, head: nn.Module) -> SpeechEncoder:
    """Compose an encoder of speech with freshly initialised weights."""
    made = config.channels[-1]
    block = PreNormBlock if config.norm_first else PostNormBlock
    before = nn.Identity() if config.norm_first else config.norm()
    behind = config.norm() if config.norm_first else nn.Identity()
    return SpeechEncoder(
        WaveFeatures(
            config.convolutions,
            ACTIVATIONS[config.convolution_activation],
            each_norm=config.each_norm,
            bias=config.convolution_bias,
        ),
        nn.Sequential(
            nn.LayerNorm(made, eps=config.epsilon) if config.projection_norm else nn.Identity(),
            nn.Linear(made, config.width),
        ),
        PositionConvolution(
            config.width, config.positions, config.groups, ACTIVATIONS[config.convolution_activation]()
        ),
        before,
        Stack(config.blocks(block), behind),
        head,
    )
