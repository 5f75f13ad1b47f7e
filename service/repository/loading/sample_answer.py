"""The sample that a model answers before it is served, on the path of a request, but without queues and batches.

What a manifest says of preprocessing, tokens, layers or heads may not fit the graphs. Then every request would fail.
"""

import asyncio
import contextlib
import functools
import string
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import orjson

from contract.manifest import Manifest, Method
from service.arrays import Array
from service.batching.fair_queue import NOBODY, Caller
from service.errors import Refusal, Unacceptable
from service.explanations.answer import AttentionAnswer
from service.explanations.inside import InsideQuery, inside_answer
from service.explanations.methods import METHODS
from service.explanations.query import AttentionQuery, methods_of, resolve
from service.explanations.score import baselines_of, explains
from service.generation.decode_loop import DecodeLoop, Job
from service.generation.token_selection import Hypothesis, Search
from service.inputs.model_input import ModelInput, Pair, Text
from service.inputs.text_inputs import TextInputs
from service.options.attention import AttentionOptions
from service.options.generation import GenerateOptions
from service.options.readers import Against
from service.repository.explaining.explain import Other, explain, explain_generated
from service.repository.explaining.inside import look_inside
from service.repository.models.generator import Generator
from service.repository.models.graph_controls import controls_of
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import ServedModel
from service.repository.models.transcriber import Transcriber
from service.runtime.device import Device
from service.telemetry.tracing import SILENT

T = TypeVar("T")
R = TypeVar("R")

NUMPY = orjson.OPT_SERIALIZE_NUMPY
ENOUGH_SECONDS = 20.0
"""After so long, what has not run yet is left out, so that a large model on a slow machine can start."""


def answer_sample(served: ServedModel) -> None:
    """Let the model answer a sample with every method, and say what is inside. It cannot be served afterwards.

    Raises whatever a request would, and ValueError for maps that do not have the layers and heads of the manifest.
    """
    asyncio.run(_answer(served, time.monotonic() + ENOUGH_SECONDS))


async def _answer(served: ServedModel, enough: float) -> None:
    lanes: Any = served
    lanes.attention_lane = _Direct(served._run_attention)
    lanes.gradient_lanes = {role: _Direct(functools.partial(served.run_gradient, role)) for role in served.explaining}
    queries = [query for method in methods_of(served.manifest) for query in _queries(served.manifest, method)]
    text, item = _sample(served)
    if isinstance(served, Predictor):
        lanes.prediction_lane = _Direct(served._run_predictions)
        prediction = await served.predict(item, NOBODY)
        served.target_entry(served.targets_after(item, queries[0], prediction, text)[0], prediction)
        _check_layers(served, item, queries[0])
        if served.inputs.longest and time.monotonic() < enough:  # the longest text: tables of positions may be shorter
            served.sessions["predict"].warm_up(served.longest())
        for query in queries:
            if time.monotonic() < enough:
                other = Other(item, text, prediction) if query.options.against else None
                _show((await explain(served, item, query, text, NOBODY, other))[1])
    elif isinstance(served, Generator):
        lanes.decode_loop = _DirectLoop(served)
        if isinstance(served, Transcriber):
            lanes.hearing_lane = _Direct(served._run_hearing)
            served.sessions["align"].warm_up(served.longest())
        options = GenerateOptions(max_new_tokens=min(2, served.limit(GenerateOptions(), _size(served, item))))
        target = (await served.generate(item, options)).tokens
        served.target_tokenizer.decode(target)
        _check_layers(served, served.finished(item, target, queries[0]), queries[0])
        if served.inputs.longest and time.monotonic() < enough:
            served.sessions["encode"].warm_up(served.longest())
        for query in queries:
            if time.monotonic() < enough:
                _show(await explain_generated(served, item, str(text), target, query, NOBODY))
        item = served.finished(item, target, queries[0])
    if "inside" in served.explaining and time.monotonic() < enough:
        for kind in served.manifest.attention:
            asked = InsideQuery(kind, layer=len(kind.maps) - 1, query=0, key=0, digits=1)
            orjson.dumps(inside_answer(asked, await look_inside(served, item, asked, NOBODY), {}), option=NUMPY)


def _queries(manifest: Manifest, method: Method) -> list[AttentionQuery]:
    """Return queries of a method: one, or one for each baseline, at a single point of the path."""
    options = AttentionOptions(method=method)
    if METHODS[method].by_gradient and explains(manifest) == "embedding":
        options = options.model_copy(update={"against": Against("id", "")})
    if not METHODS[method].path:
        return [resolve(options, manifest)]
    paths = [options.model_copy(update={"baseline": one, "steps": 1}) for one in baselines_of(manifest)]
    return [resolve(one, manifest) for one in paths]


def _sample(served: ServedModel) -> tuple[Text, ModelInput]:
    """Return a sample input, and the text that it was made of; "" for an image."""
    if isinstance(served.inputs, TextInputs):
        for character in string.printable:  # a normalizer may write a million for one
            with contextlib.suppress(Refusal):
                served.inputs.tokenizer.encode(character)
    refusal: Refusal = Unacceptable("input: must hold at least one token, given none")
    for text, make in served.inputs.samples(functools.partial(_input_of, served)):
        try:
            item = served.complete_input(make())
        except Refusal as error:
            refusal = error
            continue
        for kind in served.manifest.attention:
            if kind.key == "source" and not item.special["source"][: kind.prefix].all():
                raise ValueError(f"the prefix must be of special tokens, given {kind.prefix}")
        return text, item
    raise refusal


def _input_of(served: ServedModel, text: str) -> Text:
    """Return a text as an input that a model takes: with a mask, or paired with itself."""
    mask = served.mask if isinstance(served, Predictor) else None
    whole = f"{text} {mask}" if mask else text
    return whole if served.takes_single else Pair(whole, whole)


def _size(served: Generator, item: ModelInput) -> int:
    return item.lengths[served.inputs.axis]


def _check_layers(served: ServedModel, item: ModelInput, query: AttentionQuery) -> None:
    """Raise ValueError if the graph has other layers or heads than the manifest: diagnostics are of all of them."""
    asked = AttentionOptions(method=query.method, diagnostics=True)
    controls = controls_of(resolve(asked, served.manifest), item.lengths)
    special = {name: marks[None] for name, marks in item.special.items()}
    out = served.batches.run("attention", [item], controls.feed(item.lengths, special))
    for kind in served.manifest.attention:
        found = out[f"{kind.name}.diagnostics"][0].shape[:3]
        said = (len(kind.maps), kind.heads, item.lengths[kind.query])
        if found != said:
            raise ValueError(f"maps of {kind.name} must have {found} layers, heads and rows, given {said}")


def _show(answer: AttentionAnswer) -> None:
    """Write an answer as JSON."""
    orjson.dumps(answer.json(), option=NUMPY)


class _Direct(Generic[T, R]):
    """A lane without a queue: an item runs at once, and an error of it is raised as it is."""

    def __init__(self, run: Callable[[Sequence[T]], Sequence[R | Refusal]]) -> None:
        self._run = run

    async def submit(self, item: T, size: int, bucket: object = 0, caller: Caller = NOBODY) -> R:
        """Return the result of an item, or raise its Refusal."""
        (found,) = self._run([item])
        if isinstance(found, Refusal):
            raise found
        return found


class _DirectLoop:
    """The decode loop for one target that nobody else joins. It also tries the last position that a target may have."""

    def __init__(self, served: Generator) -> None:
        metrics: Any = _Uncounted()
        self._last = served.generation.max_new_tokens - 1
        self._device = Device()
        self._loop = DecodeLoop(
            served.sessions["encode"], served.sessions["decode"], served.generation, self._device, served.settings,
            served.prediction_budget, metrics, SILENT,
        )  # fmt: skip

    async def generate(
        self,
        source: Mapping[str, Array],
        size: int,
        search: Callable[[], Search],
        limit: int,
        grew: Callable[[Hypothesis], None] | None = None,
        caller: Caller = NOBODY,
        start: int | None = None,
    ) -> Hypothesis:
        """Return the target of a source, as `DecodeLoop.generate` does."""
        first, position = (int(source["source"][-1]), len(source["source"]) - 1) if start is None else (start, 0)
        future: asyncio.Future[Hypothesis] = asyncio.get_running_loop().create_future()
        job = Job(source, size, first, position, search, limit, future, None)
        self._loop._join([job])
        while not job.ended:
            self._loop._step()
        if job.failure:
            raise job.failure
        cache = self._loop._cache
        cache.step([first] * cache.count, [self._last] * cache.count, 1, everything=False)
        self._loop._drop([job])
        self._device.close()
        return job.search.best()


class _Uncounted:
    """Stands in for metrics: a trial does not count."""

    def __getattr__(self, name: str) -> "_Uncounted":
        return self

    def __call__(self, *arguments: object) -> "_Uncounted":
        return self
