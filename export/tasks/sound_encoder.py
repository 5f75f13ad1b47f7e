"""The plans of encoders of sound: they classify or embed it, or classify its frames."""

from typing import Any

from torch import nn

from contract.input_rules import FILLED, FRAMES, SAMPLES, SoundRule
from contract.manifest import Kind, Port, Scores, Task
from export.plan import Source
from export.tasks.ports import MAX_VERIFIED_TOKENS, answer_port, base_plan, derived_plans, encoder_kind, index_port
from export.traced.sound import TracedSound
from model.architectures.spectrogram_transformer import SpectrogramConfig
from model.architectures.speech_encoder import SpeechEncoder, SpeechEncoderConfig
from model.architectures.vit import ViT

PATCHES = "patch"
"""The axis of a spectrogram's patches, behind the tokens that stand before them."""


def sound_encoder(
    name: str,
    model: SpeechEncoder | ViT,
    config: SpeechEncoderConfig | SpectrogramConfig,
    prepare: nn.Module,
    *,
    family: str,
    task: Task,
    sound: SoundRule,
    made_by: dict[str, Any],
    labels: tuple[str, ...] = (),
    scores: Scores = "softmax",
) -> Source:
    """Plan the graphs of an encoder of sounds that vary, or of their spectrograms, which `prepare` makes."""
    kind = _kind(config, task)
    ports = [Port(name=SAMPLES, dtype="float32", axes=("batch", SAMPLES if sound.varies else sound.samples))]
    if not sound.varies:
        ports.append(index_port(FILLED))
    answered = [FRAMES] if task == "automatic-speech-recognition" else []
    traced = TracedSound(model, (kind,), prepare)
    fixed = {kind.key: kind.length} if kind.grid else {}
    answer = answer_port(model, task, "batch", *answered)
    base = base_plan(traced, tuple(ports), (answer,), fixed, config.width, {FILLED: sound.fills(sound.samples) + 1})

    def sizes(batch: int, frames: int, more: int = 0) -> dict[str, int]:
        """Return the sizes of sounds of a number of frames, and `more` samples than these need."""
        samples = sound.least + (frames - 1) * sound.hop + more
        return {"batch": batch} | ({SAMPLES: samples} if sound.varies else {})

    long = min(sound.frames, MAX_VERIFIED_TOKENS)
    return Source(
        name=name,
        family=family,
        task=task,
        labels=labels,
        scores=scores,
        inputs=(sound,),
        traced=traced,
        base=base,
        plans=derived_plans(traced, base, fixed),
        attention=(kind,),
        made_by=made_by,
        traced_at=sizes(4, 7),
        verified_at=(sizes(1, 1), sizes(2, min(13, long), sound.hop - 1), sizes(3, long, 1)),
        verified_longest=sizes(1, sound.frames) if sound.varies else None,
    )


def _kind(config: SpeechEncoderConfig | SpectrogramConfig, task: Task) -> Kind:
    """Return the attention of an encoder of sound: of its frames, or of the patches of its spectrogram."""
    if isinstance(config, SpeechEncoderConfig):
        kind = encoder_kind(config.layers, config.heads, FRAMES, 0)
        return kind.model_copy(update={"pooled": "first" if task == "automatic-speech-recognition" else "all"})
    kind = encoder_kind(config.layers, config.heads, PATCHES, config.prefix, config.grid)
    return kind.model_copy(update={"methods": tuple(one for one in kind.methods if one != "parts")})
