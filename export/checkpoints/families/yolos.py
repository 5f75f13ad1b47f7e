"""YOLOS (Fang et al. 2021)."""

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional

from contract.input_rules import ImageRule
from contract.manifest import Task
from export.checkpoints.building.detector_family import LOSS_KEYS, DetectorFamily, LabelsWithGaps, perceptron_names
from export.checkpoints.building.family import ExportOptions, made_by
from export.checkpoints.building.image_family import ImageConfig, Sides, block_names, sides, vit_sizes
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Size
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.detection import sequence_detector
from model.architectures.yolos import Yolos, YolosConfig, positioned, yolos
from model.parts.blocks import PreNormBlock, Stack


class Config(LabelsWithGaps, ImageConfig):
    """`config.json`."""

    intermediate_size: Size = 3072
    image_size: Sides = (512, 864)
    num_detection_tokens: Size = 100
    use_mid_position_embeddings: bool = True
    irrelevant_keys = LOSS_KEYS


POSITIONS, MID_POSITIONS = "positions.weight", "encoder.positions"

NAMES = {
    "embeddings.cls_token": "class_token",
    "embeddings.detection_tokens": "detection_tokens",
    "embeddings.position_embeddings": POSITIONS,
    "embeddings.patch_embeddings.projection": "patches.projection",
    **block_names(),
    "encoder.layer.{}.layernorm_before": "encoder.blocks.{}.attention_norm",
    "encoder.layer.{}.layernorm_after": "encoder.blocks.{}.feed_forward_norm",
    "encoder.layer.{}.intermediate.dense": "encoder.blocks.{}.feed_forward.0",
    "encoder.layer.{}.output.dense": "encoder.blocks.{}.feed_forward.2",
    "encoder.mid_position_embeddings": MID_POSITIONS,
    "encoder.interpolation.mid_position_embeddings": MID_POSITIONS,
    "layernorm": "encoder.norm",
}


class YolosFamily(DetectorFamily[Config]):
    """A YOLOS, whose positions are interpolated to the canvas that is exported for."""

    def cell(self, config: Config) -> tuple[int, int]:
        """Return the sides of a patch."""
        return sides(config.patch_size)

    def channels(self, config: Config) -> int:
        """Return what the configuration says."""
        return config.num_channels

    def detector(
        self,
        checkpoint: Checkpoint,
        options: ExportOptions,
        config: Config,
        task: Task,
        rule: ImageRule,
        *,
        padded: bool,  # it looks at what is beside in any case
    ) -> Source:
        """Compose the definition for the images of a rule, fill it, and return the source."""
        image, objects = (rule.height, rule.width), config.num_detection_tokens
        sizes = vit_sizes(YolosConfig, config, image, config.intermediate_size, objects=objects)
        attention = functools.partial(sizes.attention, bias=config.qkv_bias)
        blocks = sizes.blocks(PreNormBlock, attention=attention, feed_forward=sizes.feed_forward)
        plain = not config.use_mid_position_embeddings
        encoder = Stack(blocks, sizes.norm()) if plain else positioned(sizes, blocks)
        module, unused = self.fill(yolos(sizes, encoder), checkpoint, config, task)
        return sequence_detector(
            options.name,
            module,
            sizes,
            family=self.model_type,
            rule=rule,
            labels=config.labels,
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )

    def adapt(self, config: Config, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Interpolate all position embeddings to the grid of the canvas."""
        assert isinstance(module, Yolos)  # noqa: S101 # for the type checker
        trained, patch = sides(config.image_size), sides(config.patch_size)
        before = trained[0] // patch[0], trained[1] // patch[1]
        after = module.patches.image[0] // patch[0], module.patches.image[1] // patch[1]
        found = dict(tensors)
        for name in {POSITIONS, MID_POSITIONS} & tensors.keys():
            given, own = tensors[name], module.get_parameter(name)
            tokens = 1 + before[0] * before[1] + config.num_detection_tokens
            if given.shape[-2:] != (tokens, config.hidden_size):
                raise CheckpointError(
                    f"weights: {name} must hold {tokens} positions of {config.hidden_size}, given {list(given.shape)}"
                )
            given = given.reshape(-1, tokens, config.hidden_size).float()
            found[name] = _interpolated(given, before, after).reshape(own.shape)
        return found


def _interpolated(positions: Tensor, before: tuple[int, int], after: tuple[int, int]) -> Tensor:
    """Return positions (layer, token, width) of another grid, which stands behind the first token."""
    patches = before[0] * before[1]
    grid = positions[:, 1 : 1 + patches].transpose(1, 2)  # (layer, width, patches)
    grid = grid.reshape(*grid.shape[:2], *before)  # (layer, width, rows, columns)
    grid = functional.interpolate(grid, size=after, mode="bicubic", align_corners=False)
    return torch.cat((positions[:, :1], grid.flatten(2).transpose(1, 2), positions[:, 1 + patches :]), dim=1)


YOLOS = YolosFamily(
    "yolos",
    Config,
    NAMES,
    {
        "object-detection": {
            **perceptron_names("class_labels_classifier", "head.classes", 3),
            **perceptron_names("bbox_predictor", "head.box", 3),
        }
    },
    prefix="vit.",
    unused=("pooler.dense",),
    processor="YolosImageProcessor",
)
