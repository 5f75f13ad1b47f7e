"""TODO: what service/repository/generator.py is."""

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import numpy as np

from contract.artifact import MANIFEST, Artifact, ArtifactError
from service.errors import Unacceptable
from service.explanations.query import AttentionQuery, Target, select
from service.generation.decode_loop import DecodeLoop
from service.generation.kv_cache import SLOTS
from service.generation.token_selection import Beams, Constraints, Greedy, Hypothesis, Sampler, Search, Walk
from service.inputs.model_input import ModelInput, cost_of, specials
from service.inputs.texts import Texts
from service.options import GenerateOptions
from service.repository.served_model import ServedModel
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics


class Generator(ServedModel):
    """The tasks that generate: a text from another or from an image, or one that continues another."""

    endpoints = ("generate", "attention")
    roles = ("encode", "decode", "attention")

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        rule, generation = self.manifest.text, self.manifest.generation
        if not generation:
            raise ArtifactError(artifact.path(MANIFEST), f"a {self.manifest.task} model needs generation, given none")
        if not rule and (generation.start is None or not generation.tokenizer):
            reason = "what is generated from images needs a start token and a tokenizer of its own, given none"
            raise ArtifactError(artifact.path(MANIFEST), reason)
        if generation.num_beams > settings.max_beams:
            reason = f"asks for num_beams {generation.num_beams}, REGARD_MAX_BEAMS allows {settings.max_beams}"
            raise ArtifactError(artifact.path(MANIFEST), reason)
        self.generation = generation
        self.texts = Texts(artifact, rule.tokenizer, rule.max_tokens) if rule else None
        other = generation.tokenizer
        own = Texts(artifact, other, generation.max_new_tokens) if other else self.texts
        assert own  # noqa: S101 # one of them there is
        self.targets = own

    def longest(self) -> dict[str, int]:
        """Return the most tokens of a source, if it is a text, and of a target."""
        source = {"source": self.manifest.text.max_tokens} if self.manifest.text else {}
        target = self.generation.max_new_tokens
        return {**source, "capacity": -(-target // SLOTS) * SLOTS, "target": target, "target_input": target}

    @property
    def continues(self) -> bool:
        """Do targets continue their source, in one sequence with it."""
        return self.generation.start is None

    def loops(self, device: Device, metrics: Metrics) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Make the decode loop and the attention lane."""
        works = super().loops(device, metrics)
        self._decoding = DecodeLoop(
            self.sessions["encode"],
            self.sessions["decode"],
            self.generation,
            device,
            self.settings,
            self.predicting,
            metrics,
        )
        self._lanes.append(self._decoding)
        return [self._decoding.work, *works]

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
        limit, end = self.limit(options, len(source)), generation.end
        sampling = options.sampling(generation.sampling)
        beams = options.num_beams or (1 if sampling else generation.num_beams)
        if beams > self.settings.max_beams:
            raise Unacceptable(f"num_beams: at most {self.settings.max_beams}, given {beams}")
        prefix = source if generation.start is None else (generation.start,)
        constrain = Constraints(generation, prefix, limit)
        if beams == 1:
            choose = (
                Sampler(sampling.temperature, sampling.top_k, sampling.top_p or 1.0, options.seed)
                if sampling
                else Greedy()
            )
            return Walk(end, limit, choose, constrain)
        if options.samples:
            raise Unacceptable("num_beams: must be 1 when temperature, top_k or top_p are given")
        if options.stream:
            raise Unacceptable("stream: needs num_beams 1, since a beam search knows its first token last")
        return Beams(beams, end, limit, self.penalty(options), generation.early_stopping, constrain)

    def cost(self, source: int, limit: int, options: GenerateOptions) -> int:
        """Return what a source and a target of at most so many tokens cost."""
        return source + limit * (options.num_beams or self.generation.num_beams)

    def likely_cost(self, texts: Sequence[str], options: GenerateOptions) -> int:
        """Return what texts will cost, going by their characters and by the texts that came before."""
        assert self.texts  # noqa: S101 # the caller looked
        limit = options.max_new_tokens or 1 if self.continues else self.limit(options, 1)
        return sum(map(self.texts.likely, texts)) + len(texts) * self.cost(0, limit, options)

    def penalty(self, options: GenerateOptions) -> float:
        """Return the power of the length by which scores are divided."""
        return self.generation.length_penalty if options.length_penalty is None else options.length_penalty

    @contextlib.contextmanager
    def permit(self, sources: Sequence[tuple[int, GenerateOptions]], maps: int) -> Iterator[None]:
        """Hold what sources of such lengths may cost at most: tokens to generate, and bytes of maps to compute.

        Raises Busy before any work is spent if either queue is full.
        """
        tokens = sum(self.cost(length, self.limit(options, length), options) for length, options in sources)
        with contextlib.ExitStack() as held:
            for budget, cost in ((self.predicting, tokens), (self.looking, maps)):
                if cost:
                    held.enter_context(budget.permit(cost))
            yield

    def text_item(self, text: str) -> ModelInput:
        """Tokenize a text. Raises what `Texts.encode` does."""
        assert self.texts  # noqa: S101 # the caller looked
        tokens = self.texts.encode(text)
        inputs = {
            "source": np.array([token.index for token in tokens]),
            "source_visible": np.ones(len(tokens), np.bool_),
        }
        return ModelInput(inputs, {"source": len(tokens)}, tokens, {"source": specials(tokens)})

    async def generate(
        self, source: ModelInput, options: GenerateOptions, grew: Callable[[Hypothesis], None] | None = None
    ) -> Hypothesis:
        """Return the target of a source."""
        behind = source.inputs["source"].tolist() if self.continues else []
        return await self._decoding.generate(
            source.inputs,
            cost_of(source.lengths),
            lambda: self.search(options, behind),
            self.limit(options, len(behind)),
            grew,
        )

    def finished(self, source: ModelInput, target: Sequence[int], ask: AttentionQuery) -> ModelInput:
        """Return a finished target as an input of one teacher-forced pass; row i emits token i, having been fed i - 1.

        Its last token is fed too where rows are asked for at which a token is the input.
        """
        start = self.generation.start
        behind = target if ask.options.align == "input" else target[:-1]
        fed = np.array([*(source.inputs["source"] if start is None else [start]), *behind])
        ends = [index for index in (start, self.generation.end) if index is not None]
        special = np.isin(fed, ends)
        if start is None:
            special[: source.lengths["source"]] = source.special["source"]
        lengths = self.lengths(cost_of(source.lengths), len(behind) + 1)
        return ModelInput(
            {**source.inputs, "target": fed}, lengths, source.shown, {**source.special, "target": special}
        )

    def targets_of(self, source: ModelInput, target: Sequence[int], ask: AttentionQuery) -> list[Target]:
        """Return what is to be explained of a finished target. Raises Unacceptable for a token that is not there."""
        places = range(len(target)) if ask.targets is None else select("target", ask.targets, len(target))
        first = source.lengths["source"] - 1 if self.continues else 0
        return [Target(target[place], (first + place,), first + place, place) for place in places]

    def lengths(self, source: int, target: int) -> dict[str, int]:
        """Return the lengths of the axes, of a source of so many tokens or patches."""
        if self.continues:
            return {"target": source + target - 1, "target_input": source + target - 1}
        return {"image" if self.manifest.image else "source": source, "target": target, "target_input": target}
