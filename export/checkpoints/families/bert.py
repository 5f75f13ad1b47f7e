"""BERT (Devlin et al. 2019), and what the encoders that followed it have in common with it."""

import dataclasses
from typing import Any, TypeVar

from export.checkpoints.building.tensor_names import Names
from export.checkpoints.building.text_family import EMBEDDING_NAMES, TextConfig, TextFamily, of_words
from export.checkpoints.reading.config import Activation, Depth, Epsilon, Index, Size
from model.architectures.text_encoder import TextEncoderConfig


class EncoderConfig(TextConfig):
    """The sizes in `config.json` of BERT and those that followed it."""

    hidden_size: Size = 768
    num_hidden_layers: Depth = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: Activation = "gelu"
    layer_norm_eps: Epsilon = 1e-12


class Config(EncoderConfig):
    """`config.json` of BERT and RoBERTa."""

    type_vocab_size: Index = 2


FEED_FORWARD_NAMES: Names = {
    "encoder.layer.{}.intermediate.dense": "encoder.blocks.{}.feed_forward.0",
    "encoder.layer.{}.output.dense": "encoder.blocks.{}.feed_forward.2",
    "encoder.layer.{}.output.LayerNorm": "encoder.blocks.{}.feed_forward_norm",
}

NAMES: Names = {
    **EMBEDDING_NAMES,
    "embeddings.token_type_embeddings": "embed.types",
    "encoder.layer.{}.attention.self.query": "encoder.blocks.{}.attention.query",
    "encoder.layer.{}.attention.self.key": "encoder.blocks.{}.attention.key",
    "encoder.layer.{}.attention.self.value": "encoder.blocks.{}.attention.value",
    "encoder.layer.{}.attention.output.dense": "encoder.blocks.{}.attention.output",
    "encoder.layer.{}.attention.output.LayerNorm": "encoder.blocks.{}.attention_norm",
    **FEED_FORWARD_NAMES,
}

E = TypeVar("E", bound=EncoderConfig)
S = TypeVar("S", bound=TextEncoderConfig)


def sizes_of(config: EncoderConfig, kind: type[S], **more: Any) -> S:  # noqa: ANN401 # fields of that kind
    """Return a definition's sizes, of a kind that has more of them."""
    return kind(
        config.vocab_size,
        **{
            "length": config.max_position_embeddings,
            "width": config.hidden_size,
            "layers": config.num_hidden_layers,
            "heads": config.num_attention_heads,
            "hidden": config.intermediate_size,
            "activation": config.hidden_act,
            "epsilon": config.layer_norm_eps,
            **more,
        },
    )


class EncoderFamily(TextFamily[E]):
    """A text encoder that is configured as BERT."""

    def sizes(self, config: E) -> TextEncoderConfig:
        """Return the definition's sizes."""
        return sizes_of(config, TextEncoderConfig)


class BertFamily(EncoderFamily[Config]):
    """A text encoder whose first token, [CLS], is classified."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        return dataclasses.replace(super().sizes(config), types=config.type_vocab_size)


BERT = BertFamily(
    "bert",
    Config,
    NAMES,
    heads={
        "text-classification": {"pooler.dense": "head.dense", "classifier": "head.output"},
        "token-classification": {"classifier": "head"},
        "question-answering": {"qa_outputs": "head"},
        **of_words(
            {
                "cls.predictions.transform.dense": "head.dense",
                "cls.predictions.transform.LayerNorm": "head.norm",
            }
        ),
        "feature-extraction": {},
    },
    prefix="bert.",
    unused=("embeddings.position_ids", "cls.seq_relationship"),
    output_layer="cls.predictions.decoder",
    output_bias="cls.predictions.bias",
)
