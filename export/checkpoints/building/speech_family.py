"""The base of the families that hear a wave itself: configuration, names and tasks of a wav2vec 2.0's checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from contract.input_rules import SoundRule
from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.image_family import PREPROCESSOR, processor_of
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Activation, Config, Depth, Epsilon, Size
from export.checkpoints.reading.tokenizers.characters import read_characters
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.sound_encoder import sound_encoder
from model.architectures.speech_encoder import SpeechEncoderConfig, speech_encoder
from model.parts.heads import EachLinear, MeanState, ProjectedMeanClassifier
from model.parts.sound import UnitVariance

FEATURES = "feature_extractor"
"""Where the file of a whole processor holds what is done to sounds."""
MOST_FRAMES = 1500
"""Of a sound: 30 s of the usual frames, which begin every 20 ms. Attention grows with their square."""


class SpeechConfig(Config):
    """What configurations of wav2vec 2.0 and HuBERT have in common."""

    vocab_size: Size = 32
    hidden_size: Size = 768
    num_hidden_layers: Depth = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: Activation = "gelu"
    layer_norm_eps: Epsilon = 1e-5
    feat_extract_norm: Literal["group", "layer"] = "group"
    feat_extract_activation: Activation = "gelu"
    conv_dim: tuple[Size, ...] = (512,) * 7
    conv_stride: tuple[Size, ...] = (5, 2, 2, 2, 2, 2, 2)
    conv_kernel: tuple[Size, ...] = (10, 3, 3, 3, 3, 2, 2)
    conv_bias: bool = False
    num_conv_pos_embeddings: Size = 128
    num_conv_pos_embedding_groups: Size = 16
    do_stable_layer_norm: bool = False
    use_weighted_layer_sum: Literal[False] = False
    classifier_proj_size: Size = 256
    irrelevant_keys = frozenset(
        """
        adapter_kernel_size adapter_stride apply_spec_augment codevector_dim contrastive_logits_temperature
        ctc_loss_reduction ctc_zero_infinity diversity_loss_weight feat_extract_dropout feat_proj_dropout
        feat_quantizer_dropout final_dropout freeze_feat_extract_train hidden_dropout layerdrop mask_channel_length
        mask_channel_min_space mask_channel_other mask_channel_prob mask_channel_selection mask_feature_length
        mask_feature_min_masks mask_feature_prob mask_time_length mask_time_min_masks mask_time_min_space
        mask_time_other mask_time_prob mask_time_selection no_mask_channel_overlap no_mask_time_overlap
        num_adapter_layers num_codevector_groups num_codevectors_per_group num_feat_extract_layers num_negatives
        output_hidden_size proj_codevector_dim tdnn_dilation tdnn_dim tdnn_kernel xvector_output_dim
        """.split()
    )

    @property
    def projection_norm(self) -> bool:
        """Whether the features of a wave are normalised."""
        return True


C = TypeVar("C", bound=SpeechConfig)

BLOCK, OURS = "encoder.layers.{}", "encoder.blocks.{}"
GAIN, DIRECTION = "positions.convolution.gain", "positions.convolution.direction"
NAMES: Names = {
    "feature_extractor.conv_layers.{}.conv": "features.{}.convolution",
    "feature_extractor.conv_layers.{}.layer_norm": "features.{}.norm",
    "feature_projection.layer_norm": "projection.0",
    "feature_projection.projection": "projection.1",
    "encoder.pos_conv_embed.conv": "positions.convolution",
    "encoder.pos_conv_embed.conv.weight_g": GAIN,
    "encoder.pos_conv_embed.conv.weight_v": DIRECTION,
    "encoder.pos_conv_embed.conv.parametrizations.weight.original0": GAIN,
    "encoder.pos_conv_embed.conv.parametrizations.weight.original1": DIRECTION,
    f"{BLOCK}.attention.q_proj": f"{OURS}.attention.query",
    f"{BLOCK}.attention.k_proj": f"{OURS}.attention.key",
    f"{BLOCK}.attention.v_proj": f"{OURS}.attention.value",
    f"{BLOCK}.attention.out_proj": f"{OURS}.attention.output",
    f"{BLOCK}.layer_norm": f"{OURS}.attention_norm",
    f"{BLOCK}.feed_forward.intermediate_dense": f"{OURS}.feed_forward.0",
    f"{BLOCK}.feed_forward.output_dense": f"{OURS}.feed_forward.2",
    f"{BLOCK}.final_layer_norm": f"{OURS}.feed_forward_norm",
}
HEADS: dict[Task, Names] = {
    "automatic-speech-recognition": {"lm_head": "head"},
    "audio-classification": {"projector": "head.projection", "classifier": "head.output"},
    "feature-extraction": {},
}
OF_TRAINING = ("masked_spec_embed", "quantizer.codevectors", "quantizer.weight_proj", "project_hid", "project_q")
"""What only training needs."""


@dataclass(frozen=True)
class SpeechFamily(Family[C]):
    """A family whose definition is a speech encoder: it writes characters, classifies sounds, or embeds them."""

    def body(self, config: C) -> Names:
        """Return the body's names: where blocks normalise first, the encoder's norm stands behind them."""
        return {**self.names, "encoder.layer_norm": "encoder.norm" if config.do_stable_layer_norm else "norm"}

    def adapt(self, config: C, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Fold the weight norm of positions: gain x direction / ‖direction‖, for each place of the kernel."""
        if not {GAIN, DIRECTION} <= tensors.keys():
            return tensors
        rest = {name: tensor for name, tensor in tensors.items() if name not in (GAIN, DIRECTION)}
        gain, direction = tensors[GAIN].double(), tensors[DIRECTION].double()
        length = torch.linalg.vector_norm(direction, dim=(0, 1), keepdim=True)
        return {**rest, "positions.convolution.weight": direction * (gain / length)}

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        sizes = SpeechEncoderConfig(
            config.conv_dim,
            config.conv_kernel,
            config.conv_stride,
            positions=config.num_conv_pos_embeddings,
            groups=config.num_conv_pos_embedding_groups,
            width=config.hidden_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            hidden=config.intermediate_size,
            each_norm=config.feat_extract_norm == "layer",
            convolution_bias=config.conv_bias,
            convolution_activation=config.feat_extract_activation,
            projection_norm=config.projection_norm,
            norm_first=config.do_stable_layer_norm,
            activation=config.hidden_act,
            epsilon=config.layer_norm_eps,
        )
        heads: dict[Task, nn.Module] = {
            "automatic-speech-recognition": EachLinear(sizes.width, config.vocab_size),
            "audio-classification": ProjectedMeanClassifier(
                sizes.width, config.classifier_proj_size, len(config.labels)
            ),
            "feature-extraction": MeanState(),
        }
        labels = config.labels if task == "audio-classification" else ()
        if task == "automatic-speech-recognition":
            labels = read_characters(checkpoint, config.vocab_size)
        processor = processor_of(checkpoint, options.ignored, FEATURES)
        rate = check_features(processor, {"feature_size": 1, "padding_value": 0.0})
        module, unused = self.fill(speech_encoder(sizes, heads[task]), checkpoint, config, task)
        return sound_encoder(
            options.name,
            module,
            sizes,
            UnitVariance() if processor.get("do_normalize", True) else nn.Identity(),
            family=self.model_type,
            task=task,
            sound=SoundRule(
                rate=rate,
                samples=sizes.window + (MOST_FRAMES - 1) * sizes.hop,
                frames=MOST_FRAMES,
                hop=sizes.hop,
                apart=sizes.hop,
                varies=True,
                least=sizes.window,
            ),
            labels=labels,
            scores=config.scores if task == "audio-classification" else "softmax",
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )


def check_features(processor: Mapping[str, object], wanted: Mapping[str, object]) -> int:
    """Return the samples a second of a feature extractor. Raises CheckpointError for a setting that is not wanted."""
    for key, value in wanted.items():
        if processor.get(key, value) != value:
            raise CheckpointError(f"{PREPROCESSOR}: {key} must be {value}, given {str(processor[key])[:64]}")
    rate = processor.get("sampling_rate", 16_000)
    if not isinstance(rate, int) or rate < 1:
        raise CheckpointError(f"{PREPROCESSOR}: sampling_rate must be a number of samples, given {str(rate)[:64]}")
    return rate
