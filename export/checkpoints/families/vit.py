"""ViT (Dosovitskiy et al. 2021)."""

from torch import nn

from contract.manifest import Task
from export.checkpoints.building.image_family import (
    EMBEDDING_NAMES,
    ImageConfig,
    VisionTransformerFamily,
    block_names,
    vit_sizes,
)
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Activation, Size
from model.architectures.vit import ViTConfig
from model.parts.feed_forward import ACTIVATIONS
from model.parts.heads import FirstDense, FirstLinear, FirstState


class Config(ImageConfig):
    """`config.json`."""

    intermediate_size: Size = 3072
    pooler_output_size: Size | None = None
    pooler_act: Activation = "tanh"
    irrelevant_keys = frozenset({"encoder_stride"})


NAMES = {
    **EMBEDDING_NAMES,
    **block_names(),
    "encoder.layer.{}.layernorm_before": "encoder.blocks.{}.attention_norm",
    "encoder.layer.{}.layernorm_after": "encoder.blocks.{}.feed_forward_norm",
    "encoder.layer.{}.intermediate.dense": "encoder.blocks.{}.feed_forward.0",
    "encoder.layer.{}.output.dense": "encoder.blocks.{}.feed_forward.2",
    "layernorm": "encoder.norm",
}


class ViTFamily(VisionTransformerFamily[Config]):
    """A ViT classified by the class token; features are those of the pooler if there is one."""

    def sizes(self, config: Config, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""
        return vit_sizes(ViTConfig, config, image, config.intermediate_size)

    def head(self, config: Config, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return a head for the task, not yet filled."""
        if task == "image-classification":
            return FirstLinear(sizes.width, sizes.classes)
        if any(name.endswith("pooler.dense.weight") for name in checkpoint.tensors):
            pooled = config.pooler_output_size or sizes.width
            return FirstDense(sizes.width, pooled, ACTIVATIONS[config.pooler_act]())
        return FirstState()


VIT = ViTFamily(
    "vit",
    Config,
    NAMES,
    heads={
        "image-classification": {"classifier": "head"},
        "feature-extraction": {"pooler.dense": "head.dense"},
    },
    prefix="vit.",
    unused=("embeddings.mask_token",),
    processor="ViTImageProcessor",
)
