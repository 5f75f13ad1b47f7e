"""DeiT (Touvron et al. 2021): a ViT with a second token that learned from a teacher."""

import dataclasses

from torch import nn

from contract.manifest import Task
from export.checkpoints.families.vit import NAMES, Config, ViTFamily
from export.checkpoints.reading.checkpoint import Checkpoint
from model.architectures.vit import ViTConfig
from model.parts.heads import DistilledClassifier


class DeiTFamily(ViTFamily):
    """Like a ViT; if the checkpoint has the teacher's classifier too, the mean of both is the answer."""

    def sizes(self, config: Config, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""
        distilled = any(name.endswith("distillation_token") for name in checkpoint.tensors)
        return dataclasses.replace(super().sizes(config, image, checkpoint), distillation_tokens=int(distilled))

    def head(self, config: Config, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return a head for the task, not yet filled."""
        if task == "image-classification" and "distillation_classifier.weight" in checkpoint.tensors:
            return DistilledClassifier(sizes.width, sizes.classes)
        return super().head(config, sizes, task, checkpoint)


DEIT = DeiTFamily(
    "deit",
    Config,
    {**NAMES, "embeddings.distillation_token": "distillation_token"},
    heads={
        "image-classification": {
            "classifier": "head",
            "cls_classifier": "head.classifier",
            "distillation_classifier": "head.distilled",
        },
        "feature-extraction": {"pooler.dense": "head.dense"},
    },
    prefix="deit.",
    unused=("embeddings.mask_token",),
    processor="DeiTImageProcessor",
)
