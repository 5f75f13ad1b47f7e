"""Vision Transformers with other attentions, blocks or positions, each with about as many parameters."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from model.architectures.vit import ViT, ViTConfig, vit
from model.parts.attention import MultiHeadAttention, Score, Select, scaled_dot_product, soft
from model.parts.attention_variants import Additive, AxialAttention, Bilinear, Hard, ReAttention, dot_product
from model.parts.blocks import BranchformerBlock, EBranchformerBlock, MacaronBlock, ParallelBlock, PreNormBlock
from model.parts.convolutions import ConvolutionalGatingMLP, DepthwiseMerge
from model.parts.norms import LayerScale
from model.parts.positions import NoPositions, SinusoidalPositions

KERNEL = 9  # patches a convolution covers: on a grid of four columns, about a row above and a row below

PLAIN = ViTConfig((28, 28), 1, patch=(7, 7), width=32, layers=6, heads=4, hidden=128, classes=10)
"""Handwritten digits, with coarser patches and more layers than `digits`: with depth, variants differ more."""


def plain(config: ViTConfig) -> ViT:
    """The Vision Transformer (Dosovitskiy et al. 2021)."""
    return vit(config)


def dot(config: ViTConfig) -> ViT:
    """Scores are not scaled (Luong et al. 2015)."""
    return _attending(config, score=lambda: dot_product)


def additive(config: ViTConfig) -> ViT:
    """Scores are a small network's (Bahdanau et al. 2015)."""
    return _attending(config, score=lambda: Additive(config.heads, config.width // config.heads))


def bilinear(config: ViTConfig) -> ViT:
    """Scores are a learned bilinear form's (Luong et al. 2015)."""
    return _attending(config, score=lambda: Bilinear(config.heads, config.width // config.heads))


def hard(config: ViTConfig) -> ViT:
    """Each token looks at one other (Xu et al. 2015), trained straight through the choice."""
    return _attending(config, select=Hard)


def re_attention(config: ViTConfig) -> ViT:
    """Maps of heads are mixed after the softmax (Zhou et al. 2021, DeepViT)."""
    return _attending(config, select=lambda: ReAttention(config.heads))


def parallel(config: ViTConfig) -> ViT:
    """Two attentions side by side, then two feed-forwards, half as deep (Touvron et al. 2022)."""
    if config.layers % 2:
        raise ValueError(f"parallel: layers must be even, two side by side, given {config.layers}")
    blocks = replace(config, layers=config.layers // 2).blocks(
        ParallelBlock,
        attentions=lambda: [config.attention() for _ in range(2)],
        feed_forwards=lambda: [config.feed_forward() for _ in range(2)],
    )
    return vit(config, blocks=blocks)


def layer_scale(config: ViTConfig) -> ViT:
    """Branches are scaled a channel, by little at first (Touvron et al. 2021, CaiT)."""
    scale = functools.partial(LayerScale, config.width, 0.1)
    return vit(config, blocks=config.blocks(functools.partial(PreNormBlock, scale=scale)))


def macaron(config: ViTConfig) -> ViT:
    """Attention between two halves of a feed-forward (Lu et al. 2019)."""
    half = replace(config, hidden=config.hidden // 2).feed_forward
    return vit(config, blocks=config.blocks(MacaronBlock, attention=config.attention, first=half, second=half))


def branchformer(config: ViTConfig) -> ViT:
    """Attention beside a gate that convolves, joined by a projection (Peng et al. 2022)."""
    merges = [nn.Linear(2 * config.width, config.width) for _ in range(config.layers)]
    return vit(config, blocks=[_branches(config, merge) for merge in merges])


def e_branchformer(config: ViTConfig) -> ViT:
    """The same, joined with a convolution, between two halves of a feed-forward (Kim et al. 2022)."""
    half = replace(config, hidden=config.hidden // 2).feed_forward
    blocks = config.blocks(
        EBranchformerBlock,
        branches=lambda: _branches(config, DepthwiseMerge(config.width, KERNEL)),
        first=half,
        second=half,
    )
    return vit(config, blocks=blocks)


def axial(config: ViTConfig) -> ViT:
    """Attention along rows plus attention along columns (Ho et al. 2019); both see the class token."""

    def attentions() -> list[MultiHeadAttention]:
        return [
            AxialAttention(config.width, config.heads, axis, config.grid, prefix=config.prefix)
            for axis in reversed(range(len(config.grid)))
        ]

    blocks = config.blocks(ParallelBlock, attentions=attentions, feed_forwards=lambda: [config.feed_forward()])
    return vit(config, blocks=blocks)


def sinusoidal(config: ViTConfig) -> ViT:
    """Positions are sinusoids, which nobody learns (Vaswani et al. 2017)."""
    rows, columns = config.grid
    return vit(config, positions=SinusoidalPositions(config.prefix + rows * columns, config.width))


def no_positions(config: ViTConfig) -> ViT:
    """Patches are a set: where one stood is not told."""
    return vit(config, positions=NoPositions())


def _attending(
    config: ViTConfig,
    score: Callable[[], Score] = lambda: scaled_dot_product,
    select: Callable[[], Select] = lambda: soft,
) -> ViT:
    attentions = iter([config.attention(score=score(), select=select()) for _ in range(config.layers)])
    blocks = config.blocks(PreNormBlock, attention=lambda: next(attentions), feed_forward=config.feed_forward)
    return vit(config, blocks=blocks)


def _branches(config: ViTConfig, merge: nn.Module) -> BranchformerBlock:
    gating = ConvolutionalGatingMLP(config.width, config.hidden, KERNEL)
    return BranchformerBlock(config.attention(), gating, merge, config.norm)


@dataclass(frozen=True)
class Variant:
    """A way to compose, and the sizes at which it has about as many parameters as the others."""

    compose: Callable[[ViTConfig], ViT]
    config: ViTConfig = PLAIN

    @property
    def words(self) -> str:
        """What is different, and the paper it comes from."""
        return str(self.compose.__doc__)


VARIANTS = {
    "digits-plain": Variant(plain),
    "digits-dot": Variant(dot),
    "digits-additive": Variant(additive),
    "digits-bilinear": Variant(bilinear, replace(PLAIN, hidden=124)),
    "digits-hard": Variant(hard),
    "digits-re-attention": Variant(re_attention),
    "digits-parallel": Variant(parallel),
    "digits-layer-scale": Variant(layer_scale),
    "digits-macaron": Variant(macaron),
    "digits-branchformer": Variant(branchformer, replace(PLAIN, hidden=114)),
    "digits-e-branchformer": Variant(e_branchformer, replace(PLAIN, hidden=44)),
    "digits-axial": Variant(axial, replace(PLAIN, hidden=62)),
    "digits-sinusoidal": Variant(sinusoidal, replace(PLAIN, hidden=130)),
    "digits-no-positions": Variant(no_positions, replace(PLAIN, hidden=130)),
}
