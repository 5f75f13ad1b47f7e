"""DETR (Carion et al. 2020)."""

from export.checkpoints.building.detector_family import DETR_HEADS, DETR_NAMES, DetrConfig, DetrFamily

DETR = DetrFamily("detr", DetrConfig, DETR_NAMES, DETR_HEADS, prefix="model.", processor="DetrImageProcessor")
