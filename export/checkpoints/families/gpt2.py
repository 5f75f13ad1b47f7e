"""GPT-2 (Radford et al. 2019)."""

import itertools

from torch import Tensor, nn

from export.checkpoints.building.decoder_family import DecoderConfig, DecoderFamily
from export.checkpoints.building.tensor_names import cut
from export.checkpoints.reading.config import Activation, Depth, Epsilon, Size
from model.architectures.gpt import GPTConfig


class Config(DecoderConfig):
    """`config.json`."""

    n_positions: Size = 1024
    n_embd: Size = 768
    n_layer: Depth = 12
    n_head: Size = 12
    n_inner: Size | None = None
    activation_function: Activation = "gelu_tanh"
    layer_norm_epsilon: Epsilon = 1e-5
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    irrelevant_keys = frozenset(
        # `reorder_and_upcast_attn` only says in what precision; the summary is another task's head
        {"n_ctx", "reorder_and_upcast_attn"}
        | {"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"}
    )


class GPT2Family(DecoderFamily[Config]):
    """A decoder alone, which continues texts."""

    def sizes(self, config: Config) -> GPTConfig:
        """Return the definition's sizes."""
        return GPTConfig(
            config.vocab_size,
            length=config.n_positions,
            width=config.n_embd,
            layers=config.n_layer,
            heads=config.n_head,
            hidden=config.n_inner or 4 * config.n_embd,
            activation=config.activation_function,
            epsilon=config.layer_norm_epsilon,
        )

    def adapt(self, config: Config, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Fold the scale of the scores, apart from 1 / √(head width), into the queries."""
        return with_scales(config, tensors)


def with_scales(config: Config, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors whose queries hold the scale of the scores of their layer, apart from 1 / √(head width)."""
    scaled = dict(tensors)
    for layer in range(config.n_layer):
        factor = 1.0 if config.scale_attn_weights else (config.n_embd / config.n_head) ** 0.5
        factor /= layer + 1 if config.scale_attn_by_inverse_layer_idx else 1
        for name in (f"decoder.blocks.{layer}.{part}.query.{one}" for part, one in QUERIES) if factor != 1.0 else ():
            if name in tensors:
                scaled[name] = tensors[name].float() * factor  # half floats would round it again
    return scaled


BLOCK = "decoder.blocks.{}"
QUERIES = tuple(itertools.product(("attention", "cross"), ("weight", "bias")))

GPT2 = GPT2Family(
    "gpt2",
    Config,
    {
        "wte": "embed.tokens",
        "wpe": "embed.positions",
        "h.{}.ln_1": f"{BLOCK}.attention_norm",
        "h.{}.attn.c_attn": cut(*(f"{BLOCK}.attention.{part}" for part in ("query", "key", "value")), transposed=True),
        "h.{}.attn.c_proj": cut(f"{BLOCK}.attention.output", transposed=True),
        "h.{}.ln_2": f"{BLOCK}.feed_forward_norm",
        "h.{}.mlp.c_fc": cut(f"{BLOCK}.feed_forward.0", transposed=True),
        "h.{}.mlp.c_proj": cut(f"{BLOCK}.feed_forward.2", transposed=True),
        "ln_f": "decoder.norm",
    },
    prefix="transformer.",
    unused=("h.{}.attn.bias", "h.{}.attn.masked_bias"),  # the causal mask, which older checkpoints hold
)
