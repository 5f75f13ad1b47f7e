"""DistilBERT (Sanh et al. 2019): a BERT of half the layers, which does not tell two texts apart."""

from export.checkpoints.building.text_family import EMBEDDING_NAMES, TextConfig, TextFamily, of_words
from export.checkpoints.reading.config import Activation, Depth, Size
from model.architectures.text_encoder import TextEncoderConfig


class Config(TextConfig):
    """`config.json`."""

    dim: Size = 768
    n_layers: Depth = 6
    n_heads: Size = 12
    hidden_dim: Size = 3072
    activation: Activation = "gelu"
    irrelevant_keys = frozenset(
        {"sinusoidal_pos_embds", "tie_weights_"}
    )  # the positions are in the checkpoint either way


class DistilBertFamily(TextFamily[Config]):
    """The first token is classified."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        return TextEncoderConfig(
            config.vocab_size,
            length=config.max_position_embeddings,
            width=config.dim,
            layers=config.n_layers,
            heads=config.n_heads,
            hidden=config.hidden_dim,
            activation=config.activation,
        )


DISTILBERT = DistilBertFamily(
    "distilbert",
    Config,
    {
        **EMBEDDING_NAMES,
        "transformer.layer.{}.attention.q_lin": "encoder.blocks.{}.attention.query",
        "transformer.layer.{}.attention.k_lin": "encoder.blocks.{}.attention.key",
        "transformer.layer.{}.attention.v_lin": "encoder.blocks.{}.attention.value",
        "transformer.layer.{}.attention.out_lin": "encoder.blocks.{}.attention.output",
        "transformer.layer.{}.sa_layer_norm": "encoder.blocks.{}.attention_norm",
        "transformer.layer.{}.ffn.lin1": "encoder.blocks.{}.feed_forward.0",
        "transformer.layer.{}.ffn.lin2": "encoder.blocks.{}.feed_forward.2",
        "transformer.layer.{}.output_layer_norm": "encoder.blocks.{}.feed_forward_norm",
    },
    heads={
        "text-classification": {"pre_classifier": "head.dense", "classifier": "head.output"},
        "token-classification": {"classifier": "head"},
        "question-answering": {"qa_outputs": "head"},
        **of_words({"vocab_transform": "head.dense", "vocab_layer_norm": "head.norm"}),
        "feature-extraction": {},
    },
    prefix="distilbert.",
    unused=("embeddings.position_ids",),
    output_layer="vocab_projector",
    output_bias="vocab_projector.bias",
    classifier_activation="relu",
)
