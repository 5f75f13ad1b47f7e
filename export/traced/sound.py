"""Models of sound: their maps, and the encode and decode steps of Whisper. Frames are made of samples in the graph."""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from contract.manifest import Kind
from export.traced.base import Observed, Traced, pairs, values_of
from export.traced.generation import answers_of
from model.architectures.speech_encoder import SpeechEncoder
from model.architectures.speech_transformer import SpeechTransformer
from model.architectures.tera import Tera
from model.architectures.vit import ViT
from model.architectures.whisper import Whisper
from model.parts.attention import KeyValue, Maps
from model.parts.cache import recording
from model.parts.sound import LogMel


class TracedSound(Traced):
    """An encoder of sound: samples (batch, sample), and what else `prepare` takes -> the answer of its head."""

    model: SpeechEncoder | ViT
    stacks = ("encoder",)

    def __init__(self, model: SpeechEncoder | ViT, kinds: Sequence[Kind], prepare: nn.Module) -> None:
        super().__init__(model, kinds)
        self.prepare = prepare

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values. Sound is prepared in single floats at least."""
        samples, *more = inputs
        dtype = next(self.model.parameters()).dtype
        wide = samples.to(torch.promote_types(samples.dtype, dtype))
        recorded: list[KeyValue] = []
        recalls = [recording(recorded)] * len(self.model.encoder.blocks)
        answer, maps = self.model(self.prepare(wide, *more).to(dtype), recalls)
        return Observed(answer, self.by_kind(maps), [values_of(recorded)])


def frames_of(frames: LogMel, model: nn.Module, samples: Tensor, filled: Tensor | None = None) -> Tensor:
    """Return the frames of samples in the precision of a model; they are made in single floats at least."""
    return frames(samples.to(frames.waves.dtype), filled).to(next(model.parameters()).dtype)


class TracedWhisper(Traced):
    """A Whisper: samples (batch, sample), target, and the tokens answered -> logits of the token after each."""

    model: Whisper
    stacks = ("encoder", "decoder")

    def __init__(self, model: Whisper, kinds: Sequence[Kind], frames: LogMel) -> None:
        super().__init__(model, kinds)
        self.frames = frames

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        samples, target, *answered = inputs
        fed: list[KeyValue] = []
        memory, maps, (own, *planes) = self.hear(frames_of(self.frames, self.model, samples))
        x, others = self.model.states(target, memory, None, [recording(fed)] * len(self.kinds[1].maps))
        logits = answers_of(self.model.head, x, answered)
        return Observed(logits, self.by_kind(maps | others), [own, values_of(fed), values_of(memory), *planes])

    def hear(self, sound: Tensor) -> tuple[list[KeyValue], Maps, list[list[Tensor]]]:
        """Run the encoder; return what the decoder remembers, maps, and values of the encoder and of what precedes."""
        own: list[KeyValue] = []
        memory, maps = self.model.hear(sound, [recording(own)] * len(self.kinds[0].maps))
        return memory, maps, [values_of(own)]


class TracedSpeechTransformer(TracedWhisper):
    """A Speech-Transformer, which attends along time and along frequency before its encoder does."""

    model: SpeechTransformer
    before = ("source.",)

    def hear(self, sound: Tensor) -> tuple[list[KeyValue], Maps, list[list[Tensor]]]:
        """Run the 2D-attentions and the encoder; return what the decoder remembers, maps and values."""
        own: list[KeyValue] = []
        planes: list[KeyValue] = []
        memory, maps = self.model.hear(sound, [recording(own)] * len(self.kinds[0].maps), recording(planes))
        values = values_of(planes)
        return memory, maps, [values_of(own), values[::2], values[1::2]]


class TracedTera(Traced):
    """A TERA: samples (batch, sample) -> the mean of the states of the frames that hold sound."""

    model: Tera
    stacks = ("encoder",)

    def __init__(self, model: Tera, kinds: Sequence[Kind], frames: LogMel) -> None:
        super().__init__(model, kinds)
        self.frames = frames

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        (samples,) = inputs
        recorded: list[KeyValue] = []
        sound = frames_of(self.frames, self.model, samples)
        answer, maps = self.model(sound, [recording(recorded)] * len(self.kinds[0].maps))
        return Observed(answer, self.by_kind(maps), [values_of(recorded)])


class WhisperHear(nn.Module):
    """Samples, and how many frames of the spectrum are kept -> crossed keys and values of every decoder block."""

    def __init__(self, model: Whisper, frames: LogMel) -> None:
        super().__init__()
        self.model = model
        self.frames = frames

    def forward(self, samples: Tensor, kept: Tensor) -> tuple[Tensor, ...]:
        """Return key, value, ... of each block."""
        remembered, _ = self.model.hear(frames_of(self.frames, self.model, samples, kept))
        return tuple(chain(*remembered))


class WhisperEncode(nn.Module):
    """The tokens that a target begins with, and what is heard -> own keys and values of every decoder block.

    A target begins with several tokens: its start, the language, the task, and what was heard before (Radford et al.
    2023, section 2.3).
    """

    def __init__(self, model: Whisper) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
        """Take source (batch, source); return key, value, ... of each block."""
        return tuple(chain(*self.model.prompt(source, pairs(memory))))


class WhisperAlign(nn.Module):
    """A target, and what is heard -> how some heads attend to frames, each a layer and a head of it."""

    def __init__(self, model: Whisper, path: str, heads: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.model, self.path, self.heads = model, path, heads

    def forward(self, target: Tensor, *memory: Tensor) -> tuple[Tensor]:
        """Return weights (batch, head, target, frame)."""
        _, maps = self.model.write(target, pairs(memory))
        return (torch.stack([maps[self.path.format(layer)][:, head] for layer, head in self.heads], dim=1),)
