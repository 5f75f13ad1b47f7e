"""Route: find the model, refuse early, and send a request through decode, batch, run and present."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import structlog
from fastapi import APIRouter, Depends, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service import documents, present
from service.attention import Ask, resolve
from service.batch import Device
from service.errors import NotFound, NotReady, Refusal, TooSlow, Unacceptable
from service.metrics import Metrics
from service.options import ClassifyOptions, ClassifyTextOptions, FillMaskOptions, GenerateOptions, Options, TextOptions
from service.requests import Sent, read_images, read_texts
from service.search import Hypothesis
from service.served import Generator, Item, Prediction, Predictor, Served
from service.settings import Settings
from service.texts import Text, Token

S = TypeVar("S", bound=Served)
T = TypeVar("T")
log = structlog.get_logger()
router = APIRouter()
PAGE = Path(__file__).parent / "page" / "index.html"


@dataclass
class State:
    """What lives as long as the application."""

    settings: Settings
    models: dict[str, Served]
    metrics: Metrics
    device: Device
    decoders: ThreadPoolExecutor
    tokenizers: ThreadPoolExecutor
    failure: str | None = None
    """Why the service cannot go on, once it cannot."""

    @property
    def ready(self) -> bool:
        """Has every session run once."""
        return all(served.ready for served in self.models.values())

    async def decode(self, served: Served, function: Callable[..., T], *arguments: object) -> T:
        """Run a decoding function on one of the service's own threads; texts do not queue behind images."""
        threads = self.decoders if served.manifest.image else self.tokenizers
        with self.metrics.decode_seconds.labels(served.manifest.name).time():
            return await asyncio.get_running_loop().run_in_executor(threads, function, *arguments)


def state(request: Request) -> State:
    """Return the application's state."""
    found: State = request.app.state.regard
    return found


StateDep = Annotated[State, Depends(state)]


# Health, discovery, documents


@router.get("/health/live", tags=["health"], responses=documents.LIVE)
async def live() -> Response:
    """Answer while the process answers."""
    return present.respond({"live": True})


@router.get("/health/ready", tags=["health"], responses=documents.READY)
async def ready(state: StateDep) -> Response:
    """Answer 200 once every session has run once."""
    if not state.ready:
        raise NotReady("service: is warming up", seconds=1)
    return present.respond({"ready": True})


@router.get("/metrics", tags=["health"], responses=documents.METRICS)
async def metrics(state: StateDep) -> Response:
    """Return all metrics in Prometheus' text format."""
    return state.metrics.exposition()


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
    return await _answer(request, state, _classify(request, state, served))


@router.post("/v1/models/{model}/embed", tags=["predictions"], **documents.EMBED)
async def embed(model: str, request: Request, state: StateDep) -> Response:
    """Return a vector for every text or image, near those of its like."""
    served = _serving(state, model, "embed", Predictor)
    return await _answer(request, state, _embed(request, state, served))


@router.post("/v1/models/{model}/fill-mask", tags=["predictions"], **documents.FILL_MASK)
async def fill_mask(model: str, request: Request, state: StateDep) -> Response:
    """Return what every mask in every text may stand for."""
    served = _serving(state, model, "fill-mask", Predictor)
    return await _answer(request, state, _fill_mask(request, state, served))


@router.post("/v1/models/{model}/generate", tags=["predictions"], **documents.GENERATE)
async def generate(model: str, request: Request, state: StateDep) -> Response:
    """Turn every text into another, or continue it; with `stream`, send its tokens as they come."""
    served = _serving(state, model, "generate", Generator)
    return await _answer(request, state, _generate(request, state, served))


@router.post("/v1/models/{model}/attention", tags=["attention"], **documents.ATTENTION)
async def attention(model: str, request: Request, state: StateDep) -> Response:
    """Return what the model looked at, for the same input as its prediction."""
    served = _serving(state, model, "attention", Served)
    work = (
        _attend(request, state, served)
        if isinstance(served, Predictor)
        else _attend_to_generated(request, state, _as(served, Generator))
    )
    return await _answer(request, state, work)


async def _classify(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(ClassifyOptions if served.manifest.image else ClassifyTextOptions)
    return await _predict(request, state, served, sent, options, lambda row: present.labels(served, row, options.top_k))


async def _embed(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(Options if served.manifest.image else TextOptions)
    return await _predict(request, state, served, sent, options, lambda row: present.embedding(served, row))


async def _fill_mask(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(FillMaskOptions)
    return await _predict(
        request, state, served, sent, options, lambda row: present.candidates(served, row, options.top_k)
    )


async def _attend(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(Options if served.manifest.image else TextOptions)
    return await _predict(request, state, served, sent, options, lambda _: {}, asked=True)


async def _read(request: Request, state: State, served: Predictor) -> Sent:
    return await (read_images if served.manifest.image else read_texts)(request, state.settings)


async def _predict(
    request: Request,
    state: State,
    served: Predictor,
    sent: Sent,
    options: Options,
    show: Callable[[Prediction], dict[str, object]],
    *,
    asked: bool = False,
) -> Response:
    """Answer with what `show` makes of every input's prediction, and its attention if that is asked for.

    `show` runs on a thread of its own where it reads logits over a vocabulary.
    """
    ask = _ask(sent, served, asked=asked)
    ready: list[Item] = []
    if served.manifest.image:
        lengths = [served.image_lengths] * len(sent.inputs)
    else:  # how long texts are is known once they are tokens, which costs little
        truncate = isinstance(options, TextOptions) and options.truncate
        decode = functools.partial(served.decode_text, truncate=truncate)
        ready = await _together(state.decode(served, decode, text) for text in sent.inputs)
        lengths = [item.lengths for item in ready]
    if ask:
        ask.check_size(lengths, state.settings.max_answer_bytes)
    if isinstance(options, FillMaskOptions):
        options.check_size(sum(one["masked"] for one in lengths), state.settings.max_answer_bytes)

    async def one(index: int) -> dict[str, object]:
        item = ready[index] if ready else await state.decode(served, served.decode_image, sent.inputs[index])
        if ask is None:
            return await shown(await served.predict(item))
        row, maps = await served.look(item, ask)
        return {**await shown(row), "attention": present.attention(served, ask, maps, item)}

    async def shown(row: Prediction) -> dict[str, object]:
        return await state.decode(served, show, row) if served.mask else show(row)

    with served.permit(lengths, looking=ask is not None):
        results = await _together(one(index) for index in range(len(sent.inputs)))
    return present.respond(present.answer(request.state.id, served, results))


async def _generate(request: Request, state: State, served: Generator) -> Response:
    sent = await read_texts(request, state.settings)
    options = sent.options(GenerateOptions)
    served.search(options)  # refuses what cannot be searched before anything is done
    ask = _ask(sent, served)
    if options.stream and len(sent.inputs) > 1:
        raise Unacceptable(f"stream: takes one input, given {len(sent.inputs)}")
    prompts = await _prompts(state, served, sent, ask, options)
    if options.stream:
        held = contextlib.ExitStack()
        held.enter_context(served.permit([prompts[0].tokens], options, looking=ask is not None))
        return Stream(_events(request.state.id, state, served, prompts[0], options, ask), held)
    results = await _generate_all(served, prompts, options, ask)
    return present.respond(present.answer(request.state.id, served, results))


async def _attend_to_generated(request: Request, state: State, served: Generator) -> Response:
    sent = await read_texts(request, state.settings)
    options = sent.options(GenerateOptions)
    served.search(options)
    if options.stream:
        raise Unacceptable("stream: is for generate; attention is answered whole")
    ask = _ask(sent, served, asked=True)
    prompts = await _prompts(state, served, sent, ask, options)
    results = await _generate_all(served, prompts, options, ask)
    shown: list[dict[str, object]] = [{"attention": result["attention"]} for result in results]
    return present.respond(present.answer(request.state.id, served, shown))


@dataclass(frozen=True)
class Prompt:
    """A text to generate from, and its tokens."""

    text: str
    tokens: list[Token]


async def _prompts(
    state: State, served: Generator, sent: Sent, ask: Ask | None, options: GenerateOptions
) -> list[Prompt]:
    """Tokenize the texts, and refuse an attention answer that could become too large before anything runs."""

    async def prompt(text: Text | bytes) -> Prompt:
        if not isinstance(text, str):
            raise Unacceptable(f"text_pair: is for text-classification, this model's task is {served.manifest.task}")
        return Prompt(text, await state.decode(served, served.texts.encode, text))

    prompts = await _together(prompt(text) for text in sent.inputs)
    lengths = [served.lengths(len(prompt.tokens), served.limit(options, len(prompt.tokens))) for prompt in prompts]
    if ask:
        ask.check_size(lengths, state.settings.max_answer_bytes)
    return prompts


async def _generate_all(
    served: Generator, prompts: list[Prompt], options: GenerateOptions, ask: Ask | None
) -> list[dict[str, object]]:
    with served.permit([prompt.tokens for prompt in prompts], options, looking=ask is not None):
        return await _together(_generate_one(served, prompt, options, ask) for prompt in prompts)


async def _generate_one(
    served: Generator, prompt: Prompt, options: GenerateOptions, ask: Ask | None
) -> dict[str, object]:
    hypothesis = await served.generate(prompt.tokens, options)
    return await _shown(served, prompt, hypothesis, options, ask)


async def _shown(
    served: Generator, prompt: Prompt, hypothesis: Hypothesis, options: GenerateOptions, ask: Ask | None
) -> dict[str, object]:
    result = present.sequence(served, hypothesis, served.penalty(options))
    if ask:
        maps = await served.look_at(prompt.tokens, hypothesis.tokens, ask)
        result["attention"] = present.generated_attention(
            served, ask, maps, prompt.text, prompt.tokens, hypothesis.tokens
        )
    return result


class Stream(StreamingResponse):
    """Server-sent events, and what is held until the last of them is sent or the client has gone."""

    def __init__(self, events: AsyncIterator[bytes], held: contextlib.ExitStack) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        with self._held:
            await super().__call__(scope, receive, send)


async def _events(
    request_id: str, state: State, served: Generator, prompt: Prompt, options: GenerateOptions, ask: Ask | None
) -> AsyncIterator[bytes]:
    """Yield an event a token, then the whole answer; leaving the loop early cancels the generation."""
    grown: asyncio.Queue[Hypothesis | None] = asyncio.Queue()
    try:
        async with asyncio.timeout(state.settings.request_seconds):
            task = asyncio.ensure_future(served.generate(prompt.tokens, options, grown.put_nowait))
            task.add_done_callback(lambda _: grown.put_nowait(None))
            try:
                growing = served.targets.growing()
                while hypothesis := await grown.get():
                    place, index = len(hypothesis.tokens) - 1, hypothesis.tokens[-1]
                    if index != served.generation.end:
                        yield _event("token", {"index": place, "token": index, "text": growing.add(index)})
                result = await _shown(served, prompt, await task, options, ask)
            finally:
                task.cancel()
        yield _event("done", present.answer(request_id, served, [result]))
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


async def _answer(request: Request, state: State, work: Coroutine[Any, Any, Response]) -> Response:
    """Wait for the work until the deadline, or until the client has gone; either way nothing of it stays behind."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request, task))
    try:
        async with asyncio.timeout(state.settings.request_seconds):
            return await task
    except TimeoutError as error:
        raise TooSlow(_too_slow(state)) from error
    except asyncio.CancelledError:
        if gone.done() and not gone.cancelled():
            return Response(status_code=499)  # nobody will read it; the log does
        raise
    finally:
        gone.cancel()
        task.cancel()


async def _gone(request: Request, task: "asyncio.Task[Response]") -> None:
    """Cancel the task when the client disconnects after its whole request was read."""
    await request.state.body_read.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass
    task.cancel()


def _too_slow(state: State) -> str:
    return f"request: at most {state.settings.request_seconds:g} seconds, given up"


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all; the first failure cancels the others and is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _ask(sent: Sent, served: Served, *, asked: bool = False) -> Ask | None:
    """Return what the request wants to see beside its prediction, if anything; the default where it must be `asked`."""
    options = sent.attention(asked=asked)
    return resolve(options, served.manifest) if options else None


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
