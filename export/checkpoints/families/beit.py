"""BEiT (Bao et al. 2022) and data2vec of images (Baevski et al. 2022): a ViT that adds numbers of places to scores."""

import functools

import torch
from torch import Tensor, nn

from contract.manifest import Task
from export.checkpoints.building.image_family import ImageConfig, VisionTransformerFamily, resized, sides, vit_sizes
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.families.dinov2 import HEADS
from export.checkpoints.families.vit import NAMES as VIT_NAMES
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Size
from model.architectures.vit import ViT, ViTConfig
from model.parts.blocks import PreNormBlock
from model.parts.heads import FirstLinear, FirstState, PatchMean
from model.parts.norms import LayerScale
from model.parts.positions import GridBiases, NoPositions


class Config(ImageConfig):
    """`config.json`."""

    patch_size: Size = 16
    intermediate_size: Size = 3072
    layer_scale_init_value: float = 0.1
    use_absolute_position_embeddings: bool = False
    use_mean_pooling: bool = True
    use_relative_position_bias: bool = False
    use_shared_relative_position_bias: bool = False
    irrelevant_keys = frozenset(  # of masked training, of the backbone, and of segmentation
        """use_mask_token vocab_size out_features out_indices segmentation_indices stage_names add_fpn
        reshape_hidden_states pool_scales use_auxiliary_head auxiliary_loss_weight auxiliary_channels
        auxiliary_num_convs auxiliary_concat_input semantic_loss_ignore_index""".split()
    )


OWN, SHARED = "encoder.layer.{}.attention.attention.relative_position_bias", "encoder.relative_position_bias"
TABLES = "surroundings."
NAMES: Names = {
    **VIT_NAMES,
    "encoder.layer.{}.lambda_1": "encoder.blocks.{}.attention_scale.weight",
    "encoder.layer.{}.lambda_2": "encoder.blocks.{}.feed_forward_scale.weight",
    f"{OWN}.relative_position_bias_table": f"{TABLES}own.{{}}.weight",
    f"{SHARED}.relative_position_bias_table": f"{TABLES}shared.0.weight",
}


class BeitFamily(VisionTransformerFamily[Config]):
    """A ViT classified by the mean of the patches through a norm, or by the class token; features are what is."""

    def sizes(self, config: Config, image: tuple[int, int], checkpoint: Checkpoint) -> ViTConfig:
        """Return the definition's sizes."""
        return vit_sizes(ViTConfig, config, image, config.intermediate_size)

    def block(self, config: Config, sizes: ViTConfig) -> nn.Module:
        """Return a fresh block, whose branches are scaled if the configuration gives their scales a value."""
        scaled = config.layer_scale_init_value > 0
        scale = functools.partial(LayerScale, sizes.width) if scaled else nn.Identity
        return PreNormBlock(sizes.attention(key_bias=False), sizes.feed_forward(), sizes.norm, scale)

    def parts(self, config: Config, sizes: ViTConfig) -> dict[str, nn.Module]:
        """Return the biases, no positions, and no last norm, as the configuration says."""
        own, shared = config.use_relative_position_bias, config.use_shared_relative_position_bias
        parts: dict[str, nn.Module] = {}
        if own or shared:
            parts["surroundings"] = GridBiases(sizes.heads, *sizes.grid, own=own * sizes.layers, shared=shared)
        if not config.use_absolute_position_embeddings:
            parts["positions"] = NoPositions()
        if config.use_mean_pooling:
            parts["norm"] = nn.Identity()
        return parts

    def head(self, config: Config, sizes: ViTConfig, task: Task, checkpoint: Checkpoint) -> nn.Module:
        """Return a head for the task, not yet filled; a body that was saved without a pooler has no norm."""
        classifies = task == "image-classification"
        if not config.use_mean_pooling:
            return FirstLinear(sizes.width, sizes.classes) if classifies else FirstState()
        pooled = classifies or any(name.endswith("pooler.layernorm.weight") for name in checkpoint.tensors)
        last = nn.Linear(sizes.width, sizes.classes) if classifies else nn.Identity()
        return PatchMean(sizes.prefix, nn.Sequential(sizes.norm() if pooled else nn.Identity(), last))

    def head_names(self, config: Config, task: Task) -> Names:
        """Return the names of a head's tensors."""
        return (self.heads if config.use_mean_pooling else HEADS)[task]

    def adapt(self, config: Config, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Interpolate positions and tables of differences to the grid of the image that is exported for."""
        assert isinstance(module, ViT)  # noqa: S101 # for the type checker
        trained, image = sides(config.image_size), module.patches.image
        before, after = ([2 * (side // config.patch_size) - 1 for side in one] for one in (trained, image))
        changed = dict(super().adapt(config, module, tensors))
        for name, table in tensors.items() if before != after else ():
            if name.startswith(TABLES) and len(table) == before[0] * before[1] + 3:
                changed[name] = torch.cat((resized(table[:-3], before, after, mode="bilinear"), table[-3:].float()))
        return changed


OF_MEAN: dict[Task, Names] = {
    "image-classification": {"pooler.layernorm": "head.behind.0", "classifier": "head.behind.1"},
    "feature-extraction": {"pooler.layernorm": "head.behind.0"},
}
UNUSED = (*(f"{table}.relative_position_index" for table in (OWN, SHARED)), "embeddings.mask_token")

BEIT, DATA2VEC_VISION = (
    BeitFamily(kind, Config, NAMES, OF_MEAN, prefix=prefix, unused=UNUSED, processor="BeitImageProcessor")
    for kind, prefix in (("beit", "beit."), ("data2vec-vision", "data2vec_vision."))
)
