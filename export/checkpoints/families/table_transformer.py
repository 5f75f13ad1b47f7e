"""Table Transformer (Smock et al. 2022): a DETR that normalises before each branch, and finds parts of tables."""

from typing import Literal

from torch import nn

from export.checkpoints.building.detector_family import DETR_HEADS, DETR_NAMES, DetrConfig, DetrFamily
from model.architectures.detector import Detector, DetectorConfig, Places, detector
from model.parts.stacks import PRE_NORM


class Config(DetrConfig):
    """`config.json`."""

    normalize_before: Literal[True] = True


class TableTransformerFamily(DetrFamily[Config]):
    """A Table Transformer on a ResNet."""

    def compose(self, sizes: DetectorConfig, backbone: nn.Module, places: Places | None) -> Detector:
        """Compose the definition, not yet filled."""
        return detector(sizes, PRE_NORM, backbone, places)


TABLE_TRANSFORMER = TableTransformerFamily(
    "table-transformer",
    Config,
    {**DETR_NAMES, "encoder.layernorm": "encoder.norm"},
    DETR_HEADS,
    prefix="model.",
    processor="DetrImageProcessor",
)
