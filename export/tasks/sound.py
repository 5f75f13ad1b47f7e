"""The plans of models that hear: encoder-decoders whose source is sound, and one that embeds sounds."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from contract.generation import ALIGNED, Generation
from contract.input_rules import BANDS, FILLED, FRAMES, SAMPLES, SoundRule
from contract.manifest import ANSWERED, GRADIENT_METHODS, Kind, Port
from export.plan import Plan, Source, UpperBounds
from export.tasks.generation import (
    TARGET_TOKENIZER,
    VERIFIED_ANSWERS,
    cache_ports,
    decode_plan,
    keys_and_values,
    longest_sizes,
    with_states,
)
from export.tasks.ports import (
    EMBEDDINGS,
    MAX_VERIFIED_TOKENS,
    attention_kind,
    base_plan,
    derived_plans,
    encoder_kind,
    float_port,
    index_port,
    token_port,
)
from export.traced.generation import DecodeStep
from export.traced.sound import (
    TracedSpeechTransformer,
    TracedTera,
    TracedWhisper,
    WhisperAlign,
    WhisperEncode,
    WhisperHear,
)
from model.architectures.speech_transformer import SpeechTransformerConfig
from model.architectures.tera import Tera, TeraConfig
from model.architectures.whisper import Whisper, WhisperConfig
from model.parts.sound import LogMel

Config: TypeAlias = WhisperConfig | SpeechTransformerConfig

OWN, CROSS = "decoder.blocks.{}.attention", "decoder.blocks.{}.cross"
"""The paths of a decoder's attentions, by layer."""


def samples_port(sound: SoundRule) -> Port:
    """Return the port of a sound."""
    return Port(name=SAMPLES, dtype="float32", axes=("batch", sound.samples + 2 * sound.side))


class Plane(NamedTuple):
    """Attention before an encoder, and the width of the values of all its heads together."""

    kind: Kind
    width: int


def planes_of(config: SpeechTransformerConfig) -> tuple[Plane, Plane]:
    """Return the 2D-attentions of a Speech-Transformer, along time and along frequency: a head for each map."""

    def kind(name: str, axis: str) -> Kind:
        found = attention_kind("encoder", f"source.planes.{{}}.{name}", config.planes, config.maps, axis, axis)
        return found.model_copy(update={"name": name, "methods": ("raw", "rollout")})

    return (
        Plane(kind("time", FRAMES), config.maps * config.rows),
        Plane(kind("frequency", BANDS), config.maps * config.frames),
    )


def speech_to_text(
    name: str,
    model: Whisper,
    config: Config,
    frames: LogMel,
    *,
    family: str,
    sound: SoundRule,
    tokenizer: str,
    rules: Generation,
    aligned: Sequence[tuple[int, int]],
    made_by: dict[str, Any],
    planes: tuple[Plane, ...] = (),
) -> Source:
    """Plan the graphs of an encoder-decoder: `hear`, `encode` and `decode` write, `align` times, the others show.

    `aligned` are the heads, each a layer and a head of it, whose weights follow what is said. Attention is shown of the
    encoder, the decoder, across, and of `planes` before the encoder.
    """
    sizes = {FRAMES: config.frames, BANDS: sound.bands}
    kinds = (*_kinds(config), *(plane.kind for plane in planes))
    traced = (TracedSpeechTransformer if planes else TracedWhisper)(model, kinds, frames)
    logits = float_port("logits", "batch", ANSWERED, config.vocabulary)
    widths = [*[config.width] * 3, *(plane.width for plane in planes)]
    inputs = samples_port(sound), token_port("target"), token_port(ANSWERED)
    base = base_plan(traced, inputs, (logits,), sizes, widths, _bounds(config))
    attending = config.encoder.layers + sum(len(plane.kind.maps) for plane in planes)
    own, crossed = (keys_and_values(path, config.decoder.layers) for path in (OWN, CROSS))
    longest = min(config.length, rules.max_new_tokens)
    long = min(longest, MAX_VERIFIED_TOKENS)
    return Source(
        name=name,
        family=family,
        task="automatic-speech-recognition",
        inputs=(sound,),
        target_tokenizer=tokenizer,
        traced=traced,
        base=base,
        plans=(
            *derived_plans(traced, base, sizes),
            *_writing_plans(model, config, frames, sound, aligned, attending),
        ),
        attention=kinds,
        generation=with_states(rules, own, memory=crossed).model_copy(update={"tokenizer": TARGET_TOKENIZER}),
        made_by=made_by,
        traced_at={"batch": 4, "source": 3, "target": 5, ANSWERED: 2, "capacity": 9},
        verified_at=(
            {"batch": 1, "source": 1, "target": 1, ANSWERED: 1, "capacity": 1},
            {"batch": 2, "source": 4, "target": min(7, longest), ANSWERED: 3, "capacity": 16},
            {"batch": 3, "source": min(long, 8), "target": long, ANSWERED: VERIFIED_ANSWERS, "capacity": long},
        ),
        verified_longest=longest_sizes(longest, source=longest),
    )


def _kinds(config: Config) -> tuple[Kind, Kind, Kind]:
    encoder, decoder = config.encoder, config.decoder
    return (
        attention_kind("encoder", "encoder.blocks.{}.attention", encoder.layers, encoder.heads, FRAMES, FRAMES),
        attention_kind("decoder", OWN, decoder.layers, decoder.heads, "target", "target_input", *GRADIENT_METHODS),
        attention_kind("cross", CROSS, decoder.layers, decoder.heads, "target", FRAMES, *GRADIENT_METHODS),
    )


def _bounds(config: Config) -> UpperBounds:
    return {**dict.fromkeys(("source", "target", "token"), config.vocabulary), "position": "capacity"}


def _writing_plans(
    model: Whisper,
    config: Config,
    frames: LogMel,
    sound: SoundRule,
    aligned: Sequence[tuple[int, int]],
    attending: int,
) -> tuple[Plan, Plan, Plan, Plan]:
    """Plan what hears, in which `attending` attentions are, what writes, and what times."""
    decoder, bounds, head = config.decoder, _bounds(config), config.width // config.decoder.heads
    states, crossed = (keys_and_values(path, decoder.layers) for path in (OWN, CROSS))
    memory = tuple(float_port(state, "batch", decoder.heads, config.frames, head) for state in crossed)
    prompt = tuple(float_port(f"past.{state}", "batch", decoder.heads, "source", head) for state in states)
    past, present = cache_ports(dict.fromkeys(states, head), decoder.heads)
    heard = (samples_port(sound), index_port(FILLED))
    spectra: UpperBounds = {FILLED: sound.samples // sound.hop + 1}
    source, target = ((token_port(name), *memory) for name in ("source", "target"))
    weights = float_port(ALIGNED, "batch", len(aligned), "target", config.frames)
    last = 1 + max(layer for layer, _ in aligned)
    return (
        Plan("hear", WhisperHear(model, frames), heard, memory, attending, spectra),
        # the last block need not attend
        Plan("encode", WhisperEncode(model), source, prompt, 2 * (decoder.layers - 1), bounds),
        decode_plan(DecodeStep(model), (*past, *memory), present, config.vocabulary, 2 * decoder.layers, bounds),
        Plan("align", WhisperAlign(model, CROSS, aligned), target, (weights,), 2 * last, bounds),
    )


def sound_embedder(
    name: str,
    model: Tera,
    config: TeraConfig,
    frames: LogMel,
    *,
    family: str,
    sound: SoundRule,
    made_by: dict[str, Any],
) -> Source:
    """Plan the graphs of an encoder that embeds sounds: the mean of its states of frames that hold sound."""
    kind = encoder_kind(config.layers, config.heads, FRAMES, prefix=0).model_copy(update={"pooled": "all"})
    sizes = {FRAMES: config.frames}
    answer = float_port(EMBEDDINGS, "batch", config.width)
    traced = TracedTera(model, (kind,), frames)
    base = base_plan(traced, (samples_port(sound),), (answer,), sizes, config.width)
    return Source(
        name=name,
        family=family,
        task="feature-extraction",
        inputs=(sound,),
        traced=traced,
        base=base,
        plans=derived_plans(traced, base, sizes),
        attention=(kind,),
        made_by=made_by,
        traced_at={"batch": 4},
        verified_at=({"batch": 1}, {"batch": 2}, {"batch": 3}),
    )
