"""The texts of Gemma 3 (Gemma Team 2025)."""

from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from export.checkpoints.building.decoder_family import DecoderFamily
from export.checkpoints.building.decoder_keys import (
    BLOCK,
    FREQUENCIES,
    HEAD_NORMS,
    NAMES,
    Angles,
    AnglesOfLayers,
    LlamaSizes,
    Usual,
    near_layers,
)
from export.checkpoints.building.rotary_keys import NEAR, WHOLE, Base
from export.checkpoints.reading.config import Activation, Depth, Size
from model.architectures.gpt_variants import GemmaConfig


class Config(LlamaSizes):
    """`config.json`."""

    hidden_size: Size = 2304
    intermediate_size: Size = 9216
    num_hidden_layers: Depth = 26
    num_attention_heads: Size = 8
    num_key_value_heads: Size | None = 4
    head_dim: Size | None = 256
    hidden_activation: Activation = "gelu_tanh"
    max_position_embeddings: Size = 131_072
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    query_pre_attn_scalar: Annotated[float, Field(gt=0, strict=False)] = 256
    sliding_window: Size | None = 4096
    sliding_window_pattern: Size = 6
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = None
    rope_theta: Base = 1_000_000.0
    rope_local_base_freq: Base = 10_000.0
    rope_scaling: Angles | None = None
    rope_parameters: AnglesOfLayers | None = None
    final_logit_softcapping: None = None
    attn_logit_softcapping: None = None
    is_causal: Literal[True] = True
    use_bidirectional_attention: bool | None = None
    irrelevant_keys = LlamaSizes.irrelevant_keys | {"_sliding_window_pattern"}

    @property
    def sees_all(self) -> bool:
        """Return whether tokens see those behind them, too."""
        return bool(self.use_bidirectional_attention)


class GemmaFamily(DecoderFamily[Config]):
    """Norms multiply by 1 + w, and scores have a scale of their own."""

    def sizes(self, config: Config) -> GemmaConfig:
        """Return the definition's sizes."""
        layers, every = config.num_hidden_layers, config.sliding_window_pattern
        usual = [NEAR if (layer + 1) % every else WHOLE for layer in range(layers)]
        own, bias = config.rope_parameters or AnglesOfLayers(), config.attention_bias
        local, angles = own.sliding_attention or Usual(), config.rope_scaling or own.full_attention or Usual()
        return GemmaConfig(
            **config.with_angles(angles, config.rope_theta),
            **near_layers(config.layer_types or usual, layers, config.sliding_window),
            local_theta=local.rope_theta or config.rope_local_base_freq,
            activation=config.hidden_activation,
            scale=config.hidden_size**0.5,
            bias=bias,
            output_bias=bias,
            heads_normed=True,
        )

    def adapt(self, config: Config, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add the 1 of norms, and fold the scale of scores, apart from 1 / √(head width), into that of queries."""
        scale = (config.head_width / config.query_pre_attn_scalar) ** 0.5
        for name in [name for name in tensors if "norm" in name or name.endswith("_scale.weight")]:
            tensors[name] = (tensors[name].double() + 1) * (scale if "query_norm" in name else 1)
        return tensors


OWN = {
    **NAMES,
    **HEAD_NORMS,
    "layers.{}.post_attention_layernorm": f"{BLOCK}.attention_scale",
    "layers.{}.pre_feedforward_layernorm": f"{BLOCK}.feed_forward_norm",
    "layers.{}.post_feedforward_layernorm": f"{BLOCK}.feed_forward_scale",
}
GEMMA3 = GemmaFamily("gemma3_text", Config, OWN, prefix="model.", unused=FREQUENCIES)
