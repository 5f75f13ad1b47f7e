"""The Audio Spectrogram Transformer (Gong et al. 2021)."""

from dataclasses import dataclass

from torch import nn

from contract.input_rules import SoundRule
from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.image_family import PREPROCESSOR, Sides, processor_of, sides
from export.checkpoints.building.speech_family import FEATURES, check_features
from export.checkpoints.families.vit import NAMES as VIT_NAMES
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Activation, Depth, Epsilon, Size
from export.checkpoints.reading.config import Config as BaseConfig
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.sound_encoder import sound_encoder
from model.architectures.spectrogram_transformer import SpectrogramConfig, spectrogram_transformer
from model.parts.heads import PrefixMean
from model.parts.sound import FilterBank, MelSizes

OF_AUDIOSET = {"mean": -4.2677393, "std": 4.5689974}


class Config(BaseConfig):
    """`config.json`."""

    hidden_size: Size = 768
    num_hidden_layers: Depth = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: Activation = "gelu"
    layer_norm_eps: Epsilon = 1e-12
    patch_size: Sides = 16
    qkv_bias: bool = True
    frequency_stride: Size = 10
    time_stride: Size = 10
    max_length: Size = 1024
    num_mel_bins: Size = 128


@dataclass(frozen=True)
class SpectrogramFamily(Family[Config]):
    """The family of the Audio Spectrogram Transformer: features are the mean of its two first tokens."""

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: Config, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        sizes = SpectrogramConfig(
            bands=config.num_mel_bins,
            frames=config.max_length,
            patch=sides(config.patch_size),
            stride=(config.frequency_stride, config.time_stride),
            width=config.hidden_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            hidden=config.intermediate_size,
            classes=len(config.labels),
            activation=config.hidden_act,
            epsilon=config.layer_norm_eps,
            bias=config.qkv_bias,
        )
        classifies = task == "audio-classification"
        classifier = nn.Sequential(sizes.norm(), nn.Linear(sizes.width, sizes.classes))
        head = PrefixMean(sizes.prefix, classifier if classifies else nn.Identity())
        bank = self._bank(processor_of(checkpoint, options.ignored, FEATURES), sizes)
        module, unused = self.fill(spectrogram_transformer(sizes, head), checkpoint, config, task)
        mel = bank.sizes
        return sound_encoder(
            options.name,
            module,
            sizes,
            bank,
            family=self.model_type,
            task=task,
            sound=SoundRule(
                rate=mel.rate,
                samples=mel.window + (sizes.frames - 1) * mel.hop,
                frames=sizes.grid[1],
                hop=mel.hop,
                apart=sizes.stride[1] * mel.hop,
                least=mel.window,
            ),
            labels=config.labels if classifies else (),
            scores=config.scores if classifies else "softmax",
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )

    @staticmethod
    def _bank(processor: dict[str, object], sizes: SpectrogramConfig) -> FilterBank:
        """Return what makes spectrograms. Raises CheckpointError for those that the model does not take."""
        wanted = {"num_mel_bins": sizes.bands, "max_length": sizes.frames, "feature_size": 1}
        rate = check_features(processor, wanted)
        given = OF_AUDIOSET | {key: processor[key] for key in OF_AUDIOSET if key in processor}
        mean, std = (given[key] for key in OF_AUDIOSET)
        if not isinstance(mean, float | int) or not isinstance(std, float | int) or std <= 0:
            raise CheckpointError(f"{PREPROCESSOR}: mean and std must be numbers, std above 0, given others")
        if not processor.get("do_normalize", True):
            mean, std = 0.0, 0.5
        return FilterBank(MelSizes(rate=rate, bands=sizes.bands), float(mean), float(std))


AUDIO_SPECTROGRAM_TRANSFORMER = SpectrogramFamily(
    "audio-spectrogram-transformer",
    Config,
    {**VIT_NAMES, "embeddings.distillation_token": "distillation_token"},
    heads={
        "audio-classification": {"classifier.layernorm": "head.behind.0", "classifier.dense": "head.behind.1"},
        "feature-extraction": {},
    },
    prefix="audio_spectrogram_transformer.",
)
