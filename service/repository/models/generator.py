"""Models that generate text, token by token: from a text or an image, or in continuation of a text."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from contract.artifact import MANIFEST, Artifact, ArtifactError
from contract.chat import SYSTEM
from contract.generation import Generation
from contract.manifest import ANSWERED, KindName, Role, Task
from contract.names import listed
from service.batching.admission import Backlog, Budget
from service.batching.fair_queue import NOBODY, Caller
from service.errors import Unacceptable
from service.explanations.query import AttentionQuery
from service.explanations.selection import Target, select
from service.generation.decode_loop import DecodeLoop
from service.generation.kv_cache import SLOTS
from service.generation.logits_processors import Constraints
from service.generation.sampling import Sampler
from service.generation.stopping import Stops
from service.generation.token_selection import Beams, Greedy, Hypothesis, Search, Walk
from service.inputs.model_input import LanguageTokens, ModelInput, cost_of
from service.inputs.tokenization import TextTokenizer
from service.options.generation import SAMPLING, GenerateOptions
from service.repository.models.served_model import ServedModel
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracer

Columns: TypeAlias = slice | list[int]
"""Some columns of a map."""


class Generator(ServedModel):
    """A model of a task that generates: a text from another or from an image, or one that continues another."""

    tasks: ClassVar[tuple[Task, ...]] = ("text-generation", "text2text-generation", "image-to-text")
    endpoints: tuple[str, ...] = ("generate", "attention")
    roles: ClassVar[tuple[Role, ...]] = ("encode", "decode", "attention")
    decode_loop: DecodeLoop

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        generation = self.manifest.generation
        if not generation:
            raise ArtifactError(artifact.path(MANIFEST), f"a {self.manifest.task} model needs generation, given none")
        if not self.inputs.tokenizer and (generation.start is None or not generation.tokenizer):
            reason = "what is generated from images needs a start token and a tokenizer of its own, given none"
            raise ArtifactError(artifact.path(MANIFEST), reason)
        if generation.num_beams > settings.max_beams:
            reason = f"asks for num_beams {generation.num_beams}, REGARD_MAX_BEAMS allows {settings.max_beams}"
            raise ArtifactError(artifact.path(MANIFEST), reason)
        self.generation = generation
        self.example_text = "Once upon a time" if self.continues else "the twenty-third of March 2021"
        at_once = settings.batch_rows * self.limit(GenerateOptions(), 1)
        self.prediction_budget = Budget(
            "queue of predictions",
            settings.queue_tokens,
            at_once=at_once,
        )
        if generation.tokenizer:
            self.target_tokenizer = TextTokenizer(artifact, generation.tokenizer, generation.max_new_tokens)
        elif self.inputs.tokenizer:
            self.target_tokenizer = self.inputs.tokenizer

    def longest(self) -> dict[str, int]:
        """Return the most tokens of a source, if it is a text, and of a target."""
        target = self.generation.max_new_tokens
        capacity = -(-target // SLOTS) * SLOTS
        return {**self.inputs.longest, "capacity": capacity, "target": target, "target_input": target}

    @property
    def continues(self) -> bool:
        """True if targets continue their source, in one sequence with it."""
        return self.generation.start is None

    def can_generate(self, target: Sequence[int]) -> bool:
        """True if a target of these tokens can come from this model."""
        vocabulary = int(self.sessions["decode"].graph.outputs[0].axes[-1])
        return 0 < len(target) <= self.generation.max_new_tokens and all(0 <= token < vocabulary for token in target)

    def start(self, device: Device, backlog: Backlog, metrics: Metrics, tracer: Tracer) -> None:
        """Make the lanes of attention and gradient methods, and the decode loop."""
        super().start(device, backlog, metrics, tracer)
        self.decode_loop = DecodeLoop(
            self.sessions["encode"], self.sessions["decode"], self.generation, device, self.settings,
            self.prediction_budget, metrics, tracer,
        )  # fmt: skip
        self.lanes.append(self.decode_loop)

    def limit(self, options: GenerateOptions, source: int, spare: int = 0) -> int:
        """Return how many tokens may be generated from a source of that length, with room to spare for some more.

        Raises Unacceptable for more than the model has room for.
        """
        generation, given = self.generation, options.max_new_tokens
        most = generation.max_new_tokens - (source if self.continues else 0) - spare
        if most < 1:
            raise Unacceptable(
                f"input: at most {generation.max_new_tokens - 1} tokens can be continued, given {source}"
            )
        if given is not None and given > most:
            behind = f" behind an input of {source} tokens" if self.continues and source else ""
            raise Unacceptable(f"max_new_tokens: at most {most}{behind}, given {given}")
        default = generation.default_new_tokens
        if default is None and generation.default_length is not None:
            default = max(1, generation.default_length - (source if self.continues else 1))
        return given or min(default or most, most)

    def search(self, options: GenerateOptions, source: Sequence[int] = ()) -> Search:
        """Return a fresh search. Raises Unacceptable for options that exclude each other."""
        generation = self.generation
        limit, ends = self.limit(options, len(source)), generation.ends
        sampling = options.sampling(generation.sampling)
        beams = options.beams(generation)
        if beams > self.settings.max_beams:
            raise Unacceptable(f"num_beams: at most {self.settings.max_beams}, given {beams}")
        texts = options.texts(generation)
        if texts > 1 and options.stream:
            raise Unacceptable(f"stream: needs num_return_sequences 1, given {texts}")
        if texts > beams and (beams > 1 or not sampling):
            raise Unacceptable(
                f"num_return_sequences: at most num_beams, {beams}, where tokens are not drawn; given {texts}"
            )
        rules = self._rules(options)
        prefix = source if rules.start is None else (rules.start,)
        constrain = Constraints(rules, prefix, limit, source)
        if beams == 1:
            choose = Sampler(sampling, options.seed) if sampling else Greedy()
            return Walk(ends, limit, choose, constrain, options.alternatives, stops_of(self, options).reached)
        if options.samples:
            raise Unacceptable(f"num_beams: must be 1 when {SAMPLING} are given")
        if options.stream:
            raise Unacceptable("stream: needs num_beams 1, since a beam search knows its first token last")
        penalty = self.penalty(options)
        early = generation.early_stopping
        stopped = stops_of(self, options).reached
        return Beams(beams, ends, limit, penalty, early, constrain, options.alternatives, texts, stopped)

    def cost(self, source: int, limit: int, options: GenerateOptions) -> int:
        """Return what a source and a target cost, by the most tokens of each."""
        return source + limit * max(options.beams(self.generation), options.texts(self.generation))

    def likely_cost(self, lengths: Sequence[Mapping[str, int]], options: GenerateOptions) -> int:
        """Return the probable cost of inputs that probably have such lengths."""
        limit = options.max_new_tokens or 1 if self.continues else self.limit(options, 1)
        return sum(self.cost(cost_of(one), limit, options) for one in lengths)

    def penalty(self, options: GenerateOptions) -> float:
        """Return the power of the length by which scores are divided."""
        return self.generation.length_penalty if options.length_penalty is None else options.length_penalty

    async def generate(
        self,
        source: ModelInput,
        options: GenerateOptions,
        grew: Callable[[Hypothesis], None] | None = None,
        caller: Caller = NOBODY,
    ) -> Hypothesis:
        """Return the target of a source; `grew` is called after every step with what there is of it."""
        behind = source.arrays["source"].tolist() if source.tokens else []
        limit, stops = self.limit(options, len(behind)), stops_of(self, options)
        found = await self.decode_loop.generate(
            source.arrays,
            cost_of(source.lengths),
            lambda: self.search(options, behind),
            limit,
            grew,
            caller,
            self.start_token(source),
        )
        found = found._replace(others=tuple(_judged(one, self.generation, limit, stops) for one in found.others))
        return _judged(found, self.generation, limit, stops)

    def start_token(self, source: ModelInput) -> int | None:
        """Return the first token of the target of a source; None if targets continue their source."""
        return self.generation.start if source.start is None else source.start

    def language_tokens(self, options: GenerateOptions) -> LanguageTokens:
        """Return the tokens of the languages that a request asks for. Raises Unacceptable for unknown ones."""
        languages = self.generation.languages
        asked = {"source_language": options.source_language, "target_language": options.target_language}
        if languages is None:
            if given := [name for name, code in asked.items() if code is not None]:
                raise Unacceptable(f"{given[0]}: is for models that translate among several languages")
            return LanguageTokens()
        for name, code in asked.items():
            if code is not None and code not in languages.tokens:
                raise Unacceptable(f"{name}: must be one of {listed(languages.tokens)}, given another")
        if options.source_language and not languages.source:
            raise Unacceptable("source_language: this model is not told the language of a text")
        source = None
        if options.source_language and languages.source:
            source = languages.tokens[languages.source], languages.tokens[options.source_language]
        return LanguageTokens(source, self._rules(options).start)

    def _rules(self, options: GenerateOptions) -> Generation:
        """Return the rules of generation, with what a request asks for: a language, penalties, words to avoid."""
        generation, changed = self.generation, dict[str, object]()
        languages, code = generation.languages, options.target_language
        if languages and code is not None:
            changed["start" if languages.begins == "start" else "forced_first"] = languages.tokens[code]
        if options.repetition_penalty is not None:
            changed["repetition_penalty"] = options.repetition_penalty
        if options.no_repeat_ngram_size is not None:
            changed["no_repeat_ngram"] = options.no_repeat_ngram_size
        if options.bad_words:
            ends = {(end,) for end in generation.ends}  # an end token alone is no bad word, as in the reference
            avoided = (tokens for tokens in options.bad_words if not isinstance(tokens, str) and tokens not in ends)
            changed["bad_words"] = (*generation.bad_words, *avoided)
        return generation.model_copy(update=changed) if changed else generation

    def finished(self, source: ModelInput, target: Sequence[int], query: AttentionQuery) -> ModelInput:
        """Return a finished target as the input of one teacher-forced pass: row i emits token i, fed token i - 1.

        Its last token is fed too if the request reads rows at which a token is the input. Logits are asked for of the
        last row alone.
        """
        start = self.start_token(source)
        behind = target if query.options.align == "input" else target[:-1]
        fed = np.array([*(source.arrays["source"] if start is None else [start]), *behind])
        ends = (start, *self.generation.ends)
        special = np.array([token in ends or self.target_tokenizer.is_special(token) for token in fed.tolist()])
        if start is None:
            special[: source.lengths["source"]] = source.special["source"]
        lengths = self.lengths(cost_of(source.lengths), len(behind) + 1)
        return ModelInput(
            {**source.arrays, "target": fed, ANSWERED: np.array([len(fed) - 1])},
            lengths,
            {**source.special, "target": special},
            source.tokens,
            source.picture,
            start=source.start,
        )

    def targets_of(self, source: ModelInput, target: Sequence[int], query: AttentionQuery) -> list[Target]:
        """Return which tokens of a finished target are explained. Raises Unacceptable for one that is not there."""
        positions = range(len(target)) if query.targets is None else select("target", query.targets, len(target))
        first = source.lengths["source"] - 1 if self.continues else 0
        return [Target(target[index], (first + index,), first + index, index) for index in positions]

    def token_of(self, text: str) -> int | None:
        """Return the token of targets that a text is, or None."""
        return self.target_tokenizer.single(text)

    def against_entry(self, query: AttentionQuery) -> dict[str, object]:
        """Return what an answer says of the token that targets are explained against; nothing without one."""
        token = query.against
        return {} if token is None else {"against": {"token": token, "text": self.target_tokenizer.text_of(token)}}

    def parts(self, source: ModelInput) -> dict[str, tuple[KindName, Columns]]:
        """Return which columns of which kind are the source, the tokens generated so far, and the start token.

        Where targets continue their source, what the tokenizer and the prompt put before it counts as the start. Of a
        chat the source is its instructions, the system's, and its context, all other messages; what the model's form
        puts around messages is its template.
        """
        if not self.continues:
            return {
                "source": ("cross", slice(None)),
                "prefix": ("decoder", slice(1, None)),
                "start": ("decoder", slice(1)),
            }
        length = source.lengths["source"]
        roles = [token.role for token in source.tokens]
        if any(roles):
            own: dict[str, Columns] = {
                "instructions": [at for at, role in enumerate(roles) if role == SYSTEM],
                "context": [at for at, role in enumerate(roles) if role not in (SYSTEM, None)],
                "prefix": slice(length, None),
                "template": [at for at, role in enumerate(roles) if role is None],
            }
            return {name: ("decoder", columns) for name, columns in own.items() if columns}
        started = [*source.special["source"].tolist(), False].index(False)
        parts: dict[str, tuple[KindName, Columns]] = {
            "source": ("decoder", slice(started, length)),
            "prefix": ("decoder", slice(length, None)),
        }
        return parts | {"start": ("decoder", slice(started))} if started else parts

    def lengths(self, source: int, target: int) -> dict[str, int]:
        """Return the lengths of the axes, for a source of tokens or patches and a target."""
        if self.continues:
            return {"target": source + target - 1, "target_input": source + target - 1}
        return {**self.inputs.lengths, self.inputs.axis: source, "target": target, "target_input": target}


def stops_of(served: Generator, options: GenerateOptions) -> Stops:
    """Return the words that end a text."""
    return Stops(options.stop, served.target_tokenizer.decode) if options.stop else Stops()


def _judged(found: Hypothesis, generation: Generation, limit: int, stops: Stops) -> Hypothesis:
    """Return a target that knows whether it was cut, and where a word stopped it."""
    until = stops.place(stops.decode(generation.without_end(found.tokens))) if stops.words else None
    forced = generation.forced_last is not None and len(found.tokens) == limit
    return found._replace(cut=until is None and (forced or found.tokens[-1] not in generation.ends), until=until)


def with_tokens(served: Generator, options: GenerateOptions) -> GenerateOptions:
    """Return options whose words are tokens, which takes a while. Raises Unacceptable for tokens it has not."""
    vocabulary = int(served.sessions["decode"].graph.outputs[0].axes[-1])
    avoided = _tokens_of(options.bad_words or (), served.target_tokenizer, vocabulary)
    return options.model_copy(update={"bad_words": tuple(sorted(avoided)) or None})


def _tokens_of(
    words: Sequence[str | tuple[int, ...]], tokenizer: TextTokenizer, vocabulary: int
) -> set[tuple[int, ...]]:
    """Return the tokens of words, alone and behind a space. Raises Unacceptable for tokens outside the vocabulary."""
    found: set[tuple[int, ...]] = set()
    for word in words:
        found |= tokenizer.spellings(word) if isinstance(word, str) else {word}
    if outside := [token for tokens in found for token in tokens if token >= vocabulary]:
        raise Unacceptable(f"bad_words: tokens must be from 0 to {vocabulary - 1}, given {max(outside)}")
    return found
