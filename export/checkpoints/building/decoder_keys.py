"""The keys of configurations of decoders whose blocks have LLaMA's form."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from export.checkpoints.building.decoder_family import DecoderConfig
from export.checkpoints.building.rotary_keys import NEAR, WHOLE, Base
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.reading.checkpoint import CONFIG
from export.checkpoints.reading.config import Activation, Depth, Epsilon, Size
from export.errors import CheckpointError
from model.parts.stretch import Llama3, Stretch, Yarn


class _Angles(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rope_theta: Base | None = None

    def stretch(self, length: int) -> Stretch:
        """Return how angles are changed in a model of `length` positions."""
        return Stretch()


class Usual(_Angles):
    """Angles that are not changed."""

    rope_type: Literal["default"] = "default"


Share = Annotated[float, Field(gt=0, le=1, strict=False)]


class Partial(Usual):
    """The same of the first numbers of a head."""

    partial_rotary_factor: Share | None = None


class _Linear(_Angles):
    rope_type: Literal["linear"]
    factor: Base

    def stretch(self, length: int) -> Stretch:
        return Stretch(self.factor)


class _Llama3(_Angles):
    rope_type: Literal["llama3"]
    factor: Base
    low_freq_factor: Base
    high_freq_factor: Base
    original_max_position_embeddings: Size | None = None

    def stretch(self, length: int) -> Stretch:
        if self.high_freq_factor <= self.low_freq_factor:
            raise CheckpointError(f"{CONFIG}: high_freq_factor must be above low_freq_factor, {self.low_freq_factor}")
        length = self.original_max_position_embeddings or length
        return Llama3(self.factor, length=length, low=self.low_freq_factor, high=self.high_freq_factor)


class _Yarn(_Angles):
    rope_type: Literal["yarn"]
    factor: Base
    original_max_position_embeddings: Size | None = None
    attention_factor: Base | None = None
    mscale: Base | None = None
    mscale_all_dim: Base | None = None
    beta_fast: Base | None = None
    beta_slow: Base | None = None
    truncate: bool = True

    def stretch(self, length: int) -> Stretch:
        both = self.mscale and self.mscale_all_dim
        size = self._grown(self.mscale or 1) / self._grown(self.mscale_all_dim or 1) if both else self._grown(1)
        return Yarn(
            self.factor,
            self.attention_factor or size,
            length=self.original_max_position_embeddings or length,
            fast=self.beta_fast or 32.0,
            slow=self.beta_slow or 1.0,
            whole=self.truncate,
        )

    def _grown(self, by: float) -> float:
        """Return what the logarithm of the factor makes of scores (Peng et al. 2023, equation 22)."""
        return 0.1 * by * math.log(self.factor) + 1 if self.factor > 1 else 1.0


def typed(given: object) -> object:
    """Give angles a type where a configuration names none, or names it as release 4 did."""
    if not isinstance(given, dict):
        return given
    older = given.get("type", "default")
    return {"rope_type": older, **{key: value for key, value in given.items() if key != "type" and value is not None}}


Angles = Annotated[
    Annotated[Usual | _Linear | _Llama3 | _Yarn, Field(discriminator="rope_type")], BeforeValidator(typed)
]
"""By which angles positions turn queries and keys: those that change with the length of a text are refused."""
UsualAngles = Annotated[Usual, BeforeValidator(typed)]
PartialAngles = Annotated[Partial, BeforeValidator(typed)]


class AnglesOfLayers(BaseModel):
    """Angles of the layers that see all tokens, and of those that see the last ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    full_attention: Angles | None = None
    sliding_attention: UsualAngles | None = None


class LlamaSizes(DecoderConfig):
    """Sizes and norms."""

    hidden_size: Size = 4096
    intermediate_size: Size = 11008
    num_hidden_layers: Depth = 32
    num_attention_heads: Size = 32
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    max_position_embeddings: Size = 2048
    rms_norm_eps: Epsilon = 1e-6
    tie_word_embeddings: bool = False
    rope_interleaved: Literal[False] = False
    irrelevant_keys = frozenset({"is_llama_config", "max_sequence_length", "pretraining_tp"})

    @property
    def head_width(self) -> int:
        """Return how wide a head is."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    def with_angles(self, angles: _Angles, theta: float) -> dict[str, Any]:
        """Return the sizes of a definition that all families have; `theta` is the base where angles say none."""
        return {
            "vocabulary": self.vocab_size,
            "length": self.max_position_embeddings,
            "width": self.hidden_size,
            "layers": self.num_hidden_layers,
            "heads": self.num_attention_heads,
            "hidden": self.intermediate_size,
            "epsilon": self.rms_norm_eps,
            "key_heads": self.num_key_value_heads,
            "head": self.head_dim,
            "stretch": angles.stretch(self.max_position_embeddings),
            "theta": angles.rope_theta or theta,
        }


class LlamaKeys(LlamaSizes):
    """The same with angles, in the spelling of releases 4 and 5."""

    usual_theta: ClassVar[float] = 10_000.0
    """Where a configuration says none."""

    hidden_act: Activation = "silu"
    rope_theta: Base | None = None
    rope_scaling: Angles | None = None
    rope_parameters: Angles | None = None

    @property
    def common(self) -> dict[str, Any]:
        """Return the sizes of a definition that all families have."""
        angles = self.rope_scaling or self.rope_parameters or Usual()
        return {"activation": self.hidden_act, **self.with_angles(angles, self.rope_theta or self.usual_theta)}


class WindowKeys(BaseModel):
    """Which layers see the last tokens alone."""

    usual_window: ClassVar[int | None] = 4096
    """Where a configuration says none."""

    num_hidden_layers: Depth
    use_sliding_window: bool = False
    sliding_window: Size | None = None
    max_window_layers: int = 28
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = None

    @property
    def windows(self) -> dict[str, Any]:
        """Return the sizes of a definition with both kinds of layers. Raises CheckpointError for other layers."""
        said = self.sliding_window if "sliding_window" in self.model_fields_set else self.usual_window
        window, layers = said if self.use_sliding_window else None, self.num_hidden_layers
        usual = [NEAR if window and self.sees_last(layer) else WHOLE for layer in range(layers)]
        return near_layers(self.layer_types or usual, layers, window)

    def sees_last(self, layer: int) -> bool:
        """Return whether a layer has a window where the configuration does not say which have."""
        return layer >= self.max_window_layers


def near_layers(types: Sequence[str], layers: int, window: int | None) -> dict[str, Any]:
    """Return the sizes of a definition whose layers are of these types. Raises CheckpointError for other layers."""
    if len(types) != layers:
        raise CheckpointError(f"{CONFIG}: layer_types must be of {layers} layers, given {len(types)}")
    near = tuple(layer for layer, kind in enumerate(types) if kind == NEAR)
    if near and window is None:
        raise CheckpointError(f"{CONFIG}: sliding_window must be set, since layer_types name {NEAR}")
    return {"near": near, "window": window} if near else {}


BLOCK = "decoder.blocks.{}"
PARTS = ("query", "key", "value", "output")
BLOCK_NAMES: Names = {
    **{f"layers.{{}}.self_attn.{part[0]}_proj": f"{BLOCK}.attention.{part}" for part in PARTS},
    "layers.{}.mlp.gate_proj": f"{BLOCK}.feed_forward.gate",
    "layers.{}.mlp.up_proj": f"{BLOCK}.feed_forward.up",
    "layers.{}.mlp.down_proj": f"{BLOCK}.feed_forward.output",
}
"""Names of the matrices of a block."""
NAMES: Names = {
    "embed_tokens": "embed.tokens",
    "layers.{}.input_layernorm": f"{BLOCK}.attention_norm",
    **BLOCK_NAMES,
    "layers.{}.post_attention_layernorm": f"{BLOCK}.feed_forward_norm",
    "norm": "decoder.norm",
}
"""Names of a body whose norms stand before branches."""
HEAD_NORMS: Names = {
    f"layers.{{}}.self_attn.{part[0]}_norm": f"{BLOCK}.attention.{part}_norm" for part in ("query", "key")
}
FREQUENCIES = ("layers.{}.self_attn.rotary_emb.inv_freq",)
"""Tensors of older checkpoints that the configuration says."""
