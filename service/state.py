"""What lives as long as the application, and the threads that it owns."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Annotated, TypeVar

import structlog
from fastapi import Depends, Request

from service.batching.admission import Budget
from service.concurrency import SharedWork
from service.errors import NotReady, Unacceptable
from service.http.unread_answers import UnreadAnswers
from service.inputs.decoding import Decoded, Rule
from service.inputs.sandbox.decoder_pool import DecoderPool, FileRequest
from service.repository.registry import Registry
from service.runtime.device import Device
from service.settings import Settings
from service.store.stored_request import Store
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracer

T = TypeVar("T")
U = TypeVar("U")
log = structlog.get_logger()

HANG_SECONDS = 30.0
"""A device hangs if one run takes this much longer than the deadline of a request."""


@dataclass
class State:
    """What lives as long as the application."""

    settings: Settings
    models: Registry
    metrics: Metrics
    tracer: Tracer
    device: Device
    store: Store
    unread: UnreadAnswers
    """The bytes of answers that clients have not taken yet."""
    decoders: DecoderPool
    tokenizer_threads: ThreadPoolExecutor
    presenter_threads: ThreadPoolExecutor
    tell_reload: Callable[[], None] | None = None
    """Tells the other workers to reload; None if this is the only process that serves."""
    draining: bool = False
    """True if the service is to end soon, so that nobody should send it more."""
    failure: str | None = None
    """The reason why the service cannot go on, once it cannot."""

    def __post_init__(self) -> None:
        self._decode_seconds = cache(self.metrics.decode_seconds.labels)
        self.metrics_text = SharedWork(self.metrics.text)
        """All metrics, as whoever scrapes them takes them. Their text takes tens of milliseconds."""

    @property
    def ready(self) -> bool:
        """True if there are models, and each can run, as far as is known."""
        return bool(self.models) and all(served.ready for served in self.models.values()) and not self.hung

    @property
    def hung(self) -> bool:
        """True if one run has lasted longer than the deadline of a request plus HANG_SECONDS."""
        return self.hung_seconds > 0

    @property
    def hung_seconds(self) -> float:
        """For how long the device has hung; at most 0 if it does not."""
        return self.device.busy_seconds() - self.settings.request_seconds - HANG_SECONDS

    def check_live(self) -> None:
        """Raise NotReady if the device does not come back from a run."""
        if self.hung:
            raise NotReady("device: does not come back from a run", seconds=1)

    def check_ready(self) -> None:
        """Raise NotReady until every session has run, while one fails or the device hangs, and once told to stop."""
        if self.draining:
            raise NotReady("service: is stopping", seconds=1)
        self.check_live()
        if any(served.state == "failed" for served in self.models.values()):
            raise NotReady("service: the runs of a model fail, its log says why", seconds=1)
        if not self.models:
            raise NotReady("service: no model is loaded", seconds=1)
        if not self.ready:
            raise NotReady("service: is warming up", seconds=1)

    def drain(self) -> None:
        """Announce from now on that the service is to end."""
        self.draining = True
        self.metrics.draining.set(1)

    def fail(self, reason: str) -> None:
        """End the process, which cannot go on."""
        self.failure = reason
        signal.raise_signal(signal.SIGTERM)

    async def decode_texts(self, model: str, decode: Callable[[T], U], texts: Sequence[T]) -> list[U]:
        """Tokenize texts for a model on the thread that does nothing else. Raises what `decode` does."""
        with (
            self.metrics.decode_seconds.labels(model).time(),
            self.tracer.span("decode", {"model": model}),
        ):
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self.tokenizer_threads, lambda: [decode(text) for text in texts])
            except (Exception, asyncio.CancelledError):
                raise
            except BaseException as error:  # a tokenizer's panic is no Exception, and would end more than a request
                log.error("tokenizing panicked", model=model, kind=type(error).__name__)
                raise Unacceptable("input: must be a text that can be tokenized, given one that cannot") from None

    async def decode_file(self, model: str, files: FileRequest, number: int, rule: Rule) -> Decoded:
        """Decode an image or a sound of a request. Raises what `DecoderPool.decode` does."""
        start = time.monotonic()
        try:
            with self.tracer.span("decode", {"model": model}):
                return await files.decode(number, rule)
        finally:
            self._decode_seconds(model).observe(time.monotonic() - start)

    async def present(self, model: str, budget: Budget | None, function: Callable[..., T], *arguments: object) -> T:
        """Run a function that makes an answer of many numbers on threads of their own.

        Its processor time counts as a part of the work that the budget admits: it may take longer than the run. (None
        if no run belongs to it.) If the caller is cancelled, a function that has begun runs on to its end.
        """

        def timed() -> tuple[T, float]:
            start = time.thread_time()
            return function(*arguments), time.thread_time() - start

        with (
            self.metrics.present_seconds.labels(model).time(),
            self.tracer.span("present", {"model": model}),
        ):
            answer, seconds = await asyncio.get_running_loop().run_in_executor(self.presenter_threads, timed)
            if budget:
                budget.spent(0, seconds)
            return answer


async def state(request: Request) -> State:
    """Return the application's state. It is async because FastAPI runs other dependencies on a thread."""
    found: State = request.app.state.regard
    return found


StateDep = Annotated[State, Depends(state)]
