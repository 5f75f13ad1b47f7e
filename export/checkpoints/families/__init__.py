"""The families of checkpoints, by the `model_type` of their configuration; one file each."""

from typing import Any

from export.checkpoints.building.family import Family
from export.checkpoints.families.bart import BART
from export.checkpoints.families.bert import BERT
from export.checkpoints.families.conditional_detr import CONDITIONAL_DETR
from export.checkpoints.families.deit import DEIT
from export.checkpoints.families.detr import DETR
from export.checkpoints.families.dinov2 import DINOV2, DINOV2_WITH_REGISTERS
from export.checkpoints.families.distilbert import DISTILBERT
from export.checkpoints.families.gpt2 import GPT2
from export.checkpoints.families.m2m_100 import M2M_100
from export.checkpoints.families.marian import MARIAN
from export.checkpoints.families.mbart import MBART
from export.checkpoints.families.mpnet import MPNET
from export.checkpoints.families.pegasus import PEGASUS
from export.checkpoints.families.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from export.checkpoints.families.swin import SWIN
from export.checkpoints.families.swinv2 import SWINV2
from export.checkpoints.families.table_transformer import TABLE_TRANSFORMER
from export.checkpoints.families.vit import VIT
from export.checkpoints.families.yolos import YOLOS

_ALL = (
    *(VIT, DEIT, DINOV2, DINOV2_WITH_REGISTERS, SWIN, SWINV2),
    *(DETR, TABLE_TRANSFORMER, CONDITIONAL_DETR, YOLOS),
    *(BERT, ROBERTA, XLM_ROBERTA, CAMEMBERT, DISTILBERT, MPNET, GPT2),
    *(MARIAN, BART, MBART, PEGASUS, M2M_100),
)

FAMILIES: dict[str, Family[Any]] = {family.model_type: family for family in _ALL}
