"""MPNet (Song et al. 2020): a BERT whose attention adds a number for the distance of two tokens."""

from typing import Literal

from export.checkpoints.building.text_family import TextConfig, TextFamily
from export.checkpoints.reading.config import Activation, Epsilon, Size
from model.architectures.text_encoder import TextEncoderConfig

OFFSET = 2  # the reference library counts positions from the one after its padding's, which is fixed


class Config(TextConfig):
    """`config.json`."""

    hidden_size: Size = 768
    num_hidden_layers: Size = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: Activation = "gelu"
    layer_norm_eps: Epsilon = 1e-12
    relative_attention_num_buckets: Literal[32] = 32  # the reference library computes with 32, whatever is declared


class MPNetFamily(TextFamily[Config]):
    """A text encoder whose blocks share one table of distances."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        return TextEncoderConfig(
            config.vocab_size,
            length=config.max_position_embeddings - OFFSET,
            width=config.hidden_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            hidden=config.intermediate_size,
            activation=config.hidden_act,
            epsilon=config.layer_norm_eps,
            offset=OFFSET,
            buckets=config.relative_attention_num_buckets,
        )


MPNET = MPNetFamily(
    "mpnet",
    Config,
    {
        "embeddings.word_embeddings": "embed.tokens",
        "embeddings.position_embeddings": "embed.positions",
        "embeddings.LayerNorm": "embed.norm",
        "encoder.relative_attention_bias": "relative.table",
        "encoder.layer.{}.attention.attn.q": "encoder.blocks.{}.attention.query",
        "encoder.layer.{}.attention.attn.k": "encoder.blocks.{}.attention.key",
        "encoder.layer.{}.attention.attn.v": "encoder.blocks.{}.attention.value",
        "encoder.layer.{}.attention.attn.o": "encoder.blocks.{}.attention.output",
        "encoder.layer.{}.attention.LayerNorm": "encoder.blocks.{}.attention_norm",
        "encoder.layer.{}.intermediate.dense": "encoder.blocks.{}.feed_forward.0",
        "encoder.layer.{}.output.dense": "encoder.blocks.{}.feed_forward.2",
        "encoder.layer.{}.output.LayerNorm": "encoder.blocks.{}.feed_forward_norm",
    },
    heads={
        "text-classification": {"classifier.dense": "head.dense", "classifier.out_proj": "head.output"},
        "fill-mask": {"lm_head.dense": "head.dense", "lm_head.layer_norm": "head.norm"},
        "feature-extraction": {},
    },
    prefix="mpnet.",
    unused=("embeddings.position_ids", "pooler.dense"),
    output_layer="lm_head.decoder",
    output_bias="lm_head.bias",
    mask_activation="gelu",
)
