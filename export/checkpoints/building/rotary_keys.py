"""The keys of configurations that say by which angles positions turn queries and keys."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from export.checkpoints.building.tensor_names import Names, cut
from export.checkpoints.reading.checkpoint import CONFIG
from export.checkpoints.reading.config import Size
from export.errors import CheckpointError

Base = Annotated[float, Field(gt=0, strict=False)]
"""θ of Su et al. 2021, equation 15; a whole number may stand for it."""


WHOLE, NEAR = "full_attention", "sliding_attention"
"""The types of layers that look at all tokens, and at near ones."""


class RopeParameters(BaseModel):
    """Angles that are not scaled."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rope_type: Literal["default"] = "default"
    rope_theta: Base | None = None


class RopeOfLayers(BaseModel):
    """Angles of the layers that look at all tokens, and of those that look at near ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    full_attention: RopeParameters = RopeParameters()
    sliding_attention: RopeParameters = RopeParameters()


class LayeredKeys(BaseModel):
    """Which layers look at all tokens, and θ of both kinds of layers, in the spelling of releases 4 and 5."""

    local_attention: Size = 128
    global_attn_every_n_layers: Size = 3
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = None
    global_rope_theta: Base = 160_000.0
    local_rope_theta: Base = 10_000.0
    rope_parameters: RopeOfLayers | None = None

    def windows(self, layers: int) -> dict[str, Any]:
        """Return the sizes of a definition with both kinds of layers. Raises CheckpointError for other layers."""
        every = self.global_attn_every_n_layers
        types: Sequence[str] = self.layer_types or [NEAR if layer % every else WHOLE for layer in range(layers)]
        if len(types) != layers:
            raise CheckpointError(f"{CONFIG}: layer_types must be of {layers} layers, given {len(types)}")
        angles = self.rope_parameters or RopeOfLayers()
        return {
            "everywhere": tuple(layer for layer, kind in enumerate(types) if kind == WHOLE),
            "reach": self.local_attention // 2,
            "theta": angles.full_attention.rope_theta or self.global_rope_theta,
            "local_theta": angles.sliding_attention.rope_theta or self.local_rope_theta,
        }


class Stretched(BaseModel):
    """Angles for texts that are `factor` times as long as those of a training."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: Literal["ntk"]
    factor: Base


class RotaryKeys(BaseModel):
    """θ in the spelling of releases 4 and 5."""

    usual_theta: ClassVar[float] = 10_000.0
    """Where a configuration says none."""

    hidden_size: Size
    num_attention_heads: Size
    rope_theta: Base | None = None
    rope_parameters: RopeParameters | None = None
    rope_scaling: None = None
    head_dim: Size | None = None

    @property
    def theta(self) -> float:
        """Return the base of angles. Raises CheckpointError for heads that are not their share of the width."""
        if self.head_dim not in (None, share := self.hidden_size // self.num_attention_heads):
            raise CheckpointError(f"{CONFIG}: head_dim must be {share}, the width by the heads, given {self.head_dim}")
        said = self.rope_parameters.rope_theta if self.rope_parameters else None
        return said or self.rope_theta or self.usual_theta


ATTENTION = "encoder.blocks.{}.attention"
BLOCK_NAMES: Names = {
    **{f"layers.{{}}.self_attn.{one[0]}_proj": f"{ATTENTION}.{one}" for one in ("query", "key", "value", "output")},
    "layers.{}.mlp.gate_proj": "encoder.blocks.{}.feed_forward.gate",
    "layers.{}.mlp.up_proj": "encoder.blocks.{}.feed_forward.up",
    "layers.{}.mlp.down_proj": "encoder.blocks.{}.feed_forward.output",
}
"""Names of the matrices of a block of LLaMA's form."""
POST_NORM_NAMES: Names = {
    "embeddings.word_embeddings": "embed.tokens",
    "embeddings.token_type_embeddings": "embed.types",
    "embeddings.LayerNorm": "embed.norm",
    **BLOCK_NAMES,
    "layers.{}.post_attention_layernorm": "encoder.blocks.{}.attention_norm",
    "layers.{}.post_mlp_layernorm": "encoder.blocks.{}.feed_forward_norm",
}
"""Names in the reference library of what is in a BERT with rotary positions. It writes those of the authors."""


def joined(name: str) -> Names:
    """Return the destination of a tensor that holds queries, keys and values."""
    return {name: cut(*(f"{ATTENTION}.{part}" for part in ("query", "key", "value")))}
