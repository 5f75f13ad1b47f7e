"""The base of the families of detectors: canvas, image rule, backbone and names of a DETR's checkpoint."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from torch import Tensor, nn

from contract.input_rules import ImageRule
from contract.manifest import Scores, Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.image_family import processor_of
from export.checkpoints.building.tensor_names import UNUSED, Destination, Names, theirs
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint
from export.checkpoints.reading.config import GENERATION_KEYS, IRRELEVANT_KEYS, Activation, Config, Depth, Size
from export.checkpoints.reading.preprocessor_config import detector_canvas, pad_size, read_detector_rule
from export.errors import CheckpointError, ProcessorError
from export.plan import Source
from export.tasks.detection import object_detector
from model.architectures.detector import Detector, DetectorConfig, detector
from model.parts.positions import LearnedGrid
from model.parts.resnet import RESNET_SIZES, STRIDE, ResNetConfig, folded, resnet
from model.parts.stacks import StackSizes

NO_LABEL = "N/A"
"""The name of a class that has none: COCO numbers some classes that it has no pictures of."""

LOSS_KEYS = frozenset(
    """
    auxiliary_loss bbox_cost bbox_loss_coefficient class_cost cls_loss_coefficient dice_loss_coefficient eos_coefficient
    focal_alpha giou_cost giou_loss_coefficient mask_loss_coefficient
    """.split()
)
"""Keys of the matching and the loss."""

LAST_STAGE = 4
NORM_PARTS = ("weight", "bias", "mean", "variance")
"""What a checkpoint holds of a batch norm, by names between its own and ours."""


class LabelsWithGaps(Config):
    """Classes of which some may have no name."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the classes' names in the order of their indices."""
        if self.id2label is None or not all(index.isdecimal() for index in self.id2label):
            return super().labels
        names = {int(index): name for index, name in self.id2label.items()}
        count = max([self.num_labels or 0, *(index + 1 for index in names)])
        if not count:
            raise CheckpointError(f"{CONFIG}: id2label must name at least one class, given none")
        if self.num_labels not in (None, count):
            raise CheckpointError(f"{CONFIG}: num_labels must be {count}, as many as id2label says")
        return tuple(names.get(index, NO_LABEL) for index in range(count))


def _changing(given: object) -> object:
    """Leave out of a nested configuration what changes nothing: where it was saved whole, that is most of it.

    Raises ValueError for a key that is not known.
    """
    if not isinstance(given, dict):
        return given
    dropped = IRRELEVANT_KEYS | GENERATION_KEYS | BACKBONE_IRRELEVANT_KEYS
    set_keys = {key for key, value in given.items() if value is not None}
    if unknown := sorted(set_keys - dropped - BackboneConfig.model_fields.keys()):
        raise ValueError(f"must have known keys, not {', '.join(unknown)}")
    return {key: given[key] for key in BackboneConfig.model_fields if key in set_keys}


BACKBONE_IRRELEVANT_KEYS = frozenset(
    """
    add_cross_attention cross_attention_hidden_size exponential_decay_length_penalty features_only freeze_batch_norm_2d
    id2label is_decoder is_encoder_decoder num_labels problem_type pruned_heads remove_invalid_values stage_names
    tie_word_embeddings tokenizer_class use_pretrained_backbone use_timm_backbone
    """.split()
)
"""Keys of a backbone's configuration that change nothing: of classifiers, of texts, of how weights were initialised."""


FourSizes = Annotated[tuple[Size, Size, Size, Size], Field(strict=False)]

FourDepths = Annotated[tuple[Depth, Depth, Depth, Depth], Field(strict=False)]


class BackboneConfig(BaseModel):
    """`backbone_config`: a ResNet of the transformers library, or one of timm by its name."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model_type: Literal["resnet", "timm_backbone"] = "resnet"
    num_channels: Size | None = None
    embedding_size: Size = 64
    hidden_sizes: FourSizes = RESNET_SIZES["resnet50"].widths
    depths: FourDepths = RESNET_SIZES["resnet50"].depths
    layer_type: Literal["basic", "bottleneck"] = "bottleneck"
    hidden_act: Literal["relu"] = "relu"
    downsample_in_first_stage: Literal[False] = False
    downsample_in_bottleneck: bool = False
    out_features: list[str] | None = None
    out_indices: list[int] | None = None
    backbone: str | None = None
    in_chans: Size | None = None
    output_stride: Literal[32] = 32

    @model_validator(mode="after")
    def _last_stage(self) -> "BackboneConfig":
        if self.out_features and self.out_features[-1] != f"stage{LAST_STAGE}":
            raise ValueError(f"out_features must end with stage{LAST_STAGE}")
        if self.out_indices and self.out_indices[-1] not in (LAST_STAGE, -1):
            raise ValueError(f"out_indices must end with {LAST_STAGE}")
        return self

    def sizes(self, channels: int) -> ResNetConfig:
        """Return the definition's sizes, for images of this number of channels."""
        if any(given not in (None, channels) for given in (self.num_channels, self.in_chans)):
            raise CheckpointError(f"{CONFIG}: backbone_config.num_channels: must be {channels}, as num_channels says")
        if self.layer_type == "basic":
            return ResNetConfig(channels, self.embedding_size, self.hidden_sizes, self.depths, "basic")
        block: Literal["bottleneck_first", "bottleneck"]
        block = "bottleneck_first" if self.downsample_in_bottleneck else "bottleneck"
        return ResNetConfig(channels, self.embedding_size, self.hidden_sizes, self.depths, block)


class DetrConfig(LabelsWithGaps):
    """What configurations of DETR and those that followed it have in common."""

    d_model: Size = 256
    encoder_layers: Depth = 6
    encoder_attention_heads: Size = 8
    encoder_ffn_dim: Size = 2048
    decoder_layers: Depth = 6
    decoder_attention_heads: Size = 8
    decoder_ffn_dim: Size = 2048
    hidden_size: Size | None = None
    num_attention_heads: Size | None = None
    num_hidden_layers: Depth | None = None
    activation_function: Activation = "relu"
    num_channels: Literal[1, 3] = 3
    num_queries: Size = 100
    position_embedding_type: Literal["sine", "learned"] = "sine"
    dilation: Literal[False] = False
    auxiliary_loss: Literal[False] = False
    """With it the reference library normalises what enters each block of the decoder, and the paper does not."""
    is_encoder_decoder: bool = True  # type: ignore[assignment] # of others it must be false
    use_timm_backbone: bool = True
    backbone: str | None = None
    backbone_config: Annotated[BackboneConfig | None, BeforeValidator(_changing)] = None
    backbone_kwargs: Annotated[BackboneConfig | None, BeforeValidator(_changing)] = None

    irrelevant_keys = (LOSS_KEYS - {"auxiliary_loss"}) | frozenset(
        {"init_xavier_std", "max_position_embeddings", "scale_embedding", "use_pretrained_backbone"}
    )

    @model_validator(mode="after")
    def _other_names(self) -> "DetrConfig":
        for name, own in (
            ("hidden_size", "d_model"),
            ("num_attention_heads", "encoder_attention_heads"),
            ("num_hidden_layers", "encoder_layers"),
        ):
            if getattr(self, name) not in (None, getattr(self, own)):
                raise ValueError(f"{name} must be {own}, {getattr(self, own)}, another name of which it is")
        return self

    @property
    def resnet(self) -> ResNetConfig:
        """Return the sizes of the backbone. Raises CheckpointError for one that is no ResNet."""
        given = self.backbone_config
        if given and given.model_type == "resnet":
            return given.sizes(self.num_channels)
        if self.backbone_kwargs:
            self.backbone_kwargs.sizes(self.num_channels)  # which checks it
        name = (given.backbone if given else None) or self.backbone
        if name is None or (self.use_timm_backbone and name in RESNET_SIZES):
            sizes = RESNET_SIZES[name or "resnet50"]
        elif name in HUB_BACKBONES:
            sizes = RESNET_SIZES[HUB_BACKBONES[name]]
        else:
            known = ", ".join(RESNET_SIZES if self.use_timm_backbone else HUB_BACKBONES)
            raise CheckpointError(f"{CONFIG}: backbone: must be one of {known}, given {name[:64]!r}")
        return ResNetConfig(self.num_channels, sizes.stem, sizes.widths, sizes.depths, sizes.block)


HUB_BACKBONES = {f"microsoft/{name.replace('resnet', 'resnet-')}": name for name in RESNET_SIZES}
"""Names of ResNets on the hub, which some configurations give in place of sizes -> our sizes."""

C = TypeVar("C", bound=LabelsWithGaps)
D = TypeVar("D", bound=DetrConfig)


@dataclass(frozen=True)
class DetectorFamily(Family[C]):
    """A family of detectors, which take images fitted into a canvas."""

    processor: str = ""
    """The class of image processor to assume if the folder names none."""
    command_options: ClassVar[str] = "--image-size"

    @abstractmethod
    def cell(self, config: C) -> tuple[int, int]:
        """Return the height and width of a cell in pixels, of which the sides of a canvas are multiples."""

    @abstractmethod
    def detector(
        self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task, rule: ImageRule, *, padded: bool
    ) -> Source:
        """Compose the definition for the images of a rule, fill it, and return the source.

        `padded`: the processor fills images up with zeros that the network is to see.
        """

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Read how images are prepared, compose the definition, and return the source."""
        processor = processor_of(checkpoint, options.ignored)
        height, width = options.image or detector_canvas(processor, self.processor)
        down, across = self.cell(config)
        canvas = (-(-height // down) * down, -(-width // across) * across)
        padded = pad_size(processor, self.processor)
        if padded and not options.image and padded != canvas:
            cells = f"multiples of {down} and {across}, or add --image-size {canvas[0]}x{canvas[1]}"
            raise ProcessorError("pad_size", cells, padded)
        rule = read_detector_rule(processor, canvas, self.channels(config), self.processor)
        return self.detector(checkpoint, options, config, task, rule, padded=padded is not None)

    @abstractmethod
    def channels(self, config: C) -> int:
        """Return how many channels an image has."""


@dataclass(frozen=True)
class DetrFamily(DetectorFamily[D]):
    """A family whose definition is a DETR, or one of those that followed it."""

    scores: Scores = "softmax"
    """`sigmoid` where each class is decided by itself, and none says that there is no object."""
    definition: Callable[..., Detector] = detector
    """Composes the definition of its sizes, a backbone and places."""

    def cell(self, config: D) -> tuple[int, int]:
        """Return the stride of a ResNet."""
        return STRIDE, STRIDE

    def channels(self, config: D) -> int:
        """Return what the configuration says."""
        return config.num_channels

    def detector(
        self, checkpoint: Checkpoint, options: ExportOptions, config: D, task: Task, rule: ImageRule, *, padded: bool
    ) -> Source:
        """Compose the definition for the images of a rule, fill it, and return the source."""
        of_backbone = config.resnet
        sizes = DetectorConfig(
            (rule.height, rule.width),
            config.num_channels,
            cell=STRIDE,
            width=config.d_model,
            encoder=StackSizes(config.encoder_layers, config.encoder_attention_heads, config.encoder_ffn_dim),
            decoder=StackSizes(config.decoder_layers, config.decoder_attention_heads, config.decoder_ffn_dim),
            objects=config.num_queries,
            classes=len(config.labels),
            activation=config.activation_function,
            features=of_backbone.widths[-1],
        )
        learned = config.position_embedding_type == "learned"
        places = LearnedGrid(*sizes.grid, sizes.width) if learned else None
        module = self.definition(sizes, backbone=resnet(of_backbone), places=places)
        module, unused = self.fill(module, checkpoint, config, task)
        return object_detector(
            options.name,
            module,
            sizes,
            family=self.model_type,
            rule=rule,
            labels=config.labels,
            scores=self.scores,
            made_by=made_by(self.model_type, DetectorSizes(sizes, of_backbone), checkpoint, unused),
            padded=padded,
        )

    def adapt(self, config: D, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Fold the statistics of batch norms into scales and shifts."""
        found = dict(tensors)
        for norm in {name.removesuffix(".mean") for name in tensors if name.endswith(".mean")}:
            if missing := [part for part in NORM_PARTS if f"{norm}.{part}" not in tensors]:
                raise CheckpointError(f"weights: missing {theirs(f'{norm}.{missing[0]}', self.names)}")
            weight, bias, mean, variance = (found.pop(f"{norm}.{part}") for part in NORM_PARTS)
            found[f"{norm}.scale"], found[f"{norm}.shift"] = folded(weight, bias, mean, variance)
        return found


@dataclass(frozen=True)
class DetectorSizes:
    """What the manifest says of a detector's sizes."""

    detector: DetectorConfig
    backbone: ResNetConfig


def attention_names(their: str, ours: str) -> Names:
    """Return the names of an attention's parts, as the hub's checkpoints and later ones have them."""
    parts = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output", "o_proj": "output"}
    return {f"{their}.{part}": f"{ours}.{own}" for part, own in parts.items()}


def feed_forward_names(their: str, ours: str) -> Names:
    """Return the names of a feed-forward's parts and its norm."""
    return {
        **{f"{their}.{mlp}fc1": f"{ours}.feed_forward.0" for mlp in ("", "mlp.")},
        **{f"{their}.{mlp}fc2": f"{ours}.feed_forward.2" for mlp in ("", "mlp.")},
        f"{their}.final_layer_norm": f"{ours}.feed_forward_norm",
    }


def perceptron_names(their: str, ours: str, layers: int) -> Names:
    """Return the names of the layers of a perceptron, between which ours have activations."""
    return {f"{their}.layers.{index}": f"{ours}.{2 * index}" for index in range(layers)}


def normed_names(convolution: str, norm: str, ours: str) -> Names:
    """Return the names of a convolution and its batch norm, whose four tensors `adapt` folds into two."""
    return {
        convolution: f"{ours}.0",
        norm: f"{ours}.1",
        f"{norm}.running_mean": f"{ours}.1.mean",
        f"{norm}.running_var": f"{ours}.1.variance",
        f"{norm}.num_batches_tracked": UNUSED,
    }


def _backbone_names(their: str) -> dict[str, str | Destination]:
    """Return the names of a ResNet's tensors: those of timm, and those of the transformers library."""
    names = {
        **normed_names(f"{their}.conv1", f"{their}.bn1", "backbone.stem"),
        **normed_names(
            f"{their}.embedder.embedder.convolution", f"{their}.embedder.embedder.normalization", "backbone.stem"
        ),
    }
    for stage in range(LAST_STAGE):
        timm, own = f"{their}.layer{stage + 1}.{{}}", f"backbone.stages.{stage}.{{}}"
        hub = f"{their}.encoder.stages.{stage}.layers.{{}}"
        for index in range(3):
            branch = f"{own}.branch.{2 * index}"
            names |= normed_names(f"{timm}.conv{index + 1}", f"{timm}.bn{index + 1}", branch)
            layer = f"{hub}.layer.{index}"
            names |= normed_names(f"{layer}.convolution", f"{layer}.normalization", branch)
        names |= normed_names(f"{timm}.downsample.0", f"{timm}.downsample.1", f"{own}.shortcut")
        names |= normed_names(f"{hub}.shortcut.convolution", f"{hub}.shortcut.normalization", f"{own}.shortcut")
    return names


ENCODER, ENCODER_BLOCK = "encoder.layers.{}", "encoder.blocks.{}"
DECODER, DECODER_BLOCK = "decoder.layers.{}", "decoder.blocks.{}"

DETR_NAMES: Names = {
    **_backbone_names("backbone.conv_encoder.model"),
    **_backbone_names("backbone.model"),
    **{
        f"{place}position_embedding.{line}_embeddings": f"places.{line}s"
        for place in ("", "backbone.")
        for line in ("row", "column")
    },
    "input_projection": "projection",
    "query_position_embeddings": "decoder.queries",
    **attention_names(f"{ENCODER}.self_attn", f"{ENCODER_BLOCK}.attention"),
    f"{ENCODER}.self_attn_layer_norm": f"{ENCODER_BLOCK}.attention_norm",
    **feed_forward_names(ENCODER, ENCODER_BLOCK),
    **attention_names(f"{DECODER}.self_attn", f"{DECODER_BLOCK}.attention"),
    f"{DECODER}.self_attn_layer_norm": f"{DECODER_BLOCK}.attention_norm",
    **attention_names(f"{DECODER}.encoder_attn", f"{DECODER_BLOCK}.cross"),
    f"{DECODER}.encoder_attn_layer_norm": f"{DECODER_BLOCK}.cross_norm",
    **feed_forward_names(DECODER, DECODER_BLOCK),
    "decoder.layernorm": "decoder.norm",
}

DETR_HEADS: dict[Task, Names] = {
    "object-detection": {
        "class_labels_classifier": "head.classes",
        **perceptron_names("bbox_predictor", "head.box", 3),
    }
}
"""The names of the head, which are the same in all these families."""
