"""OLMo 2 (Walsh et al. 2025)."""

from export.checkpoints.building.decoder_family import DecoderFamily
from export.checkpoints.building.decoder_keys import BLOCK, BLOCK_NAMES, FREQUENCIES, LlamaKeys
from export.checkpoints.reading.config import Epsilon
from model.architectures.gpt_variants import Olmo2Config


class Config(LlamaKeys):
    """`config.json`."""

    rms_norm_eps: Epsilon = 1e-5
    attention_bias: bool = False


class Olmo2Family(DecoderFamily[Config]):
    """Norms stand behind branches, and behind all heads together."""

    def sizes(self, config: Config) -> Olmo2Config:
        """Return the definition's sizes."""
        return Olmo2Config(**config.common, bias=config.attention_bias, output_bias=config.attention_bias)


OLMO2 = Olmo2Family(
    "olmo2",
    Config,
    {
        "embed_tokens": "embed.tokens",
        **BLOCK_NAMES,
        "layers.{}.self_attn.q_norm": f"{BLOCK}.attention.query_norm.norm",
        "layers.{}.self_attn.k_norm": f"{BLOCK}.attention.key_norm.norm",
        "layers.{}.post_attention_layernorm": f"{BLOCK}.attention_norm",
        "layers.{}.post_feedforward_layernorm": f"{BLOCK}.feed_forward_norm",
        "norm": "decoder.norm",
    },
    prefix="model.",
    unused=FREQUENCIES,
)
