"""Route: find the model, refuse early, and send a request through decode, batch, run and present."""

import asyncio
import contextlib
import functools
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import structlog
from fastapi import APIRouter, Depends, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api import openapi_schema as documents
from service.repository import faithfulness as faithful
from service.api import responses as present
from service.telemetry import tracing
from service.explanations.query import Ask, resolve
from service.batching.batcher import PRIORITY, Device, together
from service.inputs.sandbox.decoder_pool import Decoders
from service.errors import NotFound, NotReady, Refusal, TooSlow, Unacceptable
from service.inputs.image_preprocessing import Picture
from service.store import Kept, Store
from service.telemetry.metrics import Metrics
from service.repository.registry import Models
from service.options import (
    ClassifyOptions,
    ClassifyTextOptions,
    FillMaskOptions,
    GenerateOptions,
    RequestOptions,
    TextOptions,
)
from service.api.request_parsing import Sent, negotiate, query, read_images, read_texts
from service.generation.token_selection import Hypothesis
from service.repository.explain import row_of, see, see_generated
from service.repository.served_model import Generator, Item, Prediction, Predictor, Served, cost_of
from service.settings import Settings
from service.explanations.answer import TYPES, Sight, check_picture, npz, unshown
from service.inputs.texts import Pair
from service.process.workers import Worker

S = TypeVar("S", bound=Served)
T = TypeVar("T")
log = structlog.get_logger()
router, health, watching, admin = APIRouter(), APIRouter(), APIRouter(), APIRouter()
HANG_SECONDS = 30.0
PAGE = Path(__file__).parent / "page" / "index.html"


@dataclass
class State:
    """What lives as long as the application."""

    settings: Settings
    models: Models
    metrics: Metrics
    device: Device
    store: Store
    decoders: Decoders
    tokenizers: ThreadPoolExecutor
    presenters: ThreadPoolExecutor
    worker: Worker | None = None
    """Which of several processes that serve this is."""
    draining: bool = False
    """Is the service to end soon, so that nobody should send it more."""
    failure: str | None = None
    """Why the service cannot go on, once it cannot."""

    @property
    def ready(self) -> bool:
        """Can every model run, as far as is known."""
        return all(served.ready for served in self.models.values())

    @property
    def hung(self) -> bool:
        """Has the device been at one run for longer than any request may take, and a while."""
        return self.device.busy_seconds() > self.settings.request_seconds + HANG_SECONDS

    def drain(self) -> None:
        """Say from now on that the service is to end."""
        self.draining = True
        self.metrics.draining.set(1)

    def fail(self, reason: str) -> None:
        """End the process, which cannot go on."""
        self.failure = reason
        signal.raise_signal(signal.SIGTERM)

    async def decode_texts(self, served: Served, decode: Callable[[T], Item], texts: Sequence[T]) -> list[Item]:
        """Make tokens of texts on the thread that does nothing else. Raises what `decode` does."""
        with (
            self.metrics.decode_seconds.labels(served.manifest.name).time(),
            tracing.span("decode", model=served.manifest.name),
        ):
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self.tokenizers, lambda: [decode(text) for text in texts])
            except (Exception, asyncio.CancelledError):
                raise
            except BaseException as error:  # a tokenizer's panic is no Exception, and would end more than a request
                log.error("tokenizing panicked", model=served.manifest.name, kind=type(error).__name__)
                raise Unacceptable("input: must be a text that can be tokenized, given one that cannot") from None

    async def decode_image(self, served: Served, data: bytes) -> Item:
        """Decode an image in a process that it may end. Raises what `Decoders.decode` does."""
        rule = served.manifest.image
        assert rule  # noqa: S101 # the caller looked
        with (
            self.metrics.decode_seconds.labels(served.manifest.name).time(),
            tracing.span("decode", model=served.manifest.name),
        ):
            picture = await self.decoders.decode(data, rule)
        return served.image_item(picture.pixels, picture)

    async def present(self, served: Served, function: Callable[..., T], *arguments: object) -> T:
        """Run a function that makes an answer of maps, or many numbers, on threads that nothing is decoded on."""
        with (
            self.metrics.present_seconds.labels(served.manifest.name).time(),
            tracing.span("present", model=served.manifest.name),
        ):
            return await asyncio.get_running_loop().run_in_executor(self.presenters, function, *arguments)


async def state(request: Request) -> State:
    """Return the application's state; where this did not await, it would wait for a thread."""
    found: State = request.app.state.regard
    return found


StateDep = Annotated[State, Depends(state)]


# Health, discovery, documents


@health.get("/health/live", tags=["health"], responses=documents.LIVE)
async def live(state: StateDep) -> Response:
    """Answer 200 while the process answers and its device comes back from what it runs."""
    if state.hung:
        raise NotReady("device: does not come back from a run", seconds=1)
    return present.respond({"live": True})


@health.get("/health/ready", tags=["health"], responses=documents.READY)
async def ready(state: StateDep) -> Response:
    """Answer 200 once every session has run once, until the service is told to stop."""
    if state.draining:
        raise NotReady("service: is stopping", seconds=1)
    if not state.ready:
        raise NotReady("service: is warming up", seconds=1)
    return present.respond({"ready": True})


@watching.get("/metrics", tags=["health"], responses=documents.METRICS)
async def metrics(state: StateDep) -> Response:
    """Return all metrics in Prometheus' text format."""
    state.models.show_queues()
    return state.metrics.exposition()


@admin.post("/admin/reload", tags=["admin"], responses=documents.RELOAD)
async def reload(request: Request, state: StateDep) -> Response:
    """Read the folder of artifacts again: load what is new beside what is served, swap, let the old finish.

    The file of API keys is read again too; one that cannot be used changes nothing. Of several workers the one that
    answers tells what became of its own models; the others reload then, and log it.
    """
    request.app.state.keys.reload()
    found = await state.models.reload()
    if state.worker:
        state.worker.tell_reload()
    return present.respond({"models": found})


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """Return the web page."""
    return FileResponse(PAGE, media_type="text/html; charset=utf-8")


@router.get("/v1/models", tags=["models"], responses=documents.MODELS)
async def models(state: StateDep) -> Response:
    """List the models that are loaded."""
    return present.respond({"models": [present.describe(served) for served in state.models.values()]})


@router.get("/v1/models/{model}", tags=["models"], responses=documents.MODEL)
async def one_model(model: str, state: StateDep) -> Response:
    """Say what one model takes, answers and shows."""
    return present.respond(present.describe(_model(state, model)))


# Predictions


@router.post("/v1/models/{model}/classify", tags=["predictions"], **documents.CLASSIFY)
async def classify(model: str, request: Request, state: StateDep) -> Response:
    """Return the likeliest labels of every image or text."""
    served = _serving(state, model, "classify", Predictor)
    return await _answer(request, state, served, _classify(request, state, served))


@router.post("/v1/models/{model}/embed", tags=["predictions"], **documents.EMBED)
async def embed(model: str, request: Request, state: StateDep) -> Response:
    """Return a vector for every text or image, near those of its like."""
    served = _serving(state, model, "embed", Predictor)
    return await _answer(request, state, served, _embed(request, state, served))


@router.post("/v1/models/{model}/fill-mask", tags=["predictions"], **documents.FILL_MASK)
async def fill_mask(model: str, request: Request, state: StateDep) -> Response:
    """Return what every mask in every text may stand for."""
    served = _serving(state, model, "fill-mask", Predictor)
    return await _answer(request, state, served, _fill_mask(request, state, served))


@router.post("/v1/models/{model}/generate", tags=["predictions"], **documents.GENERATE)
async def generate(model: str, request: Request, state: StateDep) -> Response:
    """Turn every text or image into a text, or continue it; with `stream`, send its tokens as they come."""
    served = _serving(state, model, "generate", Generator)
    return await _answer(request, state, served, _generate(request, state, served))


@router.post("/v1/models/{model}/attention", tags=["attention"], **documents.ATTENTION)
async def attention(model: str, request: Request, state: StateDep) -> Response:
    """Return what the model looked at, for the same input as its prediction."""
    served = _serving(state, model, "attention", Served)
    return await _answer(request, state, served, _attend(request, state, served))


@router.get("/v1/attention/{id}", tags=["attention"], **documents.KEPT)
async def kept_attention(id: str, request: Request, state: StateDep) -> Response:  # noqa: A002 # the path's name
    """Return what a model looked at for an earlier request, without its input being sent again."""
    kept = await state.store.get(id)
    served = state.models.get(kept.model) if kept else None
    model = request.query_params.get("model")
    if kept is None or served is None or served.manifest.version != kept.version or model not in (None, kept.model):
        seconds = f"{state.settings.keep_seconds:g}"
        raise NotFound(f"id: must be of a request that was answered, at most {seconds} seconds ago, given another")
    if not served.ready:
        raise NotReady("model: is warming up", seconds=1)
    return await _answer(request, state, served, _attend_to_kept(request, state, served, kept))


async def _classify(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(ClassifyOptions if served.manifest.image else ClassifyTextOptions)
    return await _predict(request, state, served, sent, options, lambda row: present.labels(served, row, options.top_k))


async def _embed(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(RequestOptions if served.manifest.image else TextOptions)
    return await _predict(request, state, served, sent, options, lambda row: present.embedding(served, row))


async def _fill_mask(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(FillMaskOptions)
    return await _predict(
        request, state, served, sent, options, lambda row: present.candidates(served, row, options.top_k)
    )


async def _attend(request: Request, state: State, served: Served) -> Response:
    sent = await _read(request, state, served)
    if isinstance(served, Predictor):
        options = sent.options(RequestOptions if served.manifest.image else TextOptions)
        return await _predict(request, state, served, sent, options, asked=True)
    return await _generate_all(request, state, _as(served, Generator), sent, sent.options(GenerateOptions), asked=True)


async def _attend_to_kept(request: Request, state: State, served: Served, kept: Kept) -> Response:
    given = query(request)
    given.pop("model", None)
    await request.body()  # there is none; what notices that the client has left waits for its end
    sent = Sent(list(kept.inputs), given, strings=True)  # type: ignore[arg-type] # all are bytes, or all texts
    priority = sent.options(RequestOptions).priority
    if isinstance(served, Predictor):
        options = (
            RequestOptions(priority=priority)
            if served.manifest.image
            else TextOptions(truncate=kept.truncate, priority=priority)
        )
        return await _predict(request, state, served, sent, options, asked=True)
    return await _generate_all(
        request,
        state,
        _as(served, Generator),
        sent,
        GenerateOptions(priority=priority),
        asked=True,
        targets=kept.targets,
    )


async def _read(request: Request, state: State, served: Served) -> Sent:
    return await (read_images if served.manifest.image else read_texts)(request, state.settings)


async def _predict(
    request: Request,
    state: State,
    served: Predictor,
    sent: Sent,
    options: RequestOptions,
    show: Callable[[Prediction], dict[str, object]] | None = None,
    *,
    asked: bool = False,
) -> Response:
    """Answer with what `show` makes of every input's prediction, and its attention if that is asked for.

    `show` runs on a thread of its own where it reads logits over a vocabulary.
    """
    PRIORITY.set(options.priority)
    ask = _ask(request, sent, served, asked=asked)
    truncate = isinstance(options, TextOptions) and options.truncate
    ready: list[Item] = []
    if served.manifest.image:
        lengths = [served.image_lengths] * len(sent.inputs)
    else:  # how long texts are is known once they are tokens, which costs little
        decode = functools.partial(served.decode_text, truncate=truncate)
        ready = await state.decode_texts(served, decode, sent.inputs)
        lengths = [item.lengths for item in ready]
    targets = [_targets(ask, one.get("masked", 1)) for one in lengths]
    if ask:
        _check_size(state, ask, lengths, targets)
    if isinstance(options, FillMaskOptions):
        options.check_size(sum(one["masked"] for one in lengths), state.settings.max_answer_bytes)

    async def one(index: int) -> tuple[dict[str, object], Sight | None]:
        given = sent.inputs[index]
        item = await state.decode_image(served, given) if isinstance(given, bytes) else ready[index]
        if ask is None:
            return await shown(await served.predict(item)), None
        _check_picture(state, ask, item, item.lengths, targets[index])
        row, sight = await see(served, item, ask, "" if isinstance(given, bytes) else given)
        return await shown(row), sight

    async def shown(row: Prediction) -> dict[str, object]:
        if show is None:
            return {}
        return await state.present(served, show, row) if served.mask else show(row)

    curves = faithful.rows(ask.options.evaluate) if ask else 0
    with (
        served.permit(lengths, looking=ask is not None, targets=max(targets)),
        served.permit(lengths * curves, looking=False) if curves else contextlib.nullcontext(),
    ):
        found = await together(one(index) for index in range(len(sent.inputs)))
    kept = Kept(served.manifest.name, served.manifest.version, tuple(sent.inputs), truncate)
    return await _respond(request, state, served, found, ask, kept)


async def _generate(request: Request, state: State, served: Generator) -> Response:
    sent = await _read(request, state, served)
    return await _generate_all(request, state, served, sent, sent.options(GenerateOptions))


@dataclass(frozen=True)
class Prompt:
    """An image or a text to generate from, and how; or what was generated from it before."""

    given: bytes | str
    item: Item | None
    """A text in tokens; an image is decoded once there is room for it."""
    size: int
    """How many tokens or patches it has."""
    most: int
    """How many tokens its target can have."""
    options: GenerateOptions
    target: Sequence[int] | None = None

    @property
    def text(self) -> str:
        """Return what the spans of its tokens lie in, nothing for an image."""
        return "" if isinstance(self.given, bytes) else self.given


async def _generate_all(
    request: Request,
    state: State,
    served: Generator,
    sent: Sent,
    options: GenerateOptions,
    *,
    asked: bool = False,
    targets: Sequence[Sequence[int]] | None = None,
) -> Response:
    """Answer with what is generated from every input, or was (`targets`), and its attention if that is asked for."""
    PRIORITY.set(options.priority)
    served.search(options)  # refuses what cannot be searched before anything is done
    ask = _ask(request, sent, served, asked=asked)
    if options.stream and asked:
        raise Unacceptable("stream: is for generate; attention is answered whole")
    if options.stream and len(sent.inputs) > 1:
        raise Unacceptable(f"stream: takes one input, given {len(sent.inputs)}")
    if ask and ask.options.steps and not options.stream:
        raise Unacceptable("steps: is for stream")
    inputs = [given for given in sent.inputs if not isinstance(given, Pair)]
    if len(inputs) < len(sent.inputs):
        raise Unacceptable(f"text_pair: is for text-classification, this model's task is {served.manifest.task}")
    texts = [given for given in inputs if isinstance(given, str)]
    likely = served.likely_cost(texts, options) if texts and targets is None else 0
    with served.predicting.permit(likely) if likely else contextlib.nullcontext():  # else it was tokenized in vain
        items = await state.decode_texts(served, served.text_item, texts) if texts else [None] * len(inputs)

    def prompt(index: int) -> Prompt:
        given, item = inputs[index], items[index]
        size = cost_of(item.lengths if item else served.image_lengths)
        # the last token is fed too; where targets continue their source, there is room for it
        spare = int(ask is not None and ask.options.align == "input" and not served.continues)
        if targets is not None:
            if len(targets[index]) + spare > served.generation.max_new_tokens:
                raise Unacceptable("align: this answer is as long as the model allows, its last token cannot be fed")
            return Prompt(given, item, size, len(targets[index]), options, targets[index])
        limit = served.limit(options, size, spare)
        return Prompt(given, item, size, limit, options.model_copy(update={"max_new_tokens": limit}))

    prompts = [prompt(index) for index in range(len(sent.inputs))]
    with contextlib.ExitStack() as permits:
        permits.enter_context(_permit(state, served, prompts, ask))
        if options.stream:
            item = await _source(state, served, prompts[0], ask)  # what it is refused for has a status of its own
            permits.enter_context(served.used())
            return Stream(_events(request, state, served, prompts[0], item, ask), permits.pop_all())
        results = await together(_generate_one(state, served, prompt, ask, asked=asked) for prompt in prompts)
    return await _respond(
        request, state, served, [(shown, sight) for shown, sight, _ in results], ask,
        _kept(served, prompts, [target for *_, target in results]),
    )  # fmt: skip


def _permit(
    state: State, served: Generator, prompts: Sequence[Prompt], ask: Ask | None
) -> contextlib.AbstractContextManager[None]:
    """Hold what prompts may cost, and refuse an attention answer that could become too large before anything runs."""
    lengths = [served.lengths(prompt.size, prompt.most) for prompt in prompts]
    explained = [_targets(ask, prompt.most) for prompt in prompts]
    if ask:
        _check_size(state, ask, lengths, explained)
    generated = [prompt for prompt in prompts if prompt.target is None]
    maps = sum(served.map_bytes(one) * targets for one, targets in zip(lengths, explained, strict=True)) if ask else 0
    return served.permit([(prompt.size, prompt.options) for prompt in generated], maps)


async def _source(state: State, served: Generator, prompt: Prompt, ask: Ask | None) -> Item:
    """Return what is generated from. Raises what decoding it does, and TooLarge for what cannot be drawn of it."""
    item = prompt.item
    if item is None:
        assert isinstance(prompt.given, bytes)  # noqa: S101 # for the type checker
        item = await state.decode_image(served, prompt.given)
    if ask:
        _check_picture(state, ask, item, served.lengths(prompt.size, prompt.most), _targets(ask, prompt.most))
    return item


async def _generate_one(
    state: State, served: Generator, prompt: Prompt, ask: Ask | None, *, asked: bool
) -> tuple[dict[str, object], Sight | None, Sequence[int]]:
    """Return what is shown of a prompt, what was seen of it, and the tokens of its target."""
    item = await _source(state, served, prompt, ask)
    if prompt.target is not None:
        assert ask is not None  # noqa: S101 # what was generated before is only looked at
        return {}, await see_generated(served, item, prompt.text, prompt.target, ask), prompt.target
    hypothesis = await served.generate(item, prompt.options)
    sight = await see_generated(served, item, prompt.text, hypothesis.tokens, ask) if ask else None
    shown = {} if asked else present.sequence(served, hypothesis, served.penalty(prompt.options))
    return shown, sight, hypothesis.tokens


def _kept(served: Served, prompts: Sequence[Prompt], targets: Sequence[Sequence[int]]) -> Kept:
    inputs = tuple(prompt.given for prompt in prompts)
    return Kept(
        served.manifest.name, served.manifest.version, inputs, targets=tuple(tuple(target) for target in targets)
    )


async def _respond(
    request: Request,
    state: State,
    served: Served,
    found: Sequence[tuple[dict[str, object], Sight | None]],
    ask: Ask | None,
    kept: Kept,
) -> Response:
    """Keep what was asked, and answer in the form that was asked for; what was kept keeps its id."""
    identity = request.path_params.get("id", request.state.id)
    if identity == request.state.id:
        await state.store.put(identity, kept)

    def whole() -> Response:
        return present.respond(present.answer(identity, served, [_shown(*one) for one in found]))

    if ask is None:
        return whole()
    if ask.options.format == "json":
        return await state.present(served, whole)
    sights = [sight for _, sight in found if sight]
    if ask.options.format == "npz":
        answer = present.answer(identity, served, [])
        return Response(await state.present(served, npz, answer, sights), media_type=TYPES["npz"])
    sent = kept.inputs[0]
    async with state.decoders.upright(sent) if isinstance(sent, bytes) else contextlib.nullcontext() as pixels:
        picture = await state.present(served, sights[0].png, pixels, state.settings.max_image_pixels)
    return Response(picture, media_type=TYPES["png"])


def _shown(shown: dict[str, object], sight: Sight | None) -> dict[str, object]:
    return {**shown, "attention": sight.json()} if sight else shown


class Stream(StreamingResponse):
    """Server-sent events, and what is held until the last of them is sent or the client has gone."""

    def __init__(self, events: AsyncIterator[bytes], held: contextlib.ExitStack) -> None:
        super().__init__(events, media_type="text/event-stream")
        self.held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        with self.held:
            await super().__call__(scope, receive, send)


async def _events(
    request: Request, state: State, served: Generator, prompt: Prompt, item: Item, ask: Ask | None
) -> AsyncIterator[bytes]:
    """Yield an event a token, then the whole answer; leaving the loop early cancels the generation."""
    grown: asyncio.Queue[Hypothesis | None] = asyncio.Queue()
    steps = ask if ask and ask.options.steps else None
    PRIORITY.set(prompt.options.priority)  # this is another task than the one that read the request
    try:
        async with asyncio.timeout(state.settings.request_seconds):
            task = asyncio.ensure_future(served.generate(item, prompt.options, grown.put_nowait))
            task.add_done_callback(lambda _: grown.put_nowait(None))
            try:
                growing = served.targets.growing()
                while hypothesis := await grown.get():
                    place, index = len(hypothesis.tokens) - 1, hypothesis.tokens[-1]
                    if index != served.generation.end:
                        event: dict[str, object] = {"index": place, "token": index, "text": growing.add(index)}
                        if steps:
                            event["attention"] = await row_of(served, item, hypothesis.tokens, steps)
                        yield _event("token", event)
                hypothesis = await task
                sight = await see_generated(served, item, prompt.text, hypothesis.tokens, ask) if ask else None
            finally:
                task.cancel()
        result = present.sequence(served, hypothesis, served.penalty(prompt.options))
        await state.store.put(request.state.id, _kept(served, [prompt], [hypothesis.tokens]))

        def done() -> bytes:
            return _event("done", present.answer(request.state.id, served, [_shown(result, sight)]))

        yield await state.present(served, done)
    except TimeoutError:
        yield _event("error", {"status": 504, "detail": _too_slow(state)})
    except Refusal as refusal:
        yield _event("error", {"status": int(refusal.status), "detail": refusal.detail})
    except Exception as error:  # the status line is long sent; the stream must still say that it failed
        log.error("stream failed", exc_info=error)
        yield _event("error", {"status": 500, "detail": "service: failed; the log has the request's id"})


def _event(name: str, body: dict[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + present.dump(body) + b"\n\n"


# What every prediction shares


async def _answer(request: Request, state: State, served: Served, work: Coroutine[Any, Any, Response]) -> Response:
    """Wait for the work until the deadline, or until the client has gone; either way nothing of it stays behind."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request, task))
    try:
        with served.used():
            async with asyncio.timeout(state.settings.request_seconds):
                return await task
    except TimeoutError as error:
        _let_go(task)
        raise TooSlow(_too_slow(state)) from error
    except asyncio.CancelledError:
        _let_go(task)
        if gone.done() and not gone.cancelled():
            return Response(status_code=499)  # nobody will read it; the log does
        raise
    finally:
        gone.cancel()
        task.cancel()


def _let_go(task: "asyncio.Task[Response]") -> None:
    """Give back what an answer holds that came too late to be sent."""
    if task.done() and not task.cancelled() and not task.exception() and isinstance(stream := task.result(), Stream):
        stream.held.close()


async def _gone(request: Request, task: "asyncio.Task[Response]") -> None:
    """Cancel the task when the client disconnects after its whole request was read."""
    await request.state.body_read.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass
    task.cancel()


def _too_slow(state: State) -> str:
    return f"request: at most {state.settings.request_seconds:g} seconds, given up"


def _ask(request: Request, sent: Sent, served: Served, *, asked: bool = False) -> Ask | None:
    """Return what the request wants to see beside its prediction, if anything; the default where it must be `asked`."""
    options = sent.attention(asked=asked)
    if options is None:
        return None
    ask = resolve(options, served.manifest)
    if not asked and options.format not in (None, "json"):
        raise Unacceptable(f"format: a prediction is answered in json; for {options.format}, ask .../attention")
    form = options.format or (negotiate(request.headers.getlist("accept")) if asked else "json")
    for name in unshown(options, form):
        raise Unacceptable(f"{name}: has no effect on {form}, leave it out")
    if form == "png" and len(sent.inputs) > 1:
        raise Unacceptable(f"format: a png shows one input, given {len(sent.inputs)}")
    return replace(ask, options=options.model_copy(update={"format": form}))


def _targets(ask: Ask | None, every: int) -> int:
    """Return how many relevances are computed of an input in which `every` token can be explained."""
    if ask is None or ask.method != "relevance":
        return 1
    return every if ask.targets is None else len(ask.targets)


def _check_size(state: State, ask: Ask, lengths: Sequence[Mapping[str, int]], targets: Sequence[int]) -> None:
    if ask.options.format != "png":  # whose pixels are counted
        sizes = [ask.size(one, count) for one, count in zip(lengths, targets, strict=True)]
        ask.check_size(sizes, state.settings.max_answer_bytes)


def _check_picture(state: State, ask: Ask, item: Item, lengths: Mapping[str, int], targets: int) -> None:
    if ask.options.format == "png":
        size = (item.shown.width, item.shown.height) if isinstance(item.shown, Picture) else None
        check_picture(ask, lengths, size, targets, state.settings.max_image_pixels)


def _model(state: State, name: str) -> Served:
    if name not in state.models:
        raise NotFound(f"model: must be one of {', '.join(state.models)}, given another")
    return state.models[name]


def _serving(state: State, name: str, endpoint: str, kind: type[S]) -> S:
    served = _model(state, name)
    if endpoint not in served.endpoints:
        raise NotFound(
            f"{endpoint}: this model's task is {served.manifest.task}; it serves {', '.join(served.endpoints)}"
        )
    if not served.ready:
        raise NotReady("model: is warming up", seconds=1)
    return _as(served, kind)


def _as(served: Served, kind: type[S]) -> S:
    if not isinstance(served, kind):
        raise TypeError(f"{served.manifest.name}: must be {kind.__name__}")
    return served
