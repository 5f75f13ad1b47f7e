"""Granite (Granite Team 2024, "Granite 3.0 Language Models"): a Llama some of whose results are multiplied."""

from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from export.checkpoints.building.decoder_family import DecoderFamily
from export.checkpoints.building.decoder_keys import FREQUENCIES, NAMES, LlamaKeys
from model.architectures.gpt_variants import LlamaConfig

Factor = Annotated[float, Field(gt=0, strict=False)]


class Config(LlamaKeys):
    """`config.json`."""

    attention_bias: bool = False
    mlp_bias: bool = False
    embedding_multiplier: Factor = 1.0
    attention_multiplier: Factor = 1.0
    residual_multiplier: Factor = 1.0
    logits_scaling: Factor = 1.0


class GraniteFamily(DecoderFamily[Config]):
    """Multipliers are of embeddings, of scores, of what each branch adds, and one divides logits."""

    def sizes(self, config: Config) -> LlamaConfig:
        """Return the definition's sizes."""
        bias = config.attention_bias
        own = {"scale": config.embedding_multiplier}
        return LlamaConfig(**config.common | own, bias=bias, output_bias=bias, gate_bias=config.mlp_bias)

    def adapt(self, config: Config, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Fold all multipliers but that of embeddings into the matrices, biases and norms before them."""
        factors = {
            "attention.query": config.attention_multiplier * config.head_width**0.5,
            "attention.output": config.residual_multiplier,
            "feed_forward.output": config.residual_multiplier,
        }
        if isinstance(module.get_submodule("head"), nn.Linear):  # its logits are of the next token
            factors["decoder.norm"] = 1 / config.logits_scaling
        for name in tensors:
            by = next((by for part, by in factors.items() if name.rpartition(".")[0].endswith(part)), 1.0)
            if by != 1.0:
                tensors[name] = tensors[name].float() * by  # half floats would round it again
        return tensors


GRANITE = GraniteFamily("granite", Config, NAMES, prefix="model.", unused=FREQUENCIES)
