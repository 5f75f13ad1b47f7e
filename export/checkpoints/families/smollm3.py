"""SmolLM3 (Bakouch et al. 2025): some layers of a Llama do not know where tokens stand."""

from typing import ClassVar

from export.checkpoints.building.decoder_family import DecoderFamily
from export.checkpoints.building.decoder_keys import FREQUENCIES, NAMES, LlamaKeys, WindowKeys
from export.checkpoints.reading.checkpoint import CONFIG
from export.checkpoints.reading.config import Depth, Size
from export.errors import CheckpointError
from model.architectures.gpt_variants import LlamaConfig


class Config(WindowKeys, LlamaKeys):
    """`config.json`."""

    usual_theta: ClassVar[float] = 2_000_000.0
    usual_window: ClassVar[int | None] = None

    hidden_size: Size = 2048
    num_hidden_layers: Depth = 36
    num_attention_heads: Size = 16
    num_key_value_heads: Size | None = 4
    max_position_embeddings: Size = 32768
    tie_word_embeddings: bool = True
    no_rope_layers: list[int] | None = None
    no_rope_layer_interval: Size = 4
    attention_bias: bool = False
    mlp_bias: bool = False

    @property
    def turning(self) -> list[bool]:
        """Return of each layer whether it turns queries and keys. Raises CheckpointError for other layers."""
        layers, every = self.num_hidden_layers, self.no_rope_layer_interval
        said = [bool((layer + 1) % every) for layer in range(layers)]
        if self.no_rope_layers is not None:
            said = [bool(one) for one in self.no_rope_layers]
        if len(said) != layers:
            raise CheckpointError(f"{CONFIG}: no_rope_layers must be of {layers} layers, given {len(said)}")
        return said

    def sees_last(self, layer: int) -> bool:
        """Return whether a layer has a window where the configuration does not say which have."""
        return not self.turning[layer]


class SmolLM3Family(DecoderFamily[Config]):
    """`no_rope_layers` are true of the layers that turn queries and keys."""

    def sizes(self, config: Config) -> LlamaConfig:
        """Return the definition's sizes."""
        still = tuple(layer for layer, turns in enumerate(config.turning) if not turns)
        bias = config.attention_bias
        more = config.common | config.windows
        return LlamaConfig(**more, still=still, bias=bias, output_bias=bias, gate_bias=config.mlp_bias)


SMOLLM3 = SmolLM3Family("smollm3", Config, NAMES, prefix="model.", unused=FREQUENCIES)
