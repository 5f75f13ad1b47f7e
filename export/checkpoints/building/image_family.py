"""The base of the families of image encoders: configuration, image rule and positions of a ViT's checkpoint."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from contract.input_rules import ImageRule
from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint, without_keys
from export.checkpoints.reading.config import Activation, Config, Depth, Epsilon, Size
from export.checkpoints.reading.preprocessor_config import processed_size, read_image_rule
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.image import image_model
from model.architectures.swin import SwinConfig
from model.architectures.two_towers import PooledViT
from model.architectures.vit import ViT, ViTConfig, vit
from model.parts.blocks import PreNormBlock

PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"

Sides = Size | tuple[Size, Size]


def processor_of(checkpoint: Checkpoint, ignored: Collection[str], part: str = "image_processor") -> dict[str, Any]:
    """Return the settings of a part of a processor: of the file of a whole one, if it holds them, or of its own.

    Raises CheckpointError where there are none.
    """
    own = checkpoint.json(PROCESSOR).get(part)
    if own is None and checkpoint.has(PREPROCESSOR):
        own = checkpoint.json(PREPROCESSOR)
    if not isinstance(own, dict):
        raise CheckpointError(f"{PREPROCESSOR}: must be in the checkpoint's folder, and is not")
    return without_keys(own, ignored)


class PatchesConfig(Config):
    """What configurations of models have in common that cut images into patches."""

    image_size: Sides = 224
    patch_size: Sides = 16
    num_channels: Literal[1, 3] = 3
    hidden_act: Activation = "gelu"
    qkv_bias: bool = True


class ImageConfig(PatchesConfig):
    """What configurations of Vision Transformers have in common."""

    hidden_size: Size = 768
    num_hidden_layers: Depth = 12
    num_attention_heads: Size = 12
    layer_norm_eps: Epsilon = 1e-12


V = TypeVar("V", bound=ViTConfig)


def vit_sizes(make: type[V], config: ImageConfig, image: tuple[int, int], hidden: int, **further: int) -> V:
    """Return the sizes of a definition, which `make` makes: a configuration's, and further ones."""
    return make(
        image,
        config.num_channels,
        patch=sides(config.patch_size),
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        hidden=hidden,
        classes=len(config.labels),
        activation=config.hidden_act,
        epsilon=config.layer_norm_eps,
        **further,
    )


P = TypeVar("P", bound=PatchesConfig)
C = TypeVar("C", bound=ImageConfig)


def sides(value: Sides) -> tuple[int, int]:
    """Return (height, width) of a size that may be given as one number."""
    return (value, value) if isinstance(value, int) else value


@dataclass(frozen=True)
class ImageFamily(Family[P]):
    """A family that classifies or embeds images."""

    processor: str = ""
    """The class of image processor to assume if the folder names none."""
    command_options: ClassVar[str] = "--image-size"
    plan: ClassVar[Callable[..., Source]] = staticmethod(image_model)
    """Plans the graphs of a definition of its sizes."""

    @abstractmethod
    def compose(
        self, config: P, image: tuple[int, int], task: Task, checkpoint: Checkpoint
    ) -> tuple[nn.Module, ViTConfig | SwinConfig]:
        """Return the definition, not yet filled, and its sizes. Raises ValueError for an image that it cannot take."""

    def image(self, trained: tuple[int, int], processed: tuple[int, int] | None) -> tuple[int, int]:
        """Return the (height, width) to export for by default. Raises CheckpointError if two files disagree."""
        if processed not in (None, trained):
            raise CheckpointError(
                f"{PREPROCESSOR}: makes images of {processed[0]}x{processed[1]}, but {CONFIG} says "
                f"{trained[0]}x{trained[1]}; say which with --image-size HEIGHTxWIDTH"
            )
        return trained

    def rule(self, checkpoint: Checkpoint, options: ExportOptions, config: P) -> ImageRule:
        """Return how images are prepared. Raises CheckpointError."""
        processor = processor_of(checkpoint, options.ignored)
        image = options.image or self.image(sides(config.image_size), processed_size(processor, self.processor))
        return read_image_rule(processor, image, config.num_channels, self.processor)

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: P, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        rule = self.rule(checkpoint, options, config)
        try:
            module, sizes = self.compose(config, (rule.height, rule.width), task, checkpoint)
        except ValueError as error:
            raise CheckpointError(f"{CONFIG}: {error}; say another size with --image-size HEIGHTxWIDTH") from error
        module, unused = self.fill(module, checkpoint, config, task)
        return self.plan(
            options.name,
            module,
            sizes,
            family=self.model_type,
            task=task,
            rule=rule,
            labels=config.labels if task == "image-classification" else (),
            scores=config.scores if task.endswith("classification") else "softmax",
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )


@dataclass(frozen=True)
class VisionTransformerFamily(ImageFamily[C]):
    """A family whose definition is a ViT."""

    antialias: bool = False
    """True if position embeddings are smoothed when they are interpolated to fewer patches."""

    @abstractmethod
    def sizes(self, config: C, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""

    @abstractmethod
    def head(self, config: C, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return a head for the task, not yet filled."""

    def block(self, config: C, sizes: ViTConfig) -> nn.Module:
        """Return a fresh block."""
        return PreNormBlock(sizes.attention(bias=config.qkv_bias), sizes.feed_forward(), sizes.norm)

    def parts(self, config: C, sizes: ViTConfig) -> dict[str, nn.Module]:
        """Return the parts of the definition, by their names in `vit`, that are not the usual ones; by default none."""
        return {}

    def compose(
        self, config: C, image: tuple[int, int], task: Task, checkpoint: Checkpoint
    ) -> tuple[nn.Module, ViTConfig]:
        """Return a ViT, not yet filled, and its sizes."""
        sizes = self.sizes(config, image, checkpoint)
        return self.composed(config, sizes, self.head(config, sizes, task, checkpoint)), sizes

    def composed(self, config: C, sizes: ViTConfig, head: nn.Module) -> ViT:
        """Return a ViT of some sizes, not yet filled, with this head."""
        blocks = [self.block(config, sizes) for _ in range(sizes.layers)]
        return vit(sizes, head, blocks=blocks, **self.parts(config, sizes))

    def adapt(self, config: C, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Interpolate the position embeddings to the grid of the image that is exported for."""
        assert isinstance(module, ViT | PooledViT)  # noqa: S101 # for the type checker
        trained, patch = sides(config.image_size), sides(config.patch_size)
        before = trained[0] // patch[0], trained[1] // patch[1]
        after = module.patches.image[0] // patch[0], module.patches.image[1] // patch[1]
        name = "positions.weight"
        positions = tensors.get(name)
        if positions is None or before == after:
            return tensors
        prefix = len(module.positions.get_parameter("weight")) - after[0] * after[1]
        positions = positions.reshape(-1, positions.shape[-1])
        if len(positions) != prefix + before[0] * before[1]:
            raise CheckpointError(
                f"weights: {name} must hold {prefix + before[0] * before[1]} positions, given {len(positions)}"
            )
        grid = resized(positions[prefix:], before, after, mode="bicubic", antialias=self.antialias)
        return {**tensors, name: torch.cat((positions[:prefix].float(), grid))}


def resized(
    cells: Tensor, before: Sequence[int], after: Sequence[int], *, mode: str, antialias: bool = False
) -> Tensor:
    """Interpolate what is learned of the cells (cell, width) of a grid of rows and columns to those of another."""
    grid = cells.float().reshape(1, *before, -1).permute(0, 3, 1, 2)
    grid = functional.interpolate(grid, size=tuple(after), mode=mode, align_corners=False, antialias=antialias)
    return grid.flatten(2)[0].T


def block_names(theirs: str = "encoder.layer.{}", ours: str = "encoder.blocks.{}") -> Names:
    """Return the names of a block's attention, which are the same in all these families."""
    return {
        f"{theirs}.attention.attention.query": f"{ours}.attention.query",
        f"{theirs}.attention.attention.key": f"{ours}.attention.key",
        f"{theirs}.attention.attention.value": f"{ours}.attention.value",
        f"{theirs}.attention.output.dense": f"{ours}.attention.output",
    }


EMBEDDING_NAMES: Names = {
    "embeddings.cls_token": "class_token",
    "embeddings.position_embeddings": "positions.weight",
    "embeddings.patch_embeddings.projection": "patches.projection",
}
