"""Qwen2 (Yang et al. 2024) and Qwen3 (Yang et al. 2025)."""

from typing import Any, Literal

from export.checkpoints.building.decoder_family import DecoderFamily
from export.checkpoints.building.decoder_keys import FREQUENCIES, HEAD_NORMS, NAMES, LlamaKeys, WindowKeys
from export.checkpoints.reading.config import Size
from model.architectures.gpt_variants import LlamaConfig


class Qwen2Keys(WindowKeys, LlamaKeys):
    """`config.json` of a Qwen2."""

    intermediate_size: Size = 22016
    num_key_value_heads: Size | None = 32
    max_position_embeddings: Size = 32768
    use_mrope: Literal[False] = False

    @property
    def own(self) -> dict[str, Any]:
        """Return the sizes of a definition that the family has beside those of all."""
        return {"bias": True}


class Qwen3Keys(Qwen2Keys):
    """`config.json` of a Qwen3."""

    head_dim: Size | None = 128
    attention_bias: bool = False

    @property
    def own(self) -> dict[str, Any]:
        """Return the sizes of a definition that the family has beside those of all."""
        return {"bias": self.attention_bias, "output_bias": self.attention_bias, "heads_normed": True}


class QwenFamily(DecoderFamily[Qwen2Keys]):
    """Some layers may see the last tokens alone."""

    def sizes(self, config: Qwen2Keys) -> LlamaConfig:
        """Return the definition's sizes."""
        return LlamaConfig(**config.common, **config.windows, **config.own)


QWEN2 = QwenFamily("qwen2", Qwen2Keys, NAMES, prefix="model.", unused=FREQUENCIES)
QWEN3 = QwenFamily("qwen3", Qwen3Keys, {**NAMES, **HEAD_NORMS}, prefix="model.", unused=FREQUENCIES)
