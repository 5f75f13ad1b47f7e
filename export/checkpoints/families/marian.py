"""Marian (Junczys-Dowmunt et al. 2018): an encoder-decoder with sinusoidal positions, for translation."""

from dataclasses import dataclass, replace

from export.checkpoints.building import sequence_family
from export.checkpoints.building.tensor_names import copy_of
from export.checkpoints.families import bart
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Index, Size
from export.checkpoints.reading.tokenizers.marian import convert
from export.checkpoints.reading.tokenizers.tokenizer import parse_tokenizer
from model.architectures.transformer import TransformerConfig, marian


class Config(sequence_family.SequenceConfig):
    """`config.json`."""

    decoder_vocab_size: Size | None = None
    extra_pos_embeddings: Index | None = None  # type: ignore[assignment] # sinusoids have no extra rows, whatever it is
    share_encoder_decoder_embeddings: bool = True


@dataclass(frozen=True)
class MarianFamily(sequence_family.SequenceFamily[Config]):
    """Like BART, with sinusoidal positions, without norms of embeddings, and optionally with two vocabularies."""

    def sizes(self, config: Config) -> TransformerConfig:
        """Return the definition's sizes."""
        targets = config.decoder_vocab_size or config.vocab_size
        if config.share_encoder_decoder_embeddings and targets != config.vocab_size:
            raise ValueError(
                f"config.json: decoder_vocab_size must be vocab_size, {config.vocab_size}, "
                f"where embeddings are shared, given {targets}"
            )
        own = None if config.share_encoder_decoder_embeddings else targets
        return replace(super().sizes(config), target_vocabulary=own)

    def tokenizers(self, checkpoint: Checkpoint, sizes: TransformerConfig) -> tuple[str, str | None]:
        """Return the converted SentencePiece models; a folder without them must hold a tokenizer."""
        if not checkpoint.has("source.spm"):
            return super().tokenizers(checkpoint, sizes)
        source, target = convert(checkpoint.folder)
        parse_tokenizer("source.spm", source, sizes.vocabulary)
        parse_tokenizer("target.spm", target, sizes.target_vocabulary or sizes.vocabulary)
        return source, target


MARIAN = MarianFamily(
    "marian",
    Config,
    {
        **sequence_family.stack_names(),
        # sinusoids, which older checkpoints hold although they are not learned
        "encoder.embed_positions.weight": copy_of("source.positions.table"),
        "decoder.embed_positions.weight": copy_of("target.positions.table"),
    },
    heads={"text2text-generation": bart.HEAD},
    prefix="model.",
    definition=marian,
    sinusoids=True,
)
