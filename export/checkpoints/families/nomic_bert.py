"""Nomic BERT (Nussbaum et al. 2024): a BERT with rotary positions and gated feed-forwards, without most biases."""

from typing import ClassVar, Literal

from pydantic import Field

from export.checkpoints.building.rotary_keys import POST_NORM_NAMES, Base, RotaryKeys, joined
from export.checkpoints.building.text_family import of_words
from export.checkpoints.families import bert
from export.checkpoints.reading.checkpoint import CONFIG
from export.checkpoints.reading.config import Activation, Index, Size
from export.errors import CheckpointError
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.text_encoder_variants import GatedEncoderConfig


class Config(RotaryKeys, bert.EncoderConfig):
    """`config.json` of the reference library, and the keys of the authors' beside it that change what is computed."""

    usual_theta: ClassVar[float] = 1000.0
    hidden_size: Size = 768
    num_attention_heads: Size = 12
    hidden_act: Activation = "silu"
    type_vocab_size: Index = 2
    max_position_embeddings: Size = 2048
    rotary_emb_base: Base | None = None
    rotary_emb_fraction: float = Field(1.0, ge=1, le=1)
    rotary_emb_interleaved: Literal[False] = False
    rotary_emb_scale_base: None = None
    causal: Literal[False] = False
    prenorm: Literal[False] = False
    use_rms_norm: Literal[False] = False
    parallel_block: Literal[False] = False
    qkv_proj_bias: Literal[False] = False
    mlp_fc1_bias: Literal[False] = False
    mlp_fc2_bias: Literal[False] = False
    num_experts: Literal[0] = 0
    # sizes are those of the reference library's keys, as it has it; those of the authors must fit the weights
    irrelevant_keys = frozenset(
        "activation_function auto_map dense_seq_output fused_bias_fc fused_dropout_add_ln layer_norm_epsilon n_embd "
        "n_head n_inner n_layer n_positions max_trained_positions pad_vocab_size_multiple parallel_block_tied_norm "
        "rotary_scaling_factor reorder_and_upcast_attn scale_attn_by_inverse_layer_idx scale_attn_weights "
        "summary_activation summary_proj_to_labels summary_type summary_use_proj use_flash_attn use_xentropy".split()
    )


class NomicBertFamily(bert.EncoderFamily[Config]):
    """A text encoder whose heads are those of BERT."""

    def sizes(self, config: Config) -> TextEncoderConfig:
        """Return the definition's sizes. Raises CheckpointError where the authors' code has other angles."""
        types, theta, base = config.type_vocab_size, config.theta, config.rotary_emb_base
        if base not in (None, theta):
            raise CheckpointError(f"{CONFIG}: rotary_emb_base must be {theta}, as rope_theta is, given {base}")
        return bert.sizes_of(config, GatedEncoderConfig, types=types, theta=theta, attention_bias=False)


BLOCK = "encoder.blocks.{}"

NOMIC_BERT = NomicBertFamily(
    "nomic_bert",
    Config,
    {
        **POST_NORM_NAMES,
        "emb_ln": "embed.norm",
        **joined("encoder.layers.{}.attn.Wqkv"),
        "encoder.layers.{}.attn.out_proj": f"{BLOCK}.attention.output",
        "encoder.layers.{}.norm1": f"{BLOCK}.attention_norm",
        "encoder.layers.{}.mlp.fc11": f"{BLOCK}.feed_forward.up",
        "encoder.layers.{}.mlp.fc12": f"{BLOCK}.feed_forward.gate",
        "encoder.layers.{}.mlp.fc2": f"{BLOCK}.feed_forward.output",
        "encoder.layers.{}.norm2": f"{BLOCK}.feed_forward_norm",
    },
    heads={
        "text-classification": {"pooler.dense": "head.dense", "classifier": "head.output"},
        "token-classification": {"classifier": "head"},
        **of_words(
            {"cls.predictions.transform.dense": "head.dense", "cls.predictions.transform.layer_norm": "head.norm"}
        ),
        "feature-extraction": {},
    },
    prefix="nomic_bert.",
    output_layer="cls.predictions.decoder",
    output_bias="cls.predictions.bias",
)
