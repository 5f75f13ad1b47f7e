"""LLaMA (Touvron et al. 2023) to Llama 3 (Grattafiori et al. 2024), and Mistral (Jiang et al. 2023)."""

from export.checkpoints.building.decoder_family import DecoderFamily
from export.checkpoints.building.decoder_keys import FREQUENCIES, NAMES, LlamaKeys
from export.checkpoints.reading.config import Size
from model.architectures.gpt_variants import LlamaConfig


class Config(LlamaKeys):
    """`config.json` of a LLaMA."""

    attention_bias: bool = False
    mlp_bias: bool = False


class LlamaFamily(DecoderFamily[Config]):
    """All biases of attention, and all of the feed-forward, or none."""

    def sizes(self, config: Config) -> LlamaConfig:
        """Return the definition's sizes."""
        bias = config.attention_bias
        return LlamaConfig(**config.common, bias=bias, output_bias=bias, gate_bias=config.mlp_bias)


class MistralKeys(LlamaKeys):
    """`config.json` of a Mistral."""

    intermediate_size: Size = 14336
    num_key_value_heads: Size | None = 8
    max_position_embeddings: Size = 4096 * 32
    sliding_window: Size | None = 4096


class MistralFamily(DecoderFamily[MistralKeys]):
    """Layers see the last tokens alone, where the configuration says how many."""

    def sizes(self, config: MistralKeys) -> LlamaConfig:
        """Return the definition's sizes."""
        near = tuple(range(config.num_hidden_layers)) if config.sliding_window else ()
        return LlamaConfig(**config.common, near=near, window=config.sliding_window)


LLAMA = LlamaFamily("llama", Config, NAMES, prefix="model.", unused=FREQUENCIES)
MISTRAL = MistralFamily("mistral", MistralKeys, NAMES, prefix="model.", unused=FREQUENCIES)
