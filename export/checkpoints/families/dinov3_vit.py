"""DINOv3 (Siméoni et al. 2025): a ViT with registers, whose queries and keys are turned by the places of patches."""

import functools
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from torch import nn

from contract.manifest import Task
from export.checkpoints.building.image_family import ImageConfig, VisionTransformerFamily, vit_sizes
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Epsilon, Index, Size
from model.architectures.vit import ViTConfig
from model.parts.blocks import PreNormBlock
from model.parts.feed_forward import ACTIVATIONS, GatedFeedForward
from model.parts.heads import FirstState
from model.parts.norms import LayerScale
from model.parts.positions import GridRotary, NoPositions


class Config(ImageConfig):
    """`config.json`."""

    hidden_size: Size = 384
    intermediate_size: Size = 1536
    num_attention_heads: Size = 6
    layer_norm_eps: Epsilon = 1e-5
    rope_theta: Annotated[int | float, Field(gt=0)] = 100
    query_bias: bool = True
    key_bias: bool = False
    value_bias: bool = Field(True, validate_default=True)
    proj_bias: bool = True
    mlp_bias: Literal[True] = True
    use_gated_mlp: bool = False
    num_register_tokens: Index = 0
    irrelevant_keys = frozenset(
        # of the backbone, which hands out every layer's states, and of places that training moves
        {"apply_layernorm", "out_features", "out_indices", "reshape_hidden_states", "return_class_token"}
        | {"stage_names", "pos_embed_jitter", "pos_embed_rescale", "pos_embed_shift"}
    )

    @field_validator("value_bias")
    @classmethod
    def _as_of_queries(cls, value: bool, info: ValidationInfo) -> bool:
        if value != info.data.get("query_bias"):
            raise ValueError("must be as query_bias")
        return value


THEIRS, OURS = "layer.{}", "encoder.blocks.{}"
NAMES: Names = {
    "embeddings.cls_token": "class_token",
    "embeddings.register_tokens": "registers",
    "embeddings.patch_embeddings": "patches.projection",
    f"{THEIRS}.norm1": f"{OURS}.attention_norm",
    f"{THEIRS}.attention.q_proj": f"{OURS}.attention.query",
    f"{THEIRS}.attention.k_proj": f"{OURS}.attention.key",
    f"{THEIRS}.attention.v_proj": f"{OURS}.attention.value",
    f"{THEIRS}.attention.o_proj": f"{OURS}.attention.output",
    f"{THEIRS}.layer_scale1.lambda1": f"{OURS}.attention_scale.weight",
    f"{THEIRS}.norm2": f"{OURS}.feed_forward_norm",
    f"{THEIRS}.layer_scale2.lambda1": f"{OURS}.feed_forward_scale.weight",
    "norm": "encoder.norm",
}
PLAIN = {"up_proj": "0", "down_proj": "2"}
GATED = {"gate_proj": "gate", "up_proj": "up", "down_proj": "output"}


class Dinov3Family(VisionTransformerFamily[Config]):
    """A ViT without learned positions; features are the class token."""

    def image(self, trained: tuple[int, int], processed: tuple[int, int] | None) -> tuple[int, int]:
        """Return the processor's size: places are those of any grid."""
        return processed or trained

    def sizes(self, config: Config, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""
        return vit_sizes(ViTConfig, config, image, config.intermediate_size, registers=config.num_register_tokens)

    def block(self, config: Config, sizes: ViTConfig) -> nn.Module:
        """Return a fresh block, whose every branch is scaled."""
        attention = sizes.attention(bias=config.query_bias, key_bias=config.key_bias, output_bias=config.proj_bias)
        activation, gated = ACTIVATIONS[sizes.activation](), config.use_gated_mlp
        mlp = GatedFeedForward(sizes.width, sizes.hidden, activation) if gated else sizes.feed_forward()
        return PreNormBlock(attention, mlp, sizes.norm, functools.partial(LayerScale, sizes.width))

    def parts(self, config: Config, sizes: ViTConfig) -> dict[str, nn.Module]:
        """Return what turns queries and keys."""
        width = sizes.width // sizes.heads
        turned = GridRotary(width, *sizes.grid, prefix=sizes.prefix, theta=config.rope_theta)
        return {"positions": NoPositions(), "surroundings": turned}

    def head(self, config: Config, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return the class token."""
        return FirstState()

    def body(self, config: Config) -> Names:
        """Return the names of the body's tensors."""
        mlp = GATED if config.use_gated_mlp else PLAIN
        return {**self.names, **{f"{THEIRS}.mlp.{name}": f"{OURS}.feed_forward.{to}" for name, to in mlp.items()}}


DINOV3_VIT = Dinov3Family(
    "dinov3_vit", Config, NAMES, {"feature-extraction": {}}, prefix="model.",
    unused=("embeddings.mask_token",), processor="DINOv3ViTImageProcessor",
)  # fmt: skip
