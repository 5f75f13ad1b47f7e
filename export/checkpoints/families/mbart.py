"""mBART (Liu et al. 2020): a BART that normalises before its branches, for many languages."""

from export.checkpoints.building.multilingual_family import MultilingualFamily
from export.checkpoints.building.sequence_family import PreNormConfig
from export.checkpoints.families.bart import BART, HEAD
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.classes import declared_class


class MBartFamily(MultilingualFamily[PreNormConfig]):
    """The language stands behind a text, and before it in mBART-50 (Tang et al. 2020)."""

    def marks_begin(self, checkpoint: Checkpoint) -> bool:
        """Return whether the tokenizer is that of mBART-50."""
        return declared_class(checkpoint) == "MBart50Tokenizer"


MBART = MBartFamily(
    "mbart",
    PreNormConfig,
    BART.names,
    heads={"text2text-generation": HEAD},
    prefix=BART.prefix,
    language=r"([a-z]{2}_[A-Z]{2})",
    default_languages=("en_XX",),
    classes=("MBartTokenizer", "MBart50Tokenizer"),
)
