"""I-JEPA (Assran et al. 2023): a ViT without a class token, whose patches are averaged."""

from torch import nn

from contract.manifest import Task
from export.checkpoints.building.image_family import vit_sizes
from export.checkpoints.families import vit
from export.checkpoints.families.dinov2 import HEADS
from export.checkpoints.reading.checkpoint import Checkpoint
from model.architectures.vit import PatchesAloneConfig, ViTConfig
from model.parts.heads import MeanLinear, MeanState


class Config(vit.Config):
    """`config.json`; a ratio stands beside the width inside the feed-forward, which holds."""

    irrelevant_keys = frozenset({"mlp_ratio"})


class IJepaFamily(vit.ViTFamily):
    """A ViT of patches alone, classified by the mean of their states, which is its features too."""

    def sizes(self, config: vit.Config, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""
        return vit_sizes(PatchesAloneConfig, config, image, config.intermediate_size)

    def head(self, config: vit.Config, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return a head for the task, not yet filled."""
        return MeanLinear(sizes.width, sizes.classes) if task == "image-classification" else MeanState()


IJEPA = IJepaFamily(
    "ijepa",
    Config,
    vit.NAMES,
    heads=HEADS,
    prefix="ijepa.",
    unused=("embeddings.mask_token",),
    processor="ViTImageProcessor",
)
