"""ELECTRA (Clark et al. 2020): a BERT whose embeddings may be narrower than its states."""

from export.checkpoints.building.text_family import of_words
from export.checkpoints.families import bert
from export.checkpoints.reading.config import Size
from model.architectures.text_encoder import TextEncoderConfig


class Config(bert.Config):
    """`config.json`."""

    embedding_size: Size = 128
    hidden_size: Size = 256
    num_attention_heads: Size = 4
    intermediate_size: Size = 1024
    irrelevant_keys = frozenset(
        {"summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"}  # of another task's head
    )


class ElectraFamily(bert.EncoderFamily[Config]):
    """A BERT with other heads, and a projection of embeddings where these are narrower."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        narrow = config.embedding_size if config.embedding_size != config.hidden_size else None
        return bert.sizes_of(config, TextEncoderConfig, types=config.type_vocab_size, embedding=narrow)


ELECTRA = ElectraFamily(
    "electra",
    Config,
    {**bert.NAMES, "embeddings_project": "embed.projection"},
    heads={
        "text-classification": {"classifier.dense": "head.dense", "classifier.out_proj": "head.output"},
        "token-classification": {"classifier": "head"},
        "question-answering": {"qa_outputs": "head"},
        **of_words({"generator_predictions.dense": "head.dense", "generator_predictions.LayerNorm": "head.norm"}),
        "feature-extraction": {},
    },
    prefix="electra.",
    unused=("embeddings.position_ids", "discriminator_predictions.dense", "discriminator_predictions.dense_prediction"),
    output_layer="generator_lm_head",
    output_bias="generator_lm_head.bias",
    classifier_activation="gelu",
    mask_activation="gelu",
)
