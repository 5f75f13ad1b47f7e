"""GPT-NeoX (Black et al. 2022), such as Pythia (Biderman et al. 2023)."""

import torch
from torch import Tensor, nn

from export.checkpoints.building.decoder_family import HEADS, DecoderConfig, DecoderFamily
from export.checkpoints.building.decoder_keys import BLOCK, Partial, PartialAngles, Share
from export.checkpoints.building.rotary_keys import Base
from export.checkpoints.building.tensor_names import cut
from export.checkpoints.reading.config import Activation, Depth, Epsilon, Size
from model.architectures.gpt_variants import NeoXConfig

PARTS = tuple(f"{BLOCK}.attention.{part}" for part in ("query", "key", "value"))


class Config(DecoderConfig):
    """`config.json`."""

    hidden_size: Size = 6144
    num_hidden_layers: Depth = 44
    num_attention_heads: Size = 64
    intermediate_size: Size = 24576
    hidden_act: Activation = "gelu"
    max_position_embeddings: Size = 2048
    layer_norm_eps: Epsilon = 1e-5
    tie_word_embeddings: bool = False
    use_parallel_residual: bool = True
    attention_bias: bool = True
    rotary_pct: Share = 0.25
    rotary_emb_base: Base = 10_000.0
    rope_scaling: None = None
    rope_parameters: PartialAngles | None = None
    irrelevant_keys = frozenset({"hidden_dropout"})


class GPTNeoXFamily(DecoderFamily[Config]):
    """A share of each head is turned, and both branches of a block may read the same states."""

    def sizes(self, config: Config) -> NeoXConfig:
        """Return the definition's sizes."""
        angles, bias = config.rope_parameters or Partial(), config.attention_bias
        share = angles.partial_rotary_factor or config.rotary_pct
        return NeoXConfig(
            config.vocab_size,
            length=config.max_position_embeddings,
            width=config.hidden_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            hidden=config.intermediate_size,
            activation=config.hidden_act,
            epsilon=config.layer_norm_eps,
            turned=int(config.hidden_size // config.num_attention_heads * share),
            theta=angles.rope_theta or config.rotary_emb_base,
            bias=bias,
            output_bias=bias,
            beside=config.use_parallel_residual,
        )

    def adapt(self, config: Config, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Put queries, keys and values apart, which lie beside each other in each head."""
        heads = config.num_attention_heads
        for layer in range(config.num_hidden_layers):
            for end in ("weight", "bias") if config.attention_bias else ("weight",):
                names = [f"{part.format(layer)}.{end}" for part in PARTS]
                if all(name in tensors for name in names):
                    joined = torch.cat([tensors[name] for name in names])
                    apart = joined.reshape(heads, 3, -1, *joined.shape[1:])
                    tensors |= {name: apart[:, part].flatten(0, 1) for part, name in enumerate(names)}
        return tensors


GPT_NEOX = GPTNeoXFamily(
    "gpt_neox",
    Config,
    {
        "embed_in": "embed.tokens",
        "layers.{}.input_layernorm": f"{BLOCK}.attention_norm",
        "layers.{}.attention.query_key_value": cut(*PARTS),
        "layers.{}.attention.dense": f"{BLOCK}.attention.output",
        "layers.{}.post_attention_layernorm": f"{BLOCK}.feed_forward_norm",
        "layers.{}.mlp.dense_h_to_4h": f"{BLOCK}.feed_forward.0",
        "layers.{}.mlp.dense_4h_to_h": f"{BLOCK}.feed_forward.2",
        "final_layer_norm": "decoder.norm",
    },
    heads={**HEADS, "text-generation": {"embed_out": "head"}},  # as releases before 5 name it
    prefix="gpt_neox.",
    unused=tuple(f"layers.{{}}.attention.{name}" for name in ("bias", "masked_bias", "rotary_emb.inv_freq")),
)
