"""Sounds as the inputs of a model: frames, of which those behind the sound are silence."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from contract.artifact import Artifact
from contract.input_rules import SoundRule
from contract.manifest import KEPT
from service.arrays import Array
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
        """Return what was decoded as an input."""
        assert isinstance(decoded, Sound)  # noqa: S101 # as the rule says
        return self.sound_input(decoded)

    def sound_input(self, sound: Sound) -> ModelInput:
        """Return a sound as an input, with silence behind it. What is longer than the model hears is left out."""
        rule = self.rule
        whole = np.zeros(rule.samples, np.float32)
        given = sound.samples[: rule.samples]
        whole[: len(given)] = given
        arrays = {"samples": np.pad(whole, rule.side, "reflect"), KEPT: np.array(rule.samples // rule.hop)}
        return self._input(arrays, len(given), sound)

    def window(self, sound: Sound, seek: int) -> ModelInput:
        """Return a window of a long sound as an input: what is behind the sound's last whole frame has no spectrum."""
        rule = self.rule
        given = sound.samples[seek : seek + rule.samples]
        samples = np.zeros(rule.samples + 2 * rule.side, np.float32)
        around = np.pad(sound.samples, rule.side, "reflect")[seek : seek + len(samples)]
        samples[: len(around)] = around
        arrays = {"samples": samples, KEPT: np.array(len(given) // rule.hop)}
        return self._input(arrays, len(given), Sound(given, sound.rate))

    def _input(self, arrays: dict[str, Array], given: int, sound: Sound) -> ModelInput:
        silence = np.arange(self.rule.frames) >= self.frames_of(given)
        return ModelInput(arrays, dict(self.lengths), {self.axis: silence}, sound=sound)

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
