"""TODO: what service/state.py is."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, TypeVar

import structlog
from fastapi import Depends, Request

from service.errors import Unacceptable
from service.inputs.model_input import ModelInput
from service.inputs.sandbox.decoder_pool import DecoderPool
from service.process.workers import Worker
from service.repository.registry import Registry
from service.repository.served_model import ServedModel
from service.runtime.device import Device
from service.settings import Settings
from service.store.stored_request import Store
from service.telemetry import tracing
from service.telemetry.metrics import Metrics

T = TypeVar("T")
log = structlog.get_logger()

HANG_SECONDS = 30.0


@dataclass
class State:
    """What lives as long as the application."""

    settings: Settings
    models: Registry
    metrics: Metrics
    device: Device
    store: Store
    decoders: DecoderPool
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

    async def decode_texts(
        self, served: ServedModel, decode: Callable[[T], ModelInput], texts: Sequence[T]
    ) -> list[ModelInput]:
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

    async def decode_image(self, served: ServedModel, data: bytes) -> ModelInput:
        """Decode an image in a process that it may end. Raises what `Decoders.decode` does."""
        rule = served.manifest.image
        assert rule  # noqa: S101 # the caller looked
        with (
            self.metrics.decode_seconds.labels(served.manifest.name).time(),
            tracing.span("decode", model=served.manifest.name),
        ):
            picture = await self.decoders.decode(data, rule)
        return served.image_item(picture.pixels, picture)

    async def present(self, served: ServedModel, function: Callable[..., T], *arguments: object) -> T:
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
