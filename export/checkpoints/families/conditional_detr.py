"""Conditional DETR (Meng et al. 2021)."""

from export.checkpoints.building.detector_family import (
    DECODER,
    DECODER_BLOCK,
    DETR_HEADS,
    DETR_NAMES,
    DetrConfig,
    DetrFamily,
    perceptron_names,
)
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.reading.config import Size
from model.architectures.conditional_detector import conditional_detector


class Config(DetrConfig):
    """`config.json`."""

    num_queries: Size = 300


PROJECTIONS = {
    "sa_qcontent_proj": ("self_attn.q_content_proj", "attention.query"),
    "sa_qpos_proj": ("self_attn.q_pos_proj", "attention.query_place"),
    "sa_kcontent_proj": ("self_attn.k_content_proj", "attention.key"),
    "sa_kpos_proj": ("self_attn.k_pos_proj", "attention.key_place"),
    "sa_v_proj": ("self_attn.v_proj", "attention.value"),
    "ca_qcontent_proj": ("encoder_attn.q_content_proj", "cross.query"),
    "ca_qpos_proj": ("encoder_attn.q_pos_proj", "cross.query_object"),
    "ca_qpos_sine_proj": ("encoder_attn.q_pos_sine_proj", "cross.query_place"),
    "ca_kcontent_proj": ("encoder_attn.k_content_proj", "cross.key"),
    "ca_kpos_proj": ("encoder_attn.k_pos_proj", "cross.key_place"),
    "ca_v_proj": ("encoder_attn.v_proj", "cross.value"),
}
"""A projection of a block of the decoder: its name on the hub -> its name in later checkpoints, and ours."""

NAMES: Names = {
    **DETR_NAMES,
    **{
        f"{DECODER}.{theirs}": f"{DECODER_BLOCK}.{ours}"
        for hub, (later, ours) in PROJECTIONS.items()
        for theirs in (hub, later)
    },
    **perceptron_names("decoder.ref_point_head", "decoder.point", 2),
    **perceptron_names("decoder.query_scale", "decoder.scale", 2),
}


CONDITIONAL_DETR = DetrFamily(
    "conditional_detr",
    Config,
    NAMES,
    DETR_HEADS,
    prefix="model.",
    processor="ConditionalDetrImageProcessor",
    scores="sigmoid",
    definition=conditional_detector,
)
