"""Models that hear, and write what was said: window by window, with the times at which it was."""

import asyncio
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from contract.artifact import Artifact
from contract.generation import ALIGNED, Speech
from contract.input_rules import FILLED, SAMPLES
from contract.manifest import KindName
from contract.names import listed
from service.arrays import Array, padded
from service.batching.admission import Backlog
from service.batching.batcher import Lane
from service.batching.fair_queue import NOBODY, Caller
from service.errors import NOT_FINITE, Broken, Refusal, Unacceptable
from service.explanations.alignment import first_frames
from service.explanations.spoken_words import Word, words_of
from service.generation.listening import Listening
from service.generation.logits_processors import Constraints
from service.generation.sampling import Sampler
from service.generation.segments import compression_of, cut
from service.generation.token_selection import Beams, Greedy, Hypothesis, Search, Walk
from service.inputs.model_input import ModelInput, Sound
from service.inputs.sound_inputs import SoundInputs
from service.options.generation import GenerateOptions
from service.options.transcription import TranscribeOptions
from service.repository.models.generator import Columns, Generator
from service.repository.models.served_model import is_finite
from service.repository.models.transcript import Segment, Transcript
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracer

LOW_TEMPERATURE = 0.5
"""What is written at a higher one is not told to the model as what was heard before (openai-whisper)."""
DEFAULT_TASK = "transcribe"
NEVER = 1 << 62
"""More than any token."""


class AlignJob(NamedTuple):
    """A target whose heads are looked at."""

    target: Sequence[int]
    memory: Mapping[str, Array]


@dataclass(frozen=True)
class _Window:
    """What was written of one window."""

    prefix: list[int]
    found: Hypothesis
    temperature: float
    silent: float | None
    compression: float

    @property
    def log_probability(self) -> float:
        """The mean of its tokens, the end included."""
        return self.found.total / max(1, len(self.found.tokens))


class Transcriber(Generator):
    """A model of speech that writes: an encoder hears a window of sound, a decoder writes tokens."""

    tasks = ("automatic-speech-recognition",)
    endpoints = ("transcribe", "attention")
    roles = ("hear", "encode", "decode", "align", "attention")
    inputs: SoundInputs
    hearing_lane: Lane[ModelInput, Mapping[str, Array]]
    aligning_lane: Lane[AlignJob, Array]

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        self.speech: Speech = self.generation.speech or Speech()
        self._codes = {token: code for code, token in self.speech.languages.items()}

    def start(self, device: Device, backlog: Backlog, metrics: Metrics, tracer: Tracer) -> None:
        """Make the lanes that hear and align, beside those of attention and the decode loop."""
        super().start(device, backlog, metrics, tracer)
        name, limit, budget = self.manifest.name, self.settings.batch_tokens, self.prediction_budget
        hear, align = (self.sessions[role].cores for role in ("hear", "align"))
        at_once = self.batches.tokens_at_once("hear")
        self.hearing_lane = Lane(
            f"{name}/hear", device, self._run_hearing, limit, budget, metrics, hear, tracer, at_once
        )
        self.aligning_lane = Lane(f"{name}/align", device, self._run_aligning, limit, budget, metrics, align, tracer)
        self.lanes += [self.hearing_lane, self.aligning_lane]

    # What is asked

    def language_of(self, options: TranscribeOptions) -> int | None:
        """Return the token of the language that is asked for; None where it is to be found, or there is one only.

        Raises Unacceptable for a language or task that the model has not.
        """
        languages = self.speech.languages
        if options.task != DEFAULT_TASK and options.task not in self.speech.tasks:
            raise Unacceptable(f"task: this model only transcribes, given {options.task}")
        if options.timestamps == "segment" and self.speech.first_time is None:
            raise Unacceptable("timestamps: this model writes no times; ask for word")
        if options.language is None:
            return None
        if languages and options.language not in languages:
            raise Unacceptable(f"language: must be one of {listed(languages)}, given another")
        return languages.get(options.language)

    def prompt_of(self, options: TranscribeOptions) -> list[int]:
        """Return the tokens of a text that counts as heard before. Raises Unacceptable where none can be."""
        if not options.prompt:
            return []
        if self.speech.previous is None:
            raise Unacceptable("prompt: this model takes none")
        return self.target_tokenizer.tokens_of(f" {options.prompt.strip()}")

    def windows(self, samples: int) -> int:
        """Return how many windows of the model hold a number of samples."""
        return max(1, math.ceil(samples / self.inputs.rule.samples))

    # What is heard

    async def transcribe(
        self,
        sound: Sound,
        options: TranscribeOptions,
        caller: Caller = NOBODY,
        heard: Callable[[Segment], None] | None = None,
    ) -> Transcript:
        """Return what was said in a sound, window by window; `heard` is called with each segment.

        A sound that is longer than a window is written with times: each window begins at the last time of the one
        before (Radford et al. 2023, section 3.8; `generate` of the transformers library).
        """
        rule = self.inputs.rule
        language, written = self.language_of(options), self.prompt_of(options)
        several = len(sound.samples) > rule.samples
        if several and self.speech.first_time is None:
            raise Unacceptable(f"audio: at most {rule.seconds:g} seconds, given {sound.seconds:.1f}")
        timed = several or (options.timestamps == "segment" and self.speech.first_time is not None)
        total = len(sound.samples) // rule.hop * rule.hop
        seek, told, segments, target = 0, True, list[Segment](), list[int]()
        while seek < max(total, 1):
            item = self.inputs.sound_input(sound, seek)
            filled = int(item.arrays[FILLED]) * rule.hop
            if options.no_speech_threshold is not None and not item.arrays[SAMPLES].any():  # what is written is made up
                seek += filled
                continue
            memory = await self.hearing_lane.submit(item, rule.frames, 0, caller)
            found, silent = await self._listen(memory, caller)
            language = found if language is None else language
            prefix = self._prefix(language, options.task, timed=timed)
            before = self._before(written) if told else []
            one = await self._write(memory, before, prefix, options, silent, caller, timed=timed)
            target = [*prefix[1:], *one.found.tokens]
            moved = filled
            if not self._is_silence(one, options):
                fresh, moved = await self._segments(one, item, memory, seek, options, language, caller, timed=timed)
                told = one.temperature < LOW_TEMPERATURE and options.condition_on_previous_text
                for segment, tokens in fresh:
                    written += tokens
                    if segment.text.strip():
                        segments.append(segment)
                        if heard:
                            heard(segment)
            seek += moved or filled
        code = self._codes.get(language) if language is not None else None
        return Transcript(code, sound.seconds, tuple(segments), tuple(target))

    async def generate(
        self,
        source: ModelInput,
        options: GenerateOptions,
        grew: Callable[[Hypothesis], None] | None = None,
        caller: Caller = NOBODY,
    ) -> Hypothesis:
        """Return the target of a window, with what it begins with behind the start token."""
        memory = await self.hearing_lane.submit(source, self.inputs.rule.frames, 0, caller)
        language, _ = await self._listen(memory, caller) if self.speech.languages else (None, None)
        prefix = self._prefix(language, DEFAULT_TASK, timed=False)
        most = min(options.max_new_tokens or self.generation.max_new_tokens, self._room(prefix))
        found = await self._decode(
            memory, prefix, lambda: self._search(prefix, most, TranscribeOptions()), most, caller
        )
        return found._replace(tokens=(*prefix[1:], *found.tokens), logs=(*[0.0] * (len(prefix) - 1), *found.logs))

    def parts(self, source: ModelInput) -> dict[str, tuple[KindName, Columns]]:
        """Return which columns are frames, tokens written so far, and what a target begins with.

        The share of the frames says how much of a token was heard, and how much guessed by what was written before.
        """
        begun = len(self._prefix(next(iter(self.speech.languages.values()), None), DEFAULT_TASK, timed=False))
        return {**super().parts(source), "prefix": ("decoder", slice(begun, None)), "start": ("decoder", slice(begun))}

    # One window

    async def _listen(self, memory: Mapping[str, Array], caller: Caller) -> tuple[int | None, float | None]:
        """Return the token of the language that is spoken, and the probability that nobody speaks."""
        languages, start = self.speech.languages, self.generation.start
        if start is None or (not languages and self.speech.silence is None):
            return None, None
        search = Listening(list(languages.values()) or [start], self.speech.silence)
        found = await self._decode(memory, [start], lambda: search, 1, caller)
        return (found.tokens[0] if languages else None), search.silent

    async def _write(
        self,
        memory: Mapping[str, Array],
        before: Sequence[int],
        prefix: list[int],
        options: TranscribeOptions,
        silent: float | None,
        caller: Caller,
        *,
        timed: bool,
    ) -> _Window:
        """Return what is written of a window, at the first temperature at which it is likely and does not repeat."""
        whole = [*before, *prefix]
        most = self._room(whole)
        vocabulary = int(self.sessions["decode"].graph.outputs[0].axes[-1])
        for temperature in options.temperatures:
            found = await self._decode(
                memory,
                whole,
                functools.partial(self._search, whole, most, options, temperature, timed=timed),
                most,
                caller,
            )
            squeezed = compression_of(self.generation.without_end(found.tokens) or found.tokens, vocabulary)
            one = _Window(prefix, found, temperature, silent, squeezed)
            if self._is_silence(one, options) or not _is_unlikely(one, options):
                break
        return one

    def _search(
        self,
        prefix: Sequence[int],
        most: int,
        options: TranscribeOptions,
        temperature: float = 0.0,
        *,
        timed: bool = False,
    ) -> Search:
        """Return a fresh search for what follows a prefix."""
        speech = self.speech if timed else None
        rules = self.generation.model_copy(update={"speech": speech, "renormalized": timed})
        constrain = Constraints(rules, prefix, most)
        beams = 1 if temperature else options.num_beams or self.generation.num_beams
        if beams > self.settings.max_beams:
            raise Unacceptable(f"num_beams: at most {self.settings.max_beams}, given {beams}")
        if beams > 1:
            early = self.generation.early_stopping
            return Beams(beams, rules.ends, most, self.generation.length_penalty, early, constrain)
        choose = Greedy()
        if temperature:
            sampling = GenerateOptions(temperature=temperature).sampling(None)
            assert sampling  # noqa: S101 # as a temperature says
            return Walk(rules.ends, most, Sampler(sampling, options.seed), constrain)
        return Walk(rules.ends, most, choose, constrain)

    async def _decode(
        self,
        memory: Mapping[str, Array],
        prefix: Sequence[int],
        search: Callable[[], Search],
        most: int,
        caller: Caller,
    ) -> Hypothesis:
        source = {"source": np.array(prefix, np.int64), **memory}
        return await self.decode_loop.generate(source, len(prefix), search, most, None, caller)

    def _prefix(self, language: int | None, task: str, *, timed: bool) -> list[int]:
        """Return what a target begins with: its start, the language, the task, and whether times come."""
        assert self.generation.start is not None  # noqa: S101 # what is generated from sounds needs one
        said = [language, self.speech.tasks.get(task) if language is not None else None]  # type: ignore[call-overload]
        said.append(None if timed else self.speech.without_times)
        return [self.generation.start, *(token for token in said if token is not None)]

    def _before(self, written: Sequence[int]) -> list[int]:
        """Return the last of what was written before, as a target begins with it: less than half of its room."""
        most = self.generation.max_new_tokens // 2 - 1
        if not written or self.speech.previous is None:
            return []
        return [self.speech.previous, *written[-most:]]

    def _room(self, prefix: Sequence[int]) -> int:
        """Return how many tokens can follow a prefix."""
        return max(1, self.generation.max_new_tokens - len(prefix))

    @staticmethod
    def _is_silence(one: _Window, options: TranscribeOptions) -> bool:
        """Return whether nobody speaks, and what is written is unlikely."""
        most, least = options.no_speech_threshold, options.logprob_threshold
        if most is None or one.silent is None or one.silent <= most:
            return False
        return least is None or one.log_probability < least

    async def _segments(
        self,
        one: _Window,
        item: ModelInput,
        memory: Mapping[str, Array],
        seek: int,
        options: TranscribeOptions,
        language: int | None,
        caller: Caller,
        *,
        timed: bool,
    ) -> tuple[list[tuple[Segment, list[int]]], int]:
        """Return the segments of a window, each with its tokens, and the samples before the next window."""
        rule, tokens, whole = self.inputs.rule, list(self.generation.without_end(one.found.tokens)), item.arrays[FILLED]
        first_time = self.speech.first_time if self.speech.first_time is not None else NEVER
        steps = int(whole) * rule.hop * rule.frames // rule.samples
        parts, moved = cut(tokens, first_time if timed else NEVER, steps)
        times = await self._times(one, tokens, item, memory, caller) if options.timestamps == "word" and tokens else []
        offset, found = seek / rule.rate, []
        for part in parts:
            places = [place for place in range(len(tokens))[part.tokens] if tokens[place] < first_time]
            shown = self.target_tokenizer.generated([tokens[place] for place in places], self.generation.ends)
            words: list[Word] = []
            if times and places:
                begins = [offset + times[place] for place in (*places, places[-1] + 1)]
                chances = [math.exp(one.found.logs[place]) for place in places]
                behind = [len(one.prefix) - 1 + place for place in places]
                words = words_of(shown, begins, chances, self._codes.get(language or -1), behind)
            end = min(part.end * rule.step, item.sound.seconds if item.sound else 0.0)
            segment = Segment(
                offset + part.start * rule.step,
                offset + end,
                "".join(token.text for token in shown if token.span),
                tuple(tokens[place] for place in places),
                one.log_probability,
                one.silent,
                one.compression,
                one.temperature,
                tuple(words),
                offset,
            )
            found.append((segment, tokens[part.tokens]))
        return found, int(whole) * rule.hop if moved == steps else moved * rule.samples // rule.frames

    async def _times(
        self, one: _Window, tokens: Sequence[int], item: ModelInput, memory: Mapping[str, Array], caller: Caller
    ) -> list[float]:
        """Return the second at which each token begins, and that at which the last one ends.

        A row is of the token that it is fed with, and tells where the next is heard (openai-whisper). transformers 5
        takes it for that of the token itself, so that its times are those of the next token.
        """
        target = [*one.prefix, *tokens]
        weights = await self.aligning_lane.submit(AlignJob(target, memory), len(target), 0, caller)
        frames = max(1, int((~item.special[self.inputs.axis]).sum()))
        begins = await asyncio.to_thread(first_frames, weights[:, len(one.prefix) - 1 :, :frames])
        if begins[-1] <= begins[-2]:  # the end follows nothing: the last token lasts as long as the sound
            begins[-1] = frames
        return [frame * self.inputs.rule.step for frame in begins]

    # Batches

    def _run_hearing(self, items: Sequence[ModelInput]) -> list[Mapping[str, Array] | Refusal]:
        out = self.batches.run("hear", items)
        rows = [{name: np.asarray(values[row]) for name, values in out.items()} for row in range(len(items))]
        return [one if is_finite(one.values()) else Broken(NOT_FINITE) for one in rows]

    def _run_aligning(self, jobs: Sequence[AlignJob]) -> list[Array | Refusal]:
        feed = {"target": padded([np.array(job.target, np.int64) for job in jobs])}
        feed |= {name: np.stack([job.memory[name] for job in jobs]) for name in jobs[0].memory}
        names = {port.name for port in self.manifest.graphs["align"].inputs}
        weights = self.sessions["align"].run({name: array for name, array in feed.items() if name in names})[ALIGNED]
        return [np.asarray(row[:, : len(job.target)]) for row, job in zip(weights, jobs, strict=True)]


def _is_unlikely(one: _Window, options: TranscribeOptions) -> bool:
    """Return whether a window is written again at a higher temperature: it repeats itself, or is unlikely."""
    most, least = options.compression_ratio_threshold, options.logprob_threshold
    return (most is not None and one.compression > most) or (least is not None and one.log_probability < least)
