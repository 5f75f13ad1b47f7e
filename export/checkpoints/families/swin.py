"""Swin (Liu et al. 2021)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from torch import nn

from contract.manifest import Task
from export.checkpoints.building.image_family import ImageFamily, PatchesConfig, Sides, sides
from export.checkpoints.building.tensor_names import Names, cut
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Depth, Epsilon, Size
from export.plan import Source
from export.tasks.windows import windowed_image_model
from model.architectures.swin import Swin, SwinConfig, swin
from model.parts.heads import MeanLinear, MeanState


class Config(PatchesConfig):
    """`config.json`."""

    patch_size: Sides = 4
    embed_dim: Size = 96
    depths: tuple[Depth, ...] = (2, 2, 6, 2)
    num_heads: tuple[Size, ...] = (3, 6, 12, 24)
    window_size: Size = 7
    mlp_ratio: Epsilon = 4.0
    use_absolute_embeddings: bool = False
    layer_norm_eps: Epsilon = 1e-5
    irrelevant_keys = frozenset(
        {
            *("encoder_stride", "hidden_size", "num_layers", "path_norm"),  # of other heads, or said by other keys
            *("out_features", "out_indices", "stage_names"),  # of backbones
        }
    )


def sizes(config: Config, image: tuple[int, int]) -> SwinConfig:
    """Return the definition's sizes for images of (height, width)."""
    return SwinConfig(
        image,
        config.num_channels,
        patch=sides(config.patch_size),
        width=config.embed_dim,
        depths=config.depths,
        heads=config.num_heads,
        window=config.window_size,
        ratio=config.mlp_ratio,
        classes=len(config.labels),
        activation=config.hidden_act,
        epsilon=config.layer_norm_eps,
        absolute=config.use_absolute_embeddings,
        bias=config.qkv_bias,
    )


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class WindowedFamily(ImageFamily[C]):
    """A family whose stages look around in windows."""

    plan: ClassVar[Callable[..., Source]] = staticmethod(windowed_image_model)


class SwinFamily(WindowedFamily[Config]):
    """Swin; features are the mean of the last states."""

    def compose(
        self, config: Config, image: tuple[int, int], task: Task, checkpoint: Checkpoint
    ) -> tuple[Swin, SwinConfig]:
        """Return a Swin, not yet filled, and its sizes. Raises ValueError for an image that windows do not fill."""
        found = sizes(config, image)
        return swin(found, head(found, task)), found


def head(sizes: SwinConfig, task: Task) -> nn.Module:
    """Return a head for the task, not yet filled; features are the mean of the last states."""
    return MeanLinear(sizes.widths[-1], sizes.classes) if task == "image-classification" else MeanState()


def names_of_blocks(theirs: str, ours: str) -> Names:
    """Return the names of what the blocks of both versions have."""
    return {
        f"{theirs}.attention.self.query": f"{ours}.attention.query",
        f"{theirs}.attention.self.key": f"{ours}.attention.key",
        f"{theirs}.attention.self.value": f"{ours}.attention.value",
        f"{theirs}.attention.output.dense": f"{ours}.attention.output",
        f"{theirs}.layernorm_before": f"{ours}.attention_norm",
        f"{theirs}.layernorm_after": f"{ours}.feed_forward_norm",
        f"{theirs}.intermediate.dense": f"{ours}.feed_forward.0",
        f"{theirs}.output.dense": f"{ours}.feed_forward.2",
    }


COMMON_NAMES: Names = {
    "embeddings.patch_embeddings.projection": "patches.projection",
    "embeddings.norm": "patch_norm",
    **names_of_blocks("encoder.layers.{}.blocks.{}", "stages.{}.blocks.{}"),
    "layernorm": "norm",
}

NAMES: Names = {
    **COMMON_NAMES,
    "embeddings.position_embeddings": "positions.weight",
    "encoder.layers.{}.blocks.{}.attention.self.relative_position_bias_table": cut(
        "stages.{}.blocks.{}.attention.score.table", transposed=True
    ),
    "encoder.layers.{}.downsample.norm": "stages.{}.merging.project.0",
    "encoder.layers.{}.downsample.reduction": "stages.{}.merging.project.1",
}

HEADS: dict[Task, Names] = {"image-classification": {"classifier": "head"}, "feature-extraction": {}}

PROCESSOR = "ViTImageProcessor"

UNUSED = (
    "embeddings.mask_token",
    "encoder.layers.{}.blocks.{}.attention.self.relative_position_index",  # follows from the window's side
    "decoder.0",  # of masked images
)

SWIN = SwinFamily("swin", Config, NAMES, HEADS, prefix="swin.", unused=UNUSED, processor=PROCESSOR)
