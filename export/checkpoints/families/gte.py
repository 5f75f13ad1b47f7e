"""GTE (Zhang et al. 2024, "mGTE"): a BERT with rotary positions and gated feed-forwards.

Repositories of its authors call it `new`, with other names for the same.
"""

from typing import ClassVar, Literal

from export.checkpoints.building.rotary_keys import POST_NORM_NAMES, RotaryKeys, Stretched, joined
from export.checkpoints.building.tensor_names import Names, cut
from export.checkpoints.building.text_family import of_words
from export.checkpoints.families import bert
from export.checkpoints.reading.config import Index, Size
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.text_encoder_variants import GatedEncoderConfig


class Config(RotaryKeys, bert.EncoderConfig):
    """`config.json`, with what the authors' may say beside the reference library's keys."""

    usual_theta: ClassVar[float] = 160_000.0
    hidden_size: Size = 768
    num_attention_heads: Size = 12
    type_vocab_size: Index = 1
    max_position_embeddings: Size = 8192
    rope_scaling: Stretched | None = None  # type: ignore[assignment] # the reference library has none
    position_embedding_type: Literal["rope"] = "rope"  # type: ignore[assignment] # not those of TextConfig
    layer_norm_type: Literal["layer_norm"] = "layer_norm"
    logn_attention_scale: Literal[False] = False
    irrelevant_keys = frozenset(
        "auto_map logn_attention_clip1 matryoshka_dimensions pack_qkv unpad_inputs "
        "use_memory_efficient_attention".split()
    )


class NewConfig(Config):
    """`config.json` of the authors' first repositories."""

    usual_theta: ClassVar[float] = 10_000.0


class GteFamily(bert.EncoderFamily[Config]):
    """A text encoder that classifies as BERT."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        stretch = config.rope_scaling.factor if config.rope_scaling else 1.0
        more = {"types": config.type_vocab_size, "theta": config.theta, "stretch": stretch, "output_bias": True}
        return bert.sizes_of(config, GatedEncoderConfig, **more)


BLOCK = "encoder.blocks.{}"
NAMES: Names = {
    **POST_NORM_NAMES,
    **joined("encoder.layer.{}.attention.qkv_proj"),
    "encoder.layer.{}.attention.o_proj": f"{BLOCK}.attention.output",
    "encoder.layer.{}.attn_ln": f"{BLOCK}.attention_norm",
    "encoder.layer.{}.mlp.up_gate_proj": cut(f"{BLOCK}.feed_forward.up", f"{BLOCK}.feed_forward.gate"),
    "encoder.layer.{}.mlp.down_proj": f"{BLOCK}.feed_forward.output",
    "encoder.layer.{}.mlp_ln": f"{BLOCK}.feed_forward_norm",
}
HEADS = {
    "text-classification": {"pooler.dense": "head.dense", "classifier": "head.output"},
    "token-classification": {"classifier": "head"},
    **of_words({"lm_head.dense": "head.dense", "lm_head.norm": "head.norm", "lm_head.layer_norm": "head.norm"}),
    "feature-extraction": {},
}

GTE, NEW = (
    GteFamily(
        model_type,
        config,
        NAMES,
        HEADS,
        f"{model_type}.",
        output_layer="lm_head.decoder",
        output_bias="lm_head.decoder.bias",
    )
    for model_type, config in (("gte", Config), ("new", NewConfig))
)
