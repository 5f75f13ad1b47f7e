"""CLIP (Radford et al. 2021): an encoder of pictures and one of texts, whose vectors are compared."""

from typing import Any

from torch import nn

from contract.manifest import Task
from export.checkpoints.building.image_family import ImageConfig, Sides, VisionTransformerFamily, vit_sizes
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.building.tower_family import (
    FEATURES,
    TextTower,
    TextTowerConfig,
    TowersConfig,
    TwoTowers,
    text_sizes,
)
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Activation, Epsilon, Size
from model.architectures.text_encoder import TextEncoder, TextEncoderConfig
from model.architectures.two_towers import clip_image, clip_text
from model.architectures.vit import ViT, ViTConfig
from model.parts.heads import FirstLinear

IN_TRAINING = frozenset({"dropout", "logit_scale_init_value"})


class Config(TowersConfig):
    """`config.json`."""

    projection_dim: Size = 512
    irrelevant_keys = IN_TRAINING


class TextConfig(TextTowerConfig):
    """`text_config` in it, and the numbers of a vector."""

    vocab_size: Size = 49408
    hidden_size: Size = 512
    num_attention_heads: Size = 8
    intermediate_size: Size = 2048
    max_position_embeddings: Size = 77
    hidden_act: Activation = "quick_gelu"
    layer_norm_eps: Epsilon = 1e-5
    projection_dim: Size = 512
    irrelevant_keys = IN_TRAINING


class VisionConfig(ImageConfig):
    """`vision_config` in it, and the numbers of a vector."""

    intermediate_size: Size = 3072
    patch_size: Sides = 32
    hidden_act: Activation = "quick_gelu"
    layer_norm_eps: Epsilon = 1e-5
    projection_dim: Size = 512
    irrelevant_keys = IN_TRAINING


def block_names(theirs: str = "encoder.layers.{}", ours: str = "encoder.blocks.{}") -> Names:
    """Return the names of a block, which are the same in both towers, and in those of families that followed."""
    return {
        f"{theirs}.self_attn.q_proj": f"{ours}.attention.query",
        f"{theirs}.self_attn.k_proj": f"{ours}.attention.key",
        f"{theirs}.self_attn.v_proj": f"{ours}.attention.value",
        f"{theirs}.self_attn.out_proj": f"{ours}.attention.output",
        f"{theirs}.layer_norm1": f"{ours}.attention_norm",
        f"{theirs}.mlp.fc1": f"{ours}.feed_forward.0",
        f"{theirs}.mlp.fc2": f"{ours}.feed_forward.2",
        f"{theirs}.layer_norm2": f"{ours}.feed_forward_norm",
    }


EMBEDDED_PATCHES: Names = {
    "embeddings.patch_embedding": "patches.projection",
    "embeddings.position_embedding": "positions",
    "post_layernorm": "encoder.norm",
}
EMBEDDED_TOKENS: Names = {
    "embeddings.token_embedding": "embed.tokens",
    "embeddings.position_embedding": "embed.positions",
    "final_layer_norm": "encoder.norm",
}
COUNTED = ("embeddings.position_ids",)


class ClipImage(VisionTransformerFamily[VisionConfig]):
    """The encoder of pictures: the class token, projected."""

    def sizes(self, config: VisionConfig, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""
        return vit_sizes(ViTConfig, config, image, config.intermediate_size)

    def head(self, config: VisionConfig, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return the projection, not yet filled."""
        return FirstLinear(sizes.width, config.projection_dim, bias=False)

    def compose(
        self, config: VisionConfig, image: tuple[int, int], task: Task, checkpoint: Checkpoint
    ) -> tuple[ViT, ViTConfig]:
        """Return the definition, not yet filled, and its sizes."""
        sizes = self.sizes(config, image, checkpoint)
        return clip_image(sizes, self.head(config, sizes, task, checkpoint)), sizes


class ClipText(TextTower[TextConfig]):
    """The encoder of texts: the token that ends a text, projected."""

    def compose(self, config: TextConfig) -> tuple[TextEncoder, TextEncoderConfig]:
        """Return the definition, not yet filled, and its sizes."""
        sizes = text_sizes(config)
        return clip_text(sizes, config.projection_dim), sizes


class ClipFamily(TwoTowers[Config]):
    """Both, whose vectors have as many numbers as the configuration of both says."""

    def of_both(self, config: Config) -> dict[str, Any]:
        """Return how many numbers a vector has."""
        return {"projection_dim": config.projection_dim}


CLIP = ClipFamily(
    "clip",
    Config,
    names={},
    heads=FEATURES,
    image=ClipImage(
        "clip",
        VisionConfig,
        {
            **EMBEDDED_PATCHES,
            **block_names(),
            "embeddings.class_embedding": "class_token",
            "pre_layrnorm": "encoder.before",
        },
        heads={"feature-extraction": {"visual_projection": "head"}},
        prefix="vision_model.",
        unused=COUNTED,
        processor="CLIPImageProcessor",
    ),
    text=ClipText(
        "clip",
        TextConfig,
        {**EMBEDDED_TOKENS, **block_names()},
        heads={"feature-extraction": {"text_projection": "head.behind"}},
        prefix="text_model.",
        unused=COUNTED,
    ),
    scores="softmax",
)
