"""Whisper (Radford et al. 2023): an encoder-decoder that hears frames of sound and writes tokens."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import product
from typing import Literal

from pydantic import ValidationError
from tokenizers import Tokenizer

from contract.generation import Speech
from contract.input_rules import SoundRule
from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.image_family import PREPROCESSOR, processor_of
from export.checkpoints.building.sequence_family import stack_names
from export.checkpoints.building.tensor_names import Names, copy_of
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Activation, Depth, Size
from export.checkpoints.reading.config import Config as BaseConfig
from export.checkpoints.reading.generation_config import GENERATION_FILE, read_generation
from export.checkpoints.reading.tokenizers.tokenizer import read_tokenizer, special_token
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.sound import speech_to_text
from model.architectures.whisper import WhisperConfig, whisper
from model.parts.sound import LogMel, MelSizes
from model.parts.stacks import StackSizes

HALVED = 2
"""Frames of the mel scale for each of the encoder."""
OF_PROMPTS = (
    "alignment_heads", "forced_decoder_ids", "is_multilingual", "lang_to_id", "max_initial_timestamp_index",
    "no_timestamps_token_id", "prev_sot_token_id", "return_timestamps", "task_to_id",
)  # fmt: skip
"""Keys of generation that say how targets begin, and which heads align them."""


class Config(BaseConfig):
    """`config.json` of Whisper."""

    vocab_size: Size = 51865
    num_mel_bins: Size = 80
    max_source_positions: Size = 1500
    max_target_positions: Size = 448
    d_model: Size = 384
    encoder_layers: Depth = 4
    encoder_attention_heads: Size = 6
    encoder_ffn_dim: Size = 1536
    decoder_layers: Depth = 4
    decoder_attention_heads: Size = 6
    decoder_ffn_dim: Size = 1536
    activation_function: Activation = "gelu"
    scale_embedding: bool = False
    is_encoder_decoder: Literal[True] = True  # type: ignore[assignment] # the other of two
    irrelevant_keys = frozenset(
        """
        apply_spec_augment classifier_proj_size forced_decoder_ids mask_feature_length mask_feature_min_masks
        mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob max_length median_filter_width
        num_hidden_layers use_weighted_layer_sum begin_suppress_tokens suppress_tokens
        """.split()
    )


@dataclass(frozen=True)
class WhisperFamily(Family[Config]):
    """The family of Whisper."""

    def head_names(self, config: Config, task: Task) -> Names:
        """Return the head's names: its matrix is the embedding."""
        return {"proj_out.weight": copy_of("target.tokens.weight")}

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: Config, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        sizes = WhisperConfig(
            config.vocab_size,
            bands=config.num_mel_bins,
            frames=config.max_source_positions,
            length=config.max_target_positions,
            width=config.d_model,
            encoder=StackSizes(config.encoder_layers, config.encoder_attention_heads, config.encoder_ffn_dim),
            decoder=StackSizes(config.decoder_layers, config.decoder_attention_heads, config.decoder_ffn_dim),
            activation=config.activation_function,
        )
        mel = self._frames(checkpoint, sizes, options.ignored)
        tokenizer = read_tokenizer(checkpoint, sizes.vocabulary).to_str(pretty=True)
        rules = read_generation(
            checkpoint, continues=False, vocabulary=sizes.vocabulary, positions=sizes.length,
            ignored=(*options.ignored, *OF_PROMPTS),
        )  # fmt: skip
        scale = sizes.width**0.5 if config.scale_embedding else 1.0
        module, unused = self.fill(whisper(sizes, scale), checkpoint, config, task)
        padding = special_token(checkpoint, Tokenizer.from_str(tokenizer), "pad_token")
        return speech_to_text(
            options.name,
            module,
            sizes,
            LogMel(mel),
            family=self.model_type,
            sound=SoundRule(
                rate=mel.rate,
                samples=HALVED * mel.hop * sizes.frames,
                side=mel.window // 2,
                hop=mel.hop,
                least=mel.hop,
                frames=sizes.frames,
            ),
            tokenizer=tokenizer,
            rules=rules.model_copy(update={"padding": padding, "speech": _speech(checkpoint, config.vocab_size)}),
            aligned=_aligned(checkpoint, sizes.decoder),
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )

    @staticmethod
    def _frames(checkpoint: Checkpoint, sizes: WhisperConfig, ignored: Collection[str]) -> MelSizes:
        """Return how frames are made. Raises CheckpointError for features that the encoder does not take."""
        given = processor_of(checkpoint, ignored, "feature_extractor")
        mel = MelSizes(bands=sizes.bands)
        wanted = {
            "feature_size": mel.bands, "sampling_rate": mel.rate, "hop_length": mel.hop, "n_fft": mel.window,
            "dither": 0.0, "padding_value": 0.0, "n_samples": HALVED * mel.hop * sizes.frames,
        }  # fmt: skip
        for key, value in wanted.items():
            if given.get(key, value) != value:
                raise CheckpointError(f"{PREPROCESSOR}: {key} must be {value}, given {str(given[key])[:64]}")
        return mel


def _speech(checkpoint: Checkpoint, vocabulary: int) -> Speech:
    """Return what a target begins with. Raises CheckpointError for tokens that it has not."""
    given = checkpoint.json(GENERATION_FILE)
    without = given.get("no_timestamps_token_id")
    languages = {name.strip("<|>"): token for name, token in (given.get("lang_to_id") or {}).items()}
    try:
        speech = Speech(
            languages=languages if given.get("is_multilingual", bool(languages)) else {},
            tasks=(given.get("task_to_id") or {}) if languages else {},
            without_times=without,
            most_first=given.get("max_initial_timestamp_index"),
            previous=given.get("prev_sot_token_id"),
            silence=None if without is None else without - 1,  # as the reference library has it
        )
    except ValidationError as error:
        raise CheckpointError(f"{GENERATION_FILE}: must name tokens of languages and tasks by numbers") from error
    if outside := [token for token in speech.named_tokens() if not 0 <= token < vocabulary]:
        raise CheckpointError(f"{GENERATION_FILE}: token {outside[0]} is outside the vocabulary of {vocabulary}")
    return speech


def _aligned(checkpoint: Checkpoint, sizes: StackSizes) -> tuple[tuple[int, int], ...]:
    """Return the heads that follow what is said: those that the checkpoint names, or those of the upper half.

    Raises CheckpointError for others.
    """
    given = checkpoint.json(GENERATION_FILE).get("alignment_heads")
    if given is None:
        return tuple(product(range(sizes.layers // 2, sizes.layers), range(sizes.heads)))
    heads = tuple((one[0], one[1]) for one in given if isinstance(one, list) and len(one) == 2)
    known = set(product(range(sizes.layers), range(sizes.heads)))
    if not heads or len(heads) != len(given) or not known.issuperset(heads):
        raise CheckpointError(f"{GENERATION_FILE}: alignment_heads must be pairs of a layer and a head of it")
    return heads


WHISPER = WhisperFamily(
    "whisper",
    Config,
    {
        **stack_names(),
        "encoder.conv1": "source.first",
        "encoder.conv2": "source.second",
        "encoder.embed_positions": "source.positions",
        "decoder.embed_tokens": "target.tokens",
        "decoder.embed_positions": "target.positions",
    },
    heads={"automatic-speech-recognition": {}},
    prefix="model.",
)
