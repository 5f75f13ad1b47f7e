"""M2M-100 (Fan et al. 2020) and NLLB (NLLB Team et al. 2022): encoder-decoders for a hundred languages and more."""

from dataclasses import dataclass
from typing import Literal

from tokenizers import Tokenizer

from export.checkpoints.building.multilingual_family import MultilingualFamily
from export.checkpoints.building.sequence_family import PreNormConfig, stack_names
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Activation
from export.checkpoints.reading.tokenizers import m2m_100 as pieces
from export.checkpoints.reading.tokenizers.tokenizer import TOKENIZER_FILE, parse_tokenizer
from export.checkpoints.reading.tokenizers.vocabulary_files import SETTINGS_FILE
from model.architectures.transformer import TransformerConfig, m2m_100


class Config(PreNormConfig):
    """`config.json`, whose defaults are others than BART's."""

    activation_function: Activation = "relu"
    scale_embedding: bool = True
    pad_token_id: Literal[1] = 1
    """Positions are counted from behind it."""


@dataclass(frozen=True)
class M2M100Family(MultilingualFamily[Config]):
    """Sinusoids, no norm of embeddings, and no bias of the logits."""

    def tokenizer(self, checkpoint: Checkpoint, sizes: TransformerConfig) -> Tokenizer:
        """Return the tokenizer of `tokenizer.json` or, without one, of the SentencePiece model and its vocabulary."""
        if checkpoint.has(TOKENIZER_FILE) or not checkpoint.has(pieces.MODEL):
            return super().tokenizer(checkpoint, sizes)
        text = pieces.convert(checkpoint.folder, checkpoint.json(SETTINGS_FILE).get("language_codes"))
        return parse_tokenizer(pieces.MODEL, text, sizes.vocabulary)

    def marks_begin(self, checkpoint: Checkpoint) -> bool:
        """Return whether the language stands before a text; in NLLB it once stood behind it."""
        return not checkpoint.json(SETTINGS_FILE).get("legacy_behaviour", False)


M2M_100 = M2M100Family(
    "m2m_100",
    Config,
    stack_names(),
    heads={"text2text-generation": {}},
    prefix="model.",
    unused=("encoder.embed_positions.weights", "decoder.embed_positions.weights"),  # sinusoids, from older checkpoints
    definition=m2m_100,
    sinusoids=True,
    language=r"__([a-z]+)__|([a-z]{3}_[A-Z][a-z]{3})",
    default_languages=("en", "eng_Latn"),
    classes=("M2M100Tokenizer", "NllbTokenizer"),
)
