"""RoBERTas whose norms stand before each branch: RoBERTa-PreLayerNorm (Wettig et al. 2023) and XLM-RoBERTa-XL."""

import dataclasses

from export.checkpoints.families import bert
from export.checkpoints.families.roberta import Config, RobertaFamily, like_roberta
from export.checkpoints.reading.config import Depth, Epsilon, Index, Size
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.text_encoder_variants import PreNormEncoderConfig


class XLConfig(Config):
    """`config.json` of XLM-RoBERTa-XL."""

    hidden_size: Size = 2560
    num_hidden_layers: Depth = 36
    num_attention_heads: Size = 32
    intermediate_size: Size = 10240
    max_position_embeddings: Size = 514
    type_vocab_size: Index = 1
    layer_norm_eps: Epsilon = 1e-5


class PreNormFamily(RobertaFamily):
    """A RoBERTa with another order of norms."""

    def sizes(self, config: bert.Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        sizes = dataclasses.asdict(super().sizes(config))
        return PreNormEncoderConfig(**sizes, embedding_normed="embeddings.LayerNorm" in self.names)


BLOCK = "encoder.blocks.{}"
NAMES = {name: ours for name, ours in bert.NAMES.items() if "LayerNorm" not in name}

ROBERTA_PRELAYERNORM = like_roberta(
    PreNormFamily,
    "roberta-prelayernorm",
    Config,
    {
        **NAMES,
        "embeddings.LayerNorm": "embed.norm",
        "encoder.layer.{}.attention.LayerNorm": f"{BLOCK}.attention_norm",
        "encoder.layer.{}.intermediate.LayerNorm": f"{BLOCK}.feed_forward_norm",
        "LayerNorm": "encoder.norm",
    },
    prefix="roberta_prelayernorm.",
)
XLM_ROBERTA_XL = like_roberta(
    PreNormFamily,
    "xlm-roberta-xl",
    XLConfig,
    {
        **NAMES,
        "encoder.layer.{}.attention.self_attn_layer_norm": f"{BLOCK}.attention_norm",
        "encoder.layer.{}.LayerNorm": f"{BLOCK}.feed_forward_norm",
        "encoder.LayerNorm": "encoder.norm",
    },
)
"""XLM-RoBERTa-XL (Goyal et al. 2021), whose embeddings have no norm."""
