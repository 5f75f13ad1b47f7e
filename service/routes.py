"""Route: find the model, refuse early, and send a request through decode, batch, run and present."""

import asyncio
import contextlib
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
from service.images import Picture, decode_image
from service.metrics import Metrics
from service.options import AttentionOptions, ClassifyOptions, GenerateOptions, Options
from service.requests import Sent, read_images, read_texts
from service.search import Hypothesis
from service.served import ImageClassifier, Logits, Look, Served, TextGenerator
from service.settings import Settings
from service.texts import Token

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
    """Return the likeliest labels of every image."""
    served = _serving(state, model, "classify", ImageClassifier)
    return await _answer(request, state, _classify(request, state, served))


@router.post("/v1/models/{model}/generate", tags=["predictions"], **documents.GENERATE)
async def generate(model: str, request: Request, state: StateDep) -> Response:
    """Turn every text into another; with `stream`, send its tokens as they come."""
    served = _serving(state, model, "generate", TextGenerator)
    return await _answer(request, state, _generate(request, state, served))


@router.post("/v1/models/{model}/attention", tags=["attention"], **documents.ATTENTION)
async def attention(model: str, request: Request, state: StateDep) -> Response:
    """Return what the model looked at, for the same input as its prediction."""
    served = _serving(state, model, "attention", Served)
    work = (
        _attend_to_images(request, state, served)
        if isinstance(served, ImageClassifier)
        else _attend_to_texts(request, state, _as(served, TextGenerator))
    )
    return await _answer(request, state, work)


async def _classify(request: Request, state: State, served: ImageClassifier) -> Response:
    sent = await read_images(request, state.settings)
    options = sent.options(ClassifyOptions)
    ask = _ask(sent, served)
    if ask:
        looks = await _look_at_images(state, served, sent, ask)
        results: list[dict[str, object]] = [
            {"labels": present.labels(served, logits, options.top_k), "attention": attention}
            for logits, attention in looks
        ]
    else:
        with served.predicting.permit(served.tokens * len(sent.inputs)):
            results = await _together(_classify_one(state, served, image, options) for image in sent.inputs)
    return present.respond(present.answer(request.state.id, served, results))


async def _classify_one(
    state: State, served: ImageClassifier, image: bytes | str, options: ClassifyOptions
) -> dict[str, object]:
    picture = await _picture(state, served, image)
    return {"labels": present.labels(served, await served.classify(picture), options.top_k)}


async def _attend_to_images(request: Request, state: State, served: ImageClassifier) -> Response:
    sent = await read_images(request, state.settings)
    sent.options(Options)
    ask = resolve(sent.attention(asked=True) or AttentionOptions(), served.manifest)
    looks = await _look_at_images(state, served, sent, ask)
    results: list[dict[str, object]] = [{"attention": attention} for _, attention in looks]
    return present.respond(present.answer(request.state.id, served, results))


async def _look_at_images(
    state: State, served: ImageClassifier, sent: Sent, ask: Ask
) -> list[tuple[Logits, dict[str, object]]]:
    """Return logits and attention of every image, from the one graph that computes both."""
    ask.check_size([served.lengths] * len(sent.inputs), state.settings.max_answer_bytes)

    async def look(image: bytes | str) -> tuple[Logits, dict[str, object]]:
        picture = await _picture(state, served, image)
        logits, maps = await served.look(Look({"pixels": picture.pixels}, ask), served.lengths)
        return logits, present.image_attention(served, ask, maps, picture)

    with served.looking.permit(served.map_bytes(served.lengths) * len(sent.inputs)):
        return await _together(look(image) for image in sent.inputs)


async def _picture(state: State, served: ImageClassifier, image: bytes | str) -> Picture:
    return await state.decode(served, decode_image, image, served.manifest.image, state.settings.max_image_pixels)


async def _generate(request: Request, state: State, served: TextGenerator) -> Response:
    sent = await read_texts(request, state.settings)
    options = sent.options(GenerateOptions)
    served.search(options)  # refuses what cannot be searched before anything is done
    ask = _ask(sent, served)
    if options.stream and len(sent.inputs) > 1:
        raise Unacceptable(f"stream: takes one input, given {len(sent.inputs)}")
    sources = await _sources(state, served, sent, ask, options)
    if options.stream:
        held = contextlib.ExitStack()
        held.enter_context(served.permit(sources, options, looking=ask is not None))
        return Stream(_events(request.state.id, state, served, sources[0], options, ask), held)
    results = await _generate_all(served, sources, options, ask)
    return present.respond(present.answer(request.state.id, served, results))


async def _attend_to_texts(request: Request, state: State, served: TextGenerator) -> Response:
    sent = await read_texts(request, state.settings)
    options = sent.options(GenerateOptions)
    served.search(options)
    if options.stream:
        raise Unacceptable("stream: is for generate; attention is answered whole")
    ask = resolve(sent.attention(asked=True) or AttentionOptions(), served.manifest)
    sources = await _sources(state, served, sent, ask, options)
    results = await _generate_all(served, sources, options, ask)
    shown: list[dict[str, object]] = [{"attention": result["attention"]} for result in results]
    return present.respond(present.answer(request.state.id, served, shown))


async def _sources(
    state: State, served: TextGenerator, sent: Sent, ask: Ask | None, options: GenerateOptions
) -> list[list[Token]]:
    """Tokenize the texts, and refuse an attention answer that could become too large before anything runs."""
    sources = await _together(state.decode(served, served.texts.encode, text) for text in sent.inputs)
    if ask:
        lengths = [served.lengths(len(source), served.limit(options)) for source in sources]
        ask.check_size(lengths, state.settings.max_answer_bytes)
    return sources


async def _generate_all(
    served: TextGenerator, sources: list[list[Token]], options: GenerateOptions, ask: Ask | None
) -> list[dict[str, object]]:
    with served.permit(sources, options, looking=ask is not None):
        return await _together(_generate_one(served, source, options, ask) for source in sources)


async def _generate_one(
    served: TextGenerator, source: list[Token], options: GenerateOptions, ask: Ask | None
) -> dict[str, object]:
    hypothesis = await served.generate(source, options)
    return await _shown(served, source, hypothesis, options, ask)


async def _shown(
    served: TextGenerator, source: list[Token], hypothesis: Hypothesis, options: GenerateOptions, ask: Ask | None
) -> dict[str, object]:
    result = present.sequence(served, hypothesis, served.penalty(options))
    if ask:
        maps = await served.look_at_text(source, hypothesis.tokens, ask)
        result["attention"] = present.text_attention(served, ask, maps, source, hypothesis.tokens)
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
    request_id: str, state: State, served: TextGenerator, source: list[Token], options: GenerateOptions, ask: Ask | None
) -> AsyncIterator[bytes]:
    """Yield an event a token, then the whole answer; leaving the loop early cancels the generation."""
    grown: asyncio.Queue[Hypothesis | None] = asyncio.Queue()
    try:
        async with asyncio.timeout(state.settings.request_seconds):
            task = asyncio.ensure_future(served.generate(source, options, grown.put_nowait))
            task.add_done_callback(lambda _: grown.put_nowait(None))
            try:
                said = ""
                while hypothesis := await grown.get():
                    place, index = len(hypothesis.tokens) - 1, hypothesis.tokens[-1]
                    if index != served.generation.end:
                        text = served.texts.decode(hypothesis.tokens)
                        yield _event("token", {"index": place, "token": index, "text": text[len(said) :]})
                        said = text
                result = await _shown(served, source, await task, options, ask)
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


def _ask(sent: Sent, served: Served) -> Ask | None:
    """Return what the request wants to see beside its prediction, if anything."""
    options = sent.attention(asked=False)
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
