"""Phi-3 (Abdin et al. 2024): a Llama whose matrices are joined."""

from typing import Literal

from export.checkpoints.building.decoder_family import DecoderFamily
from export.checkpoints.building.decoder_keys import (
    BLOCK,
    FREQUENCIES,
    NAMES,
    LlamaSizes,
    Partial,
    PartialAngles,
    Share,
)
from export.checkpoints.building.rotary_keys import Base
from export.checkpoints.building.tensor_names import cut
from export.checkpoints.reading.config import Activation, Epsilon, Size
from model.architectures.gpt_variants import LlamaConfig


class Config(LlamaSizes):
    """`config.json`."""

    hidden_size: Size = 3072
    intermediate_size: Size = 8192
    hidden_act: Activation = "silu"
    max_position_embeddings: Size = 4096
    rms_norm_eps: Epsilon = 1e-5
    sliding_window: Size | None = None
    attention_bias: Literal[False] = False
    mlp_bias: Literal[False] = False
    lm_head_bias: Literal[False] = False
    partial_rotary_factor: Share | None = None
    rope_theta: Base | None = None
    rope_scaling: PartialAngles | None = None
    rope_parameters: PartialAngles | None = None
    irrelevant_keys = LlamaSizes.irrelevant_keys | {"original_max_position_embeddings", "auto_map"}


class Phi3Family(DecoderFamily[Config]):
    """A share of each head may be turned, and layers may see the last tokens alone; angles are not changed."""

    def sizes(self, config: Config) -> LlamaConfig:
        """Return the definition's sizes."""
        angles = config.rope_scaling or config.rope_parameters or Partial()
        sizes = config.with_angles(angles, config.rope_theta or 10_000.0)
        share = angles.partial_rotary_factor or config.partial_rotary_factor or 1.0
        near = tuple(range(config.num_hidden_layers)) if config.sliding_window else ()
        own = {"turned": int(config.head_width * share), "near": near, "window": config.sliding_window}
        return LlamaConfig(**sizes | own, activation=config.hidden_act)


PHI3 = Phi3Family(
    "phi3",
    Config,
    {
        **NAMES,
        "layers.{}.self_attn.qkv_proj": cut(*(f"{BLOCK}.attention.{part}" for part in ("query", "key", "value"))),
        "layers.{}.mlp.gate_up_proj": cut(f"{BLOCK}.feed_forward.gate", f"{BLOCK}.feed_forward.up"),
    },
    prefix="model.",
    unused=FREQUENCIES,
)
