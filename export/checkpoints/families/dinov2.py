"""DINOv2 (Oquab et al. 2023), and with registers (Darcet et al. 2024)."""

import functools
from typing import Annotated

from pydantic import Field
from torch import nn

from contract.manifest import Task
from export.checkpoints.building.image_family import (
    EMBEDDING_NAMES,
    ImageConfig,
    Sides,
    VisionTransformerFamily,
    block_names,
    vit_sizes,
)
from export.checkpoints.building.tensor_names import Names, cut
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Epsilon, Index
from model.architectures.vit import ViTConfig
from model.parts.blocks import PreNormBlock
from model.parts.feed_forward import GatedFeedForward
from model.parts.heads import FirstAndMeanClassifier, FirstState
from model.parts.norms import LayerScale


class Config(ImageConfig):
    """`config.json` of DINOv2."""

    patch_size: Sides = 14
    mlp_ratio: Annotated[int | float, Field(gt=0)] = 4
    layer_norm_eps: Epsilon = 1e-6
    use_swiglu_ffn: bool = False
    num_register_tokens: Index = 0
    irrelevant_keys = frozenset(
        # of the backbone, which hands out every layer's states, and of masked training; width / ratio say the rest
        {"apply_layernorm", "out_features", "out_indices", "reshape_hidden_states", "stage_names", "use_mask_token"}
        | {"intermediate_size"}
    )


class RegistersConfig(Config):
    """`config.json` of the variant with registers, whose defaults are others."""

    patch_size: Sides = 16
    num_register_tokens: Index = 4


NAMES: Names = {
    **EMBEDDING_NAMES,
    **block_names(),
    "embeddings.register_tokens": "registers",
    "encoder.layer.{}.norm1": "encoder.blocks.{}.attention_norm",
    "encoder.layer.{}.layer_scale1.lambda1": "encoder.blocks.{}.attention_scale.weight",
    "encoder.layer.{}.norm2": "encoder.blocks.{}.feed_forward_norm",
    "encoder.layer.{}.layer_scale2.lambda1": "encoder.blocks.{}.feed_forward_scale.weight",
    "encoder.layer.{}.mlp.fc1": "encoder.blocks.{}.feed_forward.0",
    "encoder.layer.{}.mlp.fc2": "encoder.blocks.{}.feed_forward.2",
    "encoder.layer.{}.mlp.weights_in": cut("encoder.blocks.{}.feed_forward.gate", "encoder.blocks.{}.feed_forward.up"),
    "encoder.layer.{}.mlp.weights_out": "encoder.blocks.{}.feed_forward.output",
    "layernorm": "encoder.norm",
}


class Dinov2Family(VisionTransformerFamily[Config]):
    """A ViT classified by the class token and the mean of the patches; features are the class token."""

    def image(self, trained: tuple[int, int], processed: tuple[int, int] | None) -> tuple[int, int]:
        """Return the processor's size: the model is trained at a larger one, and meant to be used at any."""
        return processed or trained

    def sizes(self, config: Config, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""
        hidden = int(config.hidden_size * config.mlp_ratio)
        if config.use_swiglu_ffn:
            hidden = (int(hidden * 2 / 3) + 7) // 8 * 8  # two thirds, since there are three matrices rather than two
        return vit_sizes(ViTConfig, config, image, hidden, registers=config.num_register_tokens)

    def block(self, config: Config, sizes: ViTConfig) -> nn.Module:
        """Return a fresh block, whose every branch is scaled."""
        attention, gated = sizes.attention(bias=config.qkv_bias), config.use_swiglu_ffn
        mlp = GatedFeedForward(sizes.width, sizes.hidden) if gated else sizes.feed_forward()
        return PreNormBlock(attention, mlp, sizes.norm, functools.partial(LayerScale, sizes.width))

    def head(self, config: Config, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return a head for the task, not yet filled."""
        if task == "image-classification":
            return FirstAndMeanClassifier(sizes.width, sizes.classes, sizes.prefix)
        return FirstState()


HEADS: dict[Task, dict[str, str]] = {"image-classification": {"classifier": "head"}, "feature-extraction": {}}
PROCESSOR = "BitImageProcessor"
MASK = ("embeddings.mask_token",)

DINOV2 = Dinov2Family("dinov2", Config, NAMES, HEADS, prefix="dinov2.", unused=MASK, processor=PROCESSOR)
DINOV2_WITH_REGISTERS = Dinov2Family(
    "dinov2_with_registers",
    RegistersConfig,
    NAMES,
    HEADS,
    prefix="dinov2_with_registers.",
    unused=MASK,
    processor=PROCESSOR,
    antialias=True,
)
