"""The families of checkpoints, by the `model_type` of their configuration; one file each."""

from typing import Any

from export.families.bart import BART
from export.families.bert import BERT
from export.families.deit import DEIT
from export.families.dinov2 import DINOV2, DINOV2_WITH_REGISTERS
from export.families.distilbert import DISTILBERT
from export.families.gpt2 import GPT2
from export.families.marian import MARIAN
from export.families.roberta import ROBERTA
from export.families.vit import VIT
from export.family import Family

FAMILIES: dict[str, Family[Any]] = {
    family.model_type: family
    for family in (VIT, DEIT, DINOV2, DINOV2_WITH_REGISTERS, BERT, ROBERTA, DISTILBERT, GPT2, MARIAN, BART)
}
