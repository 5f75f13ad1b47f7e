"""Sounds as the inputs of a model: frames, of which those behind the sound are silence, or patches of a spectrogram."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from contract.artifact import Artifact
from contract.input_rules import BANDS, FILLED, FRAMES, SAMPLES, SoundRule
from service.errors import TooLarge
from service.inputs.decoding import Decoded
from service.inputs.model_input import ModelInput, Sound


class SoundInputs:
    """The inputs of a model that takes sounds. Lengths are one for all sounds, unless its rule varies."""

    modality = "sound"
    plural = "sounds"
    confined = True
    """True if inputs are decoded in confined processes."""
    padded = False
    """True if the inputs of a batch may be padded to one length."""
    tokenizer = None

    def __init__(self, artifact: Artifact, rule: SoundRule) -> None:
        self.rule = rule
        kinds = artifact.manifest.attention
        patches = next((kind for kind in kinds if kind.grid), None)
        self.axis = patches.key if patches else FRAMES
        """That of a sound's tokens: frames, or patches of its spectrogram."""
        one_for_all = {FRAMES: rule.frames, BANDS: rule.bands} | ({patches.key: patches.length} if patches else {})
        self.lengths: Mapping[str, int] = {} if rule.varies else one_for_all
        """Lengths of the axes that are the same for every input."""
        self.longest: Mapping[str, int] = {SAMPLES: rule.samples, FRAMES: rule.frames} if rule.varies else {}
        """The largest number of tokens along each axis whose length varies."""
        self.shortest: Mapping[str, int] = {SAMPLES: rule.least} if rule.varies else {}
        """The smallest number along an axis, where that is not 1."""
        self._patches = patches
        self._in_windows = artifact.manifest.generation is not None

    def lengths_of(self, announced: int) -> Mapping[str, int]:
        """Return the lengths of a sound that announces some samples, as far as they are heard."""
        if not self.rule.varies:
            return self.lengths
        samples = min(max(announced, self.rule.least), self.rule.samples)
        return {SAMPLES: samples, FRAMES: self.rule.fills(samples)}

    def input_of(self, decoded: Decoded) -> ModelInput:
        """Return what was decoded as an input: the first window of it, and the whole sound.

        Raises TooLarge for a sound that is longer than the model hears, where it does not hear in windows.
        """
        assert isinstance(decoded, Sound)  # noqa: S101 # as the rule says
        if not self._in_windows and len(decoded.samples) > self.rule.samples:
            raise TooLarge(f"audio: at most {self.rule.seconds:g} seconds, given {decoded.seconds:.1f}; cut it")
        item = self.sound_input(decoded)
        return replace(item, sound=replace(decoded, step=self.rule.step, frames=item.sound.frames if item.sound else 0))

    def sound_input(self, sound: Sound, seek: int = 0) -> ModelInput:
        """Return the window of a sound that begins at a sample as an input, with silence behind it.

        Behind a sound that is longer than a window, frames have no spectrum at all (as in the transformers library).
        """
        rule = self.rule
        samples = sound.samples[seek : seek + rule.samples]
        heard = Sound(samples, sound.rate, rule.step, self.frames_of(len(samples)))
        if rule.varies:
            samples = np.pad(heard.samples, (0, max(0, rule.least - len(heard.samples))))
            lengths = dict(self.lengths_of(len(samples)))
            return ModelInput({SAMPLES: samples}, lengths, {FRAMES: np.zeros(lengths[FRAMES], np.bool_)}, sound=heard)
        whole = np.pad(sound.samples, (0, max(0, rule.samples - len(sound.samples))))
        samples = np.zeros(rule.samples + 2 * rule.side, np.float32)
        around = np.pad(whole, rule.side, "reflect")[seek : seek + len(samples)]
        samples[: len(around)] = around
        if self._patches:
            before = np.ones(self._patches.length, np.bool_)
            before[self._patches.patches] = False
            arrays = {SAMPLES: samples, FILLED: np.array(max(0, rule.fills(len(heard.samples))))}
            return ModelInput(arrays, dict(self.lengths), {self.axis: before}, sound=heard)
        arrays = {SAMPLES: samples, FILLED: np.array(min(len(whole) - seek, rule.samples) // rule.hop)}
        silence = np.arange(rule.frames) >= heard.frames
        special = {FRAMES: silence, BANDS: np.zeros(rule.bands, np.bool_)}
        return ModelInput(arrays, dict(self.lengths), special, sound=heard)

    def frames_of(self, samples: int) -> int:
        """Return how many frames hold a number of samples."""
        if self.rule.varies:
            return self.rule.fills(max(samples, self.rule.least))
        return min(math.ceil(samples / self.rule.rate / self.rule.step), self.rule.frames)

    def samples(self, form: object) -> Iterator[tuple[str, Callable[[], ModelInput]]]:
        """Yield a sound on which a model is tried: no text, and what makes the input."""
        time = np.arange(max(self.rule.least, min(self.rule.samples, self.rule.rate))) / self.rule.rate
        tone = (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
        yield "", functools.partial(self.sound_input, Sound(tone, self.rule.rate))

    def description(self) -> dict[str, object]:
        """Return the description of the inputs in `GET /v1/models/{model}`."""
        return {"rate": self.rule.rate, "seconds": self.rule.seconds, "step": self.rule.step}
