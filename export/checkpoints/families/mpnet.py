"""MPNet (Song et al. 2020): a BERT whose attention adds a number for the distance of two tokens."""

import dataclasses
from typing import Literal

from export.checkpoints.building.text_family import EMBEDDING_NAMES
from export.checkpoints.families.bert import FEED_FORWARD_NAMES, EncoderConfig, EncoderFamily
from export.checkpoints.families.roberta import like_roberta
from model.architectures.text_encoder import TextEncoderConfig

OFFSET = 2  # the reference library counts positions from the one after its padding's, which is fixed


class Config(EncoderConfig):
    """`config.json`."""

    relative_attention_num_buckets: Literal[32] = 32  # the reference library computes with 32, whatever is declared


class MPNetFamily(EncoderFamily[Config]):
    """A text encoder whose blocks share one table of distances."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        sizes, buckets = super().sizes(config), config.relative_attention_num_buckets
        return dataclasses.replace(sizes, offset=OFFSET, length=sizes.length - OFFSET, buckets=buckets)


MPNET = like_roberta(
    MPNetFamily,
    "mpnet",
    Config,
    {
        **EMBEDDING_NAMES,
        "encoder.relative_attention_bias": "contexts.bias.table",
        "encoder.layer.{}.attention.attn.q": "encoder.blocks.{}.attention.query",
        "encoder.layer.{}.attention.attn.k": "encoder.blocks.{}.attention.key",
        "encoder.layer.{}.attention.attn.v": "encoder.blocks.{}.attention.value",
        "encoder.layer.{}.attention.attn.o": "encoder.blocks.{}.attention.output",
        "encoder.layer.{}.attention.LayerNorm": "encoder.blocks.{}.attention_norm",
        **FEED_FORWARD_NAMES,
    },
    prefix="mpnet.",
)
