"""The families of checkpoints, by the `model_type` of their configuration; one file each."""

from typing import Any

from export.checkpoints.families.bart import BART
from export.checkpoints.families.bert import BERT
from export.checkpoints.families.deit import DEIT
from export.checkpoints.families.dinov2 import DINOV2, DINOV2_WITH_REGISTERS
from export.checkpoints.families.distilbert import DISTILBERT
from export.checkpoints.families.gpt2 import GPT2
from export.checkpoints.families.marian import MARIAN
from export.checkpoints.families.roberta import ROBERTA
from export.checkpoints.families.vit import VIT
from export.checkpoints.family import Family

FAMILIES: dict[str, Family[Any]] = {
    family.model_type: family
    for family in (VIT, DEIT, DINOV2, DINOV2_WITH_REGISTERS, BERT, ROBERTA, DISTILBERT, GPT2, MARIAN, BART)
}
