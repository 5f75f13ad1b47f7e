"""MSN (Assran et al. 2022, "Masked Siamese Networks"): a ViT, whose features are the class token."""

from export.checkpoints.families import vit
from export.checkpoints.families.dinov2 import HEADS
from export.checkpoints.reading.config import Epsilon


class Config(vit.Config):
    """`config.json`."""

    layer_norm_eps: Epsilon = 1e-6


VIT_MSN = vit.ViTFamily(
    "vit_msn",
    Config,
    vit.NAMES,
    heads=HEADS,
    prefix="vit.",
    unused=("embeddings.mask_token",),
    processor="ViTImageProcessor",
)
