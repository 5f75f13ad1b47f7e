"""Table Transformer (Smock et al. 2022): a DETR that normalises before each branch, and finds parts of tables."""

import functools
from typing import Literal

from export.checkpoints.building.detector_family import DETR_HEADS, DETR_NAMES, DetrConfig, DetrFamily
from model.architectures.detector import detector
from model.parts.stacks import PRE_NORM


class Config(DetrConfig):
    """`config.json`."""

    normalize_before: Literal[True] = True


TABLE_TRANSFORMER = DetrFamily(
    "table-transformer",
    Config,
    {**DETR_NAMES, "encoder.layernorm": "encoder.norm"},
    DETR_HEADS,
    prefix="model.",
    processor="DetrImageProcessor",
    definition=functools.partial(detector, wiring=PRE_NORM),
)
