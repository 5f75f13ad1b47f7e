"""A loaded artifact at work: its sessions, its lanes, and what its task answers."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import structlog

from contract.artifact import MANIFEST, Artifact, ArtifactError
from contract.manifest import Manifest, Port, Role
from service.explanations.query import Ask, Explained, Map, Reading, patches, select
from service.batching.batcher import Budget, Device, Lane, bucket_of, together
from service.runtime.io_binding import Array, padded
from service.errors import NOT_FINITE, Broken, Refusal, Unacceptable
from service.generation.decode_loop import Decoding
from service.inputs.image_preprocessing import Picture
from service.telemetry.metrics import Metrics
from service.options import GenerateOptions
from service.generation.kv_cache import SLOTS
from service.runtime.session import open_sessions
from service.generation.token_selection import Beams, Constraints, Greedy, Hypothesis, Sampler, Search, Walk
from service.settings import Settings
from service.inputs.texts import Pair, Text, Texts, Token

Prediction: TypeAlias = npt.NDArray[np.float32]
"""What a head says of one input: logits (classes), an embedding (width), or logits (masks, vocabulary)."""
Seen: TypeAlias = tuple[Prediction, dict[str, Array]]
"""The prediction of one input, and what was computed of its attention."""

MOST_FAILURES = 3
"""Of runs in a row, before a model is warmed up again to see whether it can run at all."""
MOST_MASKS = 64
"""Gaps of one text."""
MASK_TOKENS = 64
"""A gap costs as much as so many tokens."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Item:
    """One input, decoded: its arrays by port, the lengths of its axes, and what a person would call it."""

    inputs: dict[str, Array]
    lengths: dict[str, int]
    shown: Picture | Sequence[Token]
    special: dict[str, Array]
    """For each axis, which of its tokens are special, or stand before the first patch."""


@dataclass(frozen=True)
class Look:
    """An item of an attention lane, and what its graph is asked for."""

    item: Item
    reading: Reading


@dataclass(frozen=True)
class Explain:
    """An item of a relevance lane, what is explained, and through which layers."""

    item: Item
    explained: Explained
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Looked:
    """What was seen of one input."""

    prediction: Prediction
    maps: list[Map]
    diagnostics: list[dict[str, object]] | None = None


class Served:
    """What every task has: an artifact, its sessions, and an attention lane of its own with its own budget."""

    endpoints: tuple[str, ...]
    roles: ClassVar[tuple[Role, ...]]

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        self.artifact = artifact
        self.settings = settings
        missing = [role for role in self.roles if role not in artifact.manifest.graphs]
        if missing or not artifact.manifest.attention:
            what = f"graphs for {', '.join(missing)}" if missing else "kinds of attention"
            raise ArtifactError(artifact.path(MANIFEST), f"this task needs {what}, given none")
        returned = {port.name for port in artifact.manifest.graphs["attention"].outputs}
        for kind in artifact.manifest.attention:
            if not {kind.kind, f"{kind.kind}.diagnostics"} <= returned:
                raise ArtifactError(artifact.path(MANIFEST), f"the attention graph must return maps of {kind.kind}")
            if "relevance" in kind.methods and "relevance" not in artifact.manifest.graphs:
                raise ArtifactError(artifact.path(MANIFEST), f"relevance of {kind.kind} needs a graph, given none")
        explains: tuple[Role, ...] = ("relevance",) if "relevance" in artifact.manifest.graphs else ()
        self.sessions = open_sessions(artifact, (*self.roles, *explains), device, settings)
        self.ready = False
        self.unused = asyncio.Event()
        """Set while no request is being answered."""
        self.unused.set()
        self._users = 0
        self._lanes: list[Lane[Any, Any] | Decoding] = []
        self._device = device
        self.predicting = Budget("queue of predictions", settings.queue_tokens)
        self.looking = Budget("queue of attention", settings.queue_map_bytes)

    @property
    def manifest(self) -> Manifest:
        """What the artifact says of itself."""
        return self.artifact.manifest

    @property
    def provider(self) -> str:
        """Which execution provider runs it."""
        return next(iter(self.sessions.values())).provider

    @property
    def budgets(self) -> dict[str, Budget]:
        """The bounds of its queues by name."""
        name = self.manifest.name
        return {f"{name}/predictions": self.predicting, f"{name}/attention": self.looking}

    @property
    def failing(self) -> bool:
        """Have the last few runs of any lane all failed."""
        return any(lane.failures >= MOST_FAILURES for lane in self._lanes)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Count a request that is being answered."""
        self._users += 1
        self.unused.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self.unused.set()

    def loops(self, device: Device, metrics: Metrics) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Make the lanes; return the coroutine functions that serve them."""
        limit, name = self.settings.batch_map_bytes, self.manifest.name
        stop = self.sessions["attention"].stop
        self._look: Lane[Look, Seen] = Lane(
            f"{name}/attention", device, self._look_at, limit, self.looking, metrics, stop
        )
        self._lanes = [self._look]
        if "relevance" in self.sessions:
            stop = self.sessions["relevance"].stop
            self._explain: Lane[Explain, Seen] = Lane(
                f"{name}/relevance", device, self._explain_all, limit, self.looking, metrics, stop
            )
            self._lanes.append(self._explain)
        return [lane.work for lane in self._lanes]

    async def warm_up(self, device: Device) -> None:
        """Run every session on every shape that is like no other. Raises SessionError for one that cannot run."""
        for session in self.sessions.values():
            for lengths in self._shapes():
                async with device.turn() as run:
                    await run(session.warm_up, lengths)
        for lane in self._lanes:
            lane.failures = 0
        self.ready = True

    def _shapes(self) -> list[dict[str, int]]:
        """Return lengths of the axes that vary: the buckets, or on a CPU, which treats all alike, the least and most.

        Attention that is too large to be batched is left out.
        """
        most = self.longest()
        top = bucket_of(max(most.values(), default=1))
        buckets = [1 << power for power in range(top.bit_length())] if self._device != "cpu" else [1, top]
        shapes = [{axis: min(bucket, limit) for axis, limit in most.items()} for bucket in buckets]
        return [one for one in shapes if max(one.values(), default=1) == 1 or self._fits(one)]

    def _fits(self, lengths: Mapping[str, int]) -> bool:
        axes = {kind.query: 1 for kind in self.manifest.attention} | {kind.key: 1 for kind in self.manifest.attention}
        fixed = self.image_lengths if self.manifest.image else {}
        return self.map_bytes({**axes, **fixed, **lengths}) <= self.settings.batch_map_bytes

    def longest(self) -> dict[str, int]:
        """Return the most tokens along each axis of an input that varies."""
        return {}

    @property
    def image_lengths(self) -> dict[str, int]:
        """Return the length of an image's axis, which is the same for all."""
        kind = patches(self.manifest.attention)
        rows, columns = kind.grid or (0, 0)
        return {"image": kind.prefix + rows * columns}

    def image_item(self, pixels: Array, picture: Picture) -> Item:
        """Return pixels as an input."""
        special = np.arange(self.image_lengths["image"]) < patches(self.manifest.attention).prefix
        return Item({"pixels": pixels}, self.image_lengths, picture, {"image": special})

    def map_bytes(self, lengths: Mapping[str, int]) -> int:
        """Return the bytes of all maps that the attention graph computes for one input."""
        return sum(
            4 * len(kind.maps) * kind.heads * lengths[kind.query] * lengths[kind.key]
            for kind in self.manifest.attention
        )

    async def look(self, item: Item, ask: Ask) -> Looked:
        """Return the prediction of one input, and what was read off its attention.

        Raises Unacceptable for rows that it does not have.
        """
        reading = ask.reading(item.lengths)
        size, longest = self.map_bytes(item.lengths), max(item.lengths.values())
        # of a text, the smallest weights are counted without padding: it runs alone
        alone = object() if ask.options.discard and self.manifest.text else None
        prediction, stacks = await self._look.submit(Look(item, reading), size, (bucket_of(longest), reading, alone))
        maps = [] if ask.method == "relevance" else ask.read(reading, item.lengths, stacks)
        return Looked(prediction, maps, ask.diagnostics(stacks) if ask.options.diagnostics else None)

    async def explain(
        self, item: Item, ask: Ask, explained: Sequence[Explained]
    ) -> tuple[Prediction, dict[str, list[Array]]]:
        """Return the prediction of one input, and for each kind the relevance (rows, keys) of every target."""
        layers = ask.wanted[0].layers
        size, longest = self.map_bytes(item.lengths), max(item.lengths.values())
        found = await together(
            self._explain.submit(Explain(item, one, layers), size, (bucket_of(longest), len(one.rows), layers))
            for one in explained
        )
        kinds = [one.kind.kind for one in ask.wanted]
        return found[0][0], {kind: [maps[kind] for _, maps in found] for kind in kinds}

    def _look_at(self, looks: Sequence[Look]) -> list[Seen | Refusal]:
        items, reading = [look.item for look in looks], looks[0].reading
        special = {name: padded([item.special[name] for item in items]) for name in items[0].special}
        longest = {name: max(item.lengths[name] for item in items) for name in items[0].lengths}
        out = self._run("attention", items, reading.feed(longest, special))
        return [checked(self._read(item, row, reading, out)) for row, item in enumerate(items)]

    def _read(self, item: Item, row: int, reading: Reading, out: Mapping[str, Array]) -> Seen:
        """Return one input's prediction, and its maps without the padding that its neighbours brought."""
        answer = self.manifest.graphs["attention"].outputs[0]
        stacks = {}
        for part in reading.parts:
            name, queries, keys = part.kind.kind, item.lengths[part.kind.query], item.lengths[part.kind.fed]
            rows = queries if part.rows is None else None
            stacks[str(name)] = out[name][row, :, :, :rows, :keys]
            if reading.diagnose:
                stacks[f"{name}.diagnostics"] = out[f"{name}.diagnostics"][row, :, :, :queries]
        return crop(out[answer.name][row], answer, item.lengths), stacks

    def _explain_all(self, asked: Sequence[Explain]) -> list[Seen | Refusal]:
        items = [one.item for one in asked]
        controls: dict[str, Array] = {
            "explained": np.array([one.explained.token for one in asked]),
            "position": np.array([one.explained.position for one in asked]),
            "rows": np.array([one.explained.rows for one in asked]),
            **{f"{kind.kind}.layers": np.array(asked[0].layers) for kind in self.manifest.attention},
        }
        out = self._run("relevance", items, controls)
        answer, *maps = self.manifest.graphs["relevance"].outputs
        return [
            checked(
                (
                    crop(out[answer.name][row], answer, item.lengths),
                    {port.name: crop(out[port.name][row], port, item.lengths) for port in maps},
                )
            )
            for row, item in enumerate(items)
        ]

    def _run(self, role: Role, items: Sequence[Item], controls: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Run a graph on inputs padded to one length, and the controls of it that there are."""
        controls = controls or {}
        names = [port.name for port in self.manifest.graphs[role].inputs]
        return self.sessions[role].run(
            {
                name: controls[name] if name in controls else padded([item.inputs[name] for item in items])
                for name in names
            }
        )


class Predictor(Served):
    """The tasks that one pass answers: classes, an embedding, words for gaps; of an image or of a text."""

    roles = ("predict", "attention")
    own_endpoint: ClassVar[Mapping[str, str]] = {
        "image-classification": "classify",
        "text-classification": "classify",
        "feature-extraction": "embed",
        "fill-mask": "fill-mask",
    }

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        self.endpoints = (self.own_endpoint[self.manifest.task], "attention")
        rule = self.manifest.text
        self._texts = Texts(artifact, rule.tokenizer, rule.max_tokens) if rule else None
        self._mask = rule.mask if rule else None
        if self.manifest.task == "fill-mask" and self._mask is None:
            raise ArtifactError(artifact.path(MANIFEST), "a fill-mask model needs a text rule with a mask token")

    def loops(self, device: Device, metrics: Metrics) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Make the lanes of predictions and of attention."""
        works = super().loops(device, metrics)
        self._predict: Lane[Item, Prediction] = Lane(
            f"{self.manifest.name}/predict",
            device,
            self._predict_all,
            self.settings.batch_tokens,
            self.predicting,
            metrics,
            self.sessions["predict"].stop,
        )
        self._lanes.append(self._predict)
        return [self._predict.work, *works]

    def longest(self) -> dict[str, int]:
        """Return the most tokens of a text, none for images."""
        return {"source": self.manifest.text.max_tokens} if self.manifest.text else {}

    @property
    def mask(self) -> str | None:
        """Return the token that stands for what is to be found, where there is one."""
        return None if self._texts is None or self._mask is None else self._texts.piece(self._mask)

    def decode_text(self, text: Text, *, truncate: bool) -> Item:
        """Tokenize a text. Raises what `Texts.encode` does, and Unacceptable for a text without gaps to fill."""
        assert self._texts  # noqa: S101 # the caller looked
        if isinstance(text, Pair) and self.manifest.task != "text-classification":
            raise Unacceptable(f"text_pair: is for text-classification, this model's task is {self.manifest.task}")
        tokens = self._texts.encode(text, truncate=truncate)
        indices = np.array([token.index for token in tokens])
        inputs = {
            "source": indices,
            "source_visible": np.ones(len(tokens), np.bool_),
            "source_types": np.array([token.type for token in tokens]),
        }
        lengths = {"source": len(tokens)}
        if self.manifest.task == "fill-mask":
            inputs["masked"] = masked = np.flatnonzero(indices == self._mask)
            lengths["masked"] = len(masked)
            if not 1 <= len(masked) <= MOST_MASKS:
                raise Unacceptable(f"input: must hold {self.mask} 1 to {MOST_MASKS} times, given {len(masked)}")
        return Item(inputs, lengths, tokens, {"source": specials(tokens)})

    def permit(
        self, lengths: Sequence[Mapping[str, int]], *, looking: bool, targets: int = 1
    ) -> contextlib.AbstractContextManager[None]:
        """Hold what inputs of these lengths cost. Raises Busy before any work is spent if the queue is full."""
        if looking:
            return self.looking.permit(sum(self.map_bytes(one) for one in lengths) * max(targets, 1))
        return self.predicting.permit(sum(cost_of(one) for one in lengths))

    def targets(self, item: Item, ask: Ask) -> list[Explained]:
        """Return what is to be explained of an input. Raises Unacceptable for a class or mask that there is not."""
        if self.manifest.task == "fill-mask":
            places = item.inputs["masked"].tolist()
            masks = range(len(places)) if ask.targets is None else select("target", ask.targets, len(places))
            return [Explained(-1, (places[mask],), mask, mask) for mask in masks]
        rows = tuple(ask.wanted[0].rows(item.lengths[ask.wanted[0].kind.query]))
        return [Explained(index, rows) for index in ask.targets or (-1,)]

    async def predict(self, item: Item) -> Prediction:
        """Return what the head says of an input."""
        size = cost_of(item.lengths)
        return await self._predict.submit(item, size, bucket_of(size))

    def _predict_all(self, items: Sequence[Item]) -> list[Prediction | Refusal]:
        (port,) = self.manifest.graphs["predict"].outputs
        out = self._run("predict", items)[port.name]
        found = [crop(out[row], port, item.lengths) for row, item in enumerate(items)]
        return [one if np.isfinite(one).all() else Broken(NOT_FINITE) for one in found]

    def words(self, index: int) -> str:
        """Return the text of one token."""
        assert self._texts  # noqa: S101 # the caller looked
        return self._texts.decode([index])


def cost_of(lengths: Mapping[str, int]) -> int:
    """Return what an image or a text costs: its tokens, or more for masks, each a row of logits over the vocabulary."""
    return max(lengths.get("image", 0), lengths.get("source", 0), MASK_TOKENS * lengths.get("masked", 0))


class Generator(Served):
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
        self._decoding = Decoding(
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

    def text_item(self, text: str) -> Item:
        """Tokenize a text. Raises what `Texts.encode` does."""
        assert self.texts  # noqa: S101 # the caller looked
        tokens = self.texts.encode(text)
        inputs = {
            "source": np.array([token.index for token in tokens]),
            "source_visible": np.ones(len(tokens), np.bool_),
        }
        return Item(inputs, {"source": len(tokens)}, tokens, {"source": specials(tokens)})

    async def generate(
        self, source: Item, options: GenerateOptions, grew: Callable[[Hypothesis], None] | None = None
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

    def finished(self, source: Item, target: Sequence[int], ask: Ask) -> Item:
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
        return Item({**source.inputs, "target": fed}, lengths, source.shown, {**source.special, "target": special})

    def targets_of(self, source: Item, target: Sequence[int], ask: Ask) -> list[Explained]:
        """Return what is to be explained of a finished target. Raises Unacceptable for a token that is not there."""
        places = range(len(target)) if ask.targets is None else select("target", ask.targets, len(target))
        first = source.lengths["source"] - 1 if self.continues else 0
        return [Explained(target[place], (first + place,), first + place, place) for place in places]

    def lengths(self, source: int, target: int) -> dict[str, int]:
        """Return the lengths of the axes, of a source of so many tokens or patches."""
        if self.continues:
            return {"target": source + target - 1, "target_input": source + target - 1}
        return {"image" if self.manifest.image else "source": source, "target": target, "target_input": target}


TASKS: dict[str, type[Served]] = {
    **dict.fromkeys(Predictor.own_endpoint, Predictor),
    **dict.fromkeys(("text-generation", "text2text-generation", "image-to-text"), Generator),
}


def checked(seen: Seen) -> Seen | Refusal:
    """Return the same, or the refusal of what is not finite."""
    prediction, maps = seen
    finite = all(np.isfinite(array).all() for array in (prediction, *maps.values()))
    return seen if finite else Broken(NOT_FINITE)


def specials(tokens: Sequence[Token]) -> Array:
    """Return which tokens are special."""
    return np.array([token.span is None for token in tokens], np.bool_)


def crop(array: Array, port: Port, lengths: Mapping[str, int]) -> Array:
    """Return one input's part of an output, without the padding that its neighbours brought."""
    return array[tuple(slice(lengths.get(str(axis))) for axis in port.axes[1:])]
