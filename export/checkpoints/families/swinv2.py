"""Swin V2 (Liu et al. 2022)."""

from typing import Literal

from pydantic import Field

from contract.manifest import Task
from export.checkpoints.building.image_family import sides
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.families import swin
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Index
from model.architectures.swin import Swin
from model.architectures.swin_v2 import SwinV2Config, swin_v2


class Config(swin.Config):
    """`config.json`."""

    pretrained_window_sizes: tuple[Index, ...] = Field((0, 0, 0, 0))
    use_absolute_embeddings: Literal[False] = False
    """The reference library has one position too many, and cannot run with them."""


def sizes(config: Config, image: tuple[int, int]) -> SwinV2Config:
    """Return the definition's sizes for images of (height, width).

    Where a stage does not say the windows that it was trained with, they are those of the checkpoint's own image size.
    """
    pairs = zip(sides(config.image_size), sides(config.patch_size), strict=True)
    shorter = min(side // patch for side, patch in pairs)  # of the first stage's grid
    said = config.pretrained_window_sizes
    trained = (
        side or max(min(config.window_size, shorter >> stage), 2)  # (places in windows of 1 and 2 are scaled alike)
        for stage, side in enumerate(said if any(said) else (0,) * len(config.depths))
    )
    return SwinV2Config(**vars(swin.sizes(config, image)), trained_windows=tuple(trained))


class SwinV2Family(swin.WindowedFamily[Config]):
    """Swin V2; features are the mean of the last states."""

    def compose(
        self, config: Config, image: tuple[int, int], task: Task, checkpoint: Checkpoint
    ) -> tuple[Swin, SwinV2Config]:
        """Return a Swin V2, not yet filled, and its sizes. Raises ValueError for an image that windows do not fill."""
        found = sizes(config, image)
        return swin_v2(found, swin.head(found, task)), found


NAMES: Names = {
    **swin.COMMON_NAMES,
    "encoder.layers.{}.blocks.{}.attention.self.logit_scale": "stages.{}.blocks.{}.attention.score.scale",
    "encoder.layers.{}.blocks.{}.attention.self.continuous_position_bias_mlp.0": (
        "stages.{}.blocks.{}.attention.score.mlp.0"
    ),
    "encoder.layers.{}.blocks.{}.attention.self.continuous_position_bias_mlp.2": (
        "stages.{}.blocks.{}.attention.score.mlp.2"
    ),
    "encoder.layers.{}.downsample.reduction": "stages.{}.merging.project.0",
    "encoder.layers.{}.downsample.norm": "stages.{}.merging.project.1",
}

UNUSED = (
    *swin.UNUSED,
    "encoder.layers.{}.blocks.{}.attention.self.relative_coords_table",  # follows from the window's side
)

SWINV2 = SwinV2Family("swinv2", Config, NAMES, swin.HEADS, prefix="swinv2.", unused=UNUSED, processor=swin.PROCESSOR)
