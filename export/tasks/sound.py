"""The plans of models of sound: encoders that classify or embed it, or its frames, and Whisper."""

from collections.abc import Sequence
from typing import Any

from contract.generation import ALIGNED, Generation
from contract.input_rules import FILLED, FRAMES, SAMPLES, SoundRule
from contract.manifest import GRADIENT_METHODS, Port
from export.plan import Plan, Source, UpperBounds
from export.tasks.generation import TARGET_TOKENIZER, cache_ports, decode_plan, keys_and_values, with_states
from export.tasks.ports import (
    MAX_VERIFIED_TOKENS,
    attention_kind,
    base_plan,
    derived_plans,
    float_port,
    index_port,
    token_port,
)
from export.traced.sound import (
    TracedWhisper,
    WhisperAlign,
    WhisperDecode,
    WhisperEncode,
    WhisperHear,
)
from model.architectures.whisper import Whisper, WhisperConfig
from model.parts.sound import LogMel


def speech_to_text(
    name: str,
    model: Whisper,
    config: WhisperConfig,
    frames: LogMel,
    *,
    family: str,
    sound: SoundRule,
    tokenizer: str,
    rules: Generation,
    aligned: Sequence[tuple[int, int]],
    made_by: dict[str, Any],
) -> Source:
    """Plan the graphs of a Whisper: `hear`, `encode` and `decode` write, `align` times, the others show its attention.

    `aligned` are the heads, each a layer and a head of it, whose weights follow what is said.
    """
    encoder, decoder, width = config.encoder, config.decoder, config.width
    own, cross = "decoder.blocks.{}.attention", "decoder.blocks.{}.cross"
    kinds = (
        attention_kind("encoder", "encoder.blocks.{}.attention", encoder.layers, encoder.heads, FRAMES, FRAMES),
        attention_kind("decoder", own, decoder.layers, decoder.heads, "target", "target_input", *GRADIENT_METHODS),
        attention_kind("cross", cross, decoder.layers, decoder.heads, "target", FRAMES, *GRADIENT_METHODS),
    )
    sizes = {FRAMES: config.frames}
    bounds: UpperBounds = {**dict.fromkeys(("source", "target", "token"), config.vocabulary), "position": "capacity"}
    samples = Port(name=SAMPLES, dtype="float32", axes=("batch", sound.samples + 2 * sound.side))
    spectra: UpperBounds = {FILLED: sound.samples // sound.hop + 1}
    traced = TracedWhisper(model, kinds, frames)
    logits = float_port("logits", "batch", "target", config.vocabulary)
    base = base_plan(traced, (samples, token_port("target")), (logits,), sizes, width, bounds)
    states, crossed = (keys_and_values(path, decoder.layers) for path in (own, cross))
    head = width // decoder.heads
    memory = tuple(float_port(state, "batch", decoder.heads, config.frames, head) for state in crossed)
    prompt = tuple(float_port(f"past.{state}", "batch", decoder.heads, "source", head) for state in states)
    past, present = cache_ports(dict.fromkeys(states, head), decoder.heads)
    step = decode_plan(WhisperDecode(model), (*past, *memory), present, config.vocabulary, 2 * decoder.layers, bounds)
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
            Plan("hear", WhisperHear(model, frames), (samples, index_port(FILLED)), memory, encoder.layers, spectra),
            # the last block need not attend
            Plan(
                "encode",
                WhisperEncode(model),
                (token_port("source"), *memory),
                prompt,
                2 * (decoder.layers - 1),
                bounds,
            ),
            step,
            Plan(
                "align",
                WhisperAlign(model, cross, aligned),
                (token_port("target"), *memory),
                (float_port(ALIGNED, "batch", len(aligned), "target", config.frames),),
                2 * (1 + max(layer for layer, _ in aligned)),
                bounds,
            ),
        ),
        attention=kinds,
        generation=with_states(rules, states, memory=crossed).model_copy(update={"tokenizer": TARGET_TOKENIZER}),
        made_by=made_by,
        traced_at={"batch": 4, "source": 3, "target": 5, "capacity": 9},
        verified_at=(
            {"batch": 1, "source": 1, "target": 1, "capacity": 1},
            {"batch": 2, "source": 4, "target": min(7, longest), "capacity": 16},
            {"batch": 3, "source": min(long, 8), "target": long, "capacity": long},
        ),
        verified_longest={"batch": 1, "source": longest, "target": longest},
    )
