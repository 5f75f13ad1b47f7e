"""Sounds as the inputs of a model: frames, of which those behind the sound are silence."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from contract.artifact import Artifact
from contract.input_rules import FILLED, SoundRule
from service.inputs.decoding import Decoded
from service.inputs.model_input import ModelInput, Sound


class SoundInputs:
    """The inputs of a model that takes sounds. Every sound has the same number of frames."""

    modality = "sound"
    plural = "sounds"
    axis = "frame"
    confined = True
    """True if inputs are decoded in confined processes."""
    padded = False
    """True if the inputs of a batch may be padded to one length."""
    tokenizer = None

    def __init__(self, artifact: Artifact, rule: SoundRule) -> None:
        self.rule = rule
        self.lengths: Mapping[str, int] = {self.axis: rule.frames}
        """Lengths of the axes that are the same for every input."""
        self.longest: Mapping[str, int] = {}
        """The largest number of tokens along each axis whose length varies."""

    def input_of(self, decoded: Decoded) -> ModelInput:
        """Return what was decoded as an input: the first window of it, and the whole sound."""
        assert isinstance(decoded, Sound)  # noqa: S101 # as the rule says
        return replace(self.sound_input(decoded), sound=decoded)

    def sound_input(self, sound: Sound, seek: int = 0) -> ModelInput:
        """Return the window of a sound that begins at a sample as an input, with silence behind it.

        Behind a sound that is longer than a window, frames have no spectrum at all (as in the transformers library).
        """
        rule = self.rule
        whole = np.pad(sound.samples, (0, max(0, rule.samples - len(sound.samples))))
        samples = np.zeros(rule.samples + 2 * rule.side, np.float32)
        around = np.pad(whole, rule.side, "reflect")[seek : seek + len(samples)]
        samples[: len(around)] = around
        heard = Sound(sound.samples[seek : seek + rule.samples], sound.rate)
        silence = np.arange(rule.frames) >= self.frames_of(len(heard.samples))
        kept = min(len(whole) - seek, rule.samples) // rule.hop
        arrays = {"samples": samples, FILLED: np.array(kept)}
        return ModelInput(arrays, dict(self.lengths), {self.axis: silence}, sound=heard)

    def frames_of(self, samples: int) -> int:
        """Return how many frames hold so many samples."""
        return min(math.ceil(samples * self.rule.frames / self.rule.samples), self.rule.frames)

    def samples(self, form: object) -> Iterator[tuple[str, Callable[[], ModelInput]]]:
        """Yield a sound on which a model is tried: no text, and what makes the input."""
        time = np.arange(min(self.rule.samples, self.rule.rate)) / self.rule.rate
        tone = (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
        yield "", functools.partial(self.sound_input, Sound(tone, self.rule.rate))

    def description(self) -> dict[str, object]:
        """Return the description of the inputs in `GET /v1/models/{model}`."""
        return {"rate": self.rule.rate, "seconds": self.rule.seconds, "step": self.rule.step}
