"""DETR (Carion et al. 2020)."""

from torch import nn

from export.checkpoints.building.detector_family import DETR_HEADS, DETR_NAMES, DetrConfig, DetrFamily
from model.architectures.detector import Detector, DetectorConfig, Places, detector


class DetrItself(DetrFamily[DetrConfig]):
    """A DETR on a ResNet."""

    def compose(self, sizes: DetectorConfig, backbone: nn.Module, places: Places | None) -> Detector:
        """Compose the definition, not yet filled."""
        return detector(sizes, backbone=backbone, places=places)


DETR = DetrItself("detr", DetrConfig, DETR_NAMES, DETR_HEADS, prefix="model.", processor="DetrImageProcessor")
