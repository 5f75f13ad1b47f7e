"""GPT-J (Wang and Komatsuzaki 2021, "GPT-J-6B")."""

from typing import Literal

import torch
from torch import Tensor, nn

from export.checkpoints.building.decoder_family import DecoderConfig, DecoderFamily
from export.checkpoints.building.decoder_keys import BLOCK
from export.checkpoints.reading.checkpoint import CONFIG
from export.checkpoints.reading.config import Activation, Depth, Epsilon, Size
from export.errors import CheckpointError
from model.architectures.gpt_variants import NeoXConfig


class Config(DecoderConfig):
    """`config.json`."""

    vocab_size: Size = 50400
    n_positions: Size = 2048
    n_embd: Size = 4096
    n_layer: Depth = 28
    n_head: Size = 16
    rotary_dim: Size = 64
    n_inner: Size | None = None
    activation_function: Activation = "gelu_tanh"
    layer_norm_epsilon: Epsilon = 1e-5
    tie_word_embeddings: Literal[False] = False
    rotary: Literal[True] = True
    scale_attn_weights: Literal[True] = True
    irrelevant_keys = frozenset({"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"})


class GPTJFamily(DecoderFamily[Config]):
    """One norm stands before both branches of a block, and neighbouring numbers of a head are turned together."""

    def sizes(self, config: Config) -> NeoXConfig:
        """Return the definition's sizes. Raises CheckpointError for heads that have no such numbers to turn."""
        if config.rotary_dim % 2 or config.rotary_dim > config.n_embd // config.n_head:
            head = config.n_embd // config.n_head
            raise CheckpointError(f"{CONFIG}: rotary_dim must be even, and at most {head}, given {config.rotary_dim}")
        return NeoXConfig(
            config.vocab_size,
            length=config.n_positions,
            width=config.n_embd,
            layers=config.n_layer,
            heads=config.n_head,
            hidden=config.n_inner or 4 * config.n_embd,
            activation=config.activation_function,
            epsilon=config.layer_norm_epsilon,
            turned=config.rotary_dim,
        )

    def adapt(self, config: Config, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Give both branches the norm, and put apart what is turned together: as scores of queries and keys remain."""
        turned = torch.arange(config.rotary_dim).reshape(-1, 2).T.flatten()
        order = torch.cat([turned, torch.arange(config.rotary_dim, config.n_embd // config.n_head)])
        for block in map(BLOCK.format, range(config.n_layer)):
            for end in ("weight", "bias"):
                if (norm := tensors.get(f"{block}.attention_norm.{end}")) is not None:
                    tensors[f"{block}.feed_forward_norm.{end}"] = norm
            for name in (f"{block}.attention.{part}.weight" for part in ("query", "key")):
                if name in tensors:
                    by_head = tensors[name].reshape(config.n_head, -1, config.n_embd)
                    tensors[name] = by_head[:, order].flatten(0, 1)
        return tensors


GPTJ = GPTJFamily(
    "gptj",
    Config,
    {
        "wte": "embed.tokens",
        "h.{}.ln_1": f"{BLOCK}.attention_norm",
        **{f"h.{{}}.attn.{part[0]}_proj": f"{BLOCK}.attention.{part}" for part in ("query", "key", "value")},
        "h.{}.attn.out_proj": f"{BLOCK}.attention.output",
        "h.{}.mlp.fc_in": f"{BLOCK}.feed_forward.0",
        "h.{}.mlp.fc_out": f"{BLOCK}.feed_forward.2",
        "ln_f": "decoder.norm",
    },
    heads={"text-generation": {"lm_head.bias": "head.bias"}},
    prefix="transformer.",
    unused=("h.{}.attn.bias", "h.{}.attn.masked_bias"),
    output_bias=True,
)
