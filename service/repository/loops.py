"""The loops of loaded models: each model has its own, and a replaced one keeps them until its last answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from service.batching.batcher import Lane
from service.repository.models.served_model import ServedModel
from service.runtime.memory import trim_heap

log = structlog.get_logger()


class Loops:
    """Runs the loops of models, and ends models that were replaced or removed. It needs an event loop.

    `prepare` makes the lanes of a model, of which some are loops.
    """

    def __init__(self, prepare: Callable[[ServedModel], None]) -> None:
        self._prepare = prepare
        self._tasks: dict[ServedModel, list[asyncio.Task[None]]] = {}
        self._retiring: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, served: ServedModel) -> None:
        """Make the lanes of a model, and run its loops."""
        self._prepare(served)
        self._tasks[served] = [asyncio.create_task(_supervised(work)) for work in served.loops()]

    def retire(self, served: ServedModel) -> None:
        """Let a model that was replaced or removed answer its last requests, then end it."""
        task = asyncio.create_task(self._end_when_unused(served))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def end(self, served: ServedModel) -> None:
        """End the loops of a model, close its sessions, and break the cycle of references between it and its lanes.

        A garbage collection of all that the process holds would stop the event loop for a tenth of a second.
        """
        await self._stop(served)
        for session in served.sessions.values():
            session.close()
        for lane in served.lanes:
            if isinstance(lane, Lane):
                lane.end()
        served.partner = None

    async def close(self) -> None:
        """End the loops of all models."""
        for task in self._retiring:
            task.cancel()
        for served in list(self._tasks):
            await self._stop(served)

    async def _end_when_unused(self, served: ServedModel) -> None:
        await served.uses.idle.wait()
        await self.end(served)
        log.info("model retired", model=served.manifest.name, version=served.manifest.version)
        del served
        await asyncio.to_thread(trim_heap)

    async def _stop(self, served: ServedModel) -> None:
        tasks = self._tasks.pop(served)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _supervised(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a loop, and start it again if it fails, so that one request cannot end the service for later ones."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("loop failed, and is started again")
            await asyncio.sleep(1)  # a loop that always fails must not fill the log
