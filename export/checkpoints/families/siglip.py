"""SigLIP (Zhai et al. 2023), and SigLIP 2 at a fixed size (Tschannen et al. 2025): pictures and texts, by sigmoid."""

from typing import Literal

from torch import nn

from contract.manifest import Task
from export.checkpoints.building.image_family import ImageConfig, VisionTransformerFamily, vit_sizes
from export.checkpoints.building.tensor_names import cut
from export.checkpoints.building.tower_family import (
    FEATURES,
    TextTower,
    TextTowerConfig,
    TowersConfig,
    TwoTowers,
    text_sizes,
)
from export.checkpoints.families.clip import COUNTED, EMBEDDED_PATCHES, EMBEDDED_TOKENS, block_names
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Activation, Epsilon, Size
from model.architectures.text_encoder import TextEncoder, TextEncoderConfig
from model.architectures.two_towers import PooledViT, siglip_image, siglip_text
from model.architectures.vit import PatchesAloneConfig, ViTConfig


class TextConfig(TextTowerConfig):
    """`text_config` of `config.json`."""

    vocab_size: Size = 32000
    max_position_embeddings: Size = 64
    hidden_act: Activation = "gelu_tanh"
    layer_norm_eps: Epsilon = 1e-6
    projection_size: Size | None = None


class VisionConfig(ImageConfig):
    """`vision_config` of `config.json`."""

    intermediate_size: Size = 3072
    hidden_act: Activation = "gelu_tanh"
    layer_norm_eps: Epsilon = 1e-6
    vision_use_head: Literal[True] = True


class SiglipImage(VisionTransformerFamily[VisionConfig]):
    """The encoder of pictures, pooled by attention."""

    def sizes(self, config: VisionConfig, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""
        return vit_sizes(PatchesAloneConfig, config, image, config.intermediate_size)

    def head(self, config: VisionConfig, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return nothing: what attends is a part of the definition."""
        return nn.Identity()

    def compose(
        self, config: VisionConfig, image: tuple[int, int], task: Task, checkpoint: Checkpoint
    ) -> tuple[PooledViT, ViTConfig]:
        """Return the definition, not yet filled, and its sizes."""
        sizes = self.sizes(config, image, checkpoint)
        return siglip_image(sizes), sizes


class SiglipText(TextTower[TextConfig]):
    """The encoder of texts: the last token, which is padding unless a text is long, projected."""

    def compose(self, config: TextConfig) -> tuple[TextEncoder, TextEncoderConfig]:
        """Return the definition, not yet filled, and its sizes."""
        sizes = text_sizes(config)
        return siglip_text(sizes, config.projection_size or config.hidden_size), sizes


SIGLIP = TwoTowers(
    "siglip",
    TowersConfig,
    names={},
    heads=FEATURES,
    image=SiglipImage(
        "siglip",
        VisionConfig,
        {
            **EMBEDDED_PATCHES,
            **block_names(),
            "head.probe": "pool.probe",
            **{
                f"head.attention.in_proj_{end}": cut(
                    *(f"pool.attention.{part}.{end}" for part in ("query", "key", "value"))
                )
                for end in ("weight", "bias")
            },
            "head.attention.out_proj": "pool.attention.output",
            "head.layernorm": "pool.norm",
            "head.mlp.fc1": "pool.feed_forward.0",
            "head.mlp.fc2": "pool.feed_forward.2",
        },
        heads=FEATURES,
        prefix="vision_model.",
        unused=COUNTED,
        processor="SiglipImageProcessor",
    ),
    text=SiglipText(
        "siglip",
        TextConfig,
        {**EMBEDDED_TOKENS, **block_names(), "head": "head.behind"},
        heads=FEATURES,
        prefix="text_model.",
        unused=COUNTED,
        filled=True,
    ),
    scores="sigmoid",
)
