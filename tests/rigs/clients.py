"""Clients that go on asking: half of them on a connection they keep, half on a new one for every request."""

import asyncio
import multiprocessing
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from typing import NamedTuple

from tests.rigs import mixes
from tests.rigs.client import Broken, Connection, Reply
from tests.rigs.load import PATIENCE, wrong


class Asked(NamedTuple):
    """One request: when it was sent and answered (monotonic), how, and by which replica or version."""

    sent: float
    done: float
    status: int
    replica: str
    version: str
    fault: str


@dataclass
class Clients:
    """Many clients in a process of their own, until they are told to stop."""

    port: int
    mix: Mapping[str, float]
    count: int = 200
    pause: float = 0.5
    """Seconds between an answer and the next request, on average."""
    seed: int = 0
    _context: multiprocessing.context.SpawnContext = field(default_factory=lambda: multiprocessing.get_context("spawn"))

    def __enter__(self) -> "Clients":
        self._stop = self._context.Event()
        self._results, sending = self._context.Pipe(duplex=False)
        job = (self.port, dict(self.mix), self.count, self.pause, self.seed, self._stop, sending)
        self._process = self._context.Process(target=_work, args=job, daemon=True)
        self._process.start()
        assert self._results.recv() == "started"
        return self

    def stop(self) -> list[Asked]:
        """Let every client get its last answer; return all that was asked."""
        self._stop.set()
        found: list[Asked] = self._results.recv()
        self._process.join()
        return found

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.kill()


def _work(
    port: int,
    mix: Mapping[str, float],
    count: int,
    pause: float,
    seed: int,
    stop: Event,
    sending: "multiprocessing.connection.Connection",
) -> None:
    found: list[Asked] = []
    stopping = False

    async def client(index: int) -> None:
        chance = random.Random(f"{seed} {index}")
        connection: Connection | None = None
        await asyncio.sleep(chance.uniform(0, 2 * pause))
        while not stopping:
            case = mixes.draw(mix, chance)
            asked, connection = await _ask(port, case, connection)
            found.append(asked)
            if connection and index % 2:
                connection.close()
                connection = None
            await asyncio.sleep(chance.uniform(0, 2 * pause))
        if connection:
            connection.close()

    async def main() -> None:
        nonlocal stopping
        tasks = [asyncio.create_task(client(index)) for index in range(count)]
        sending.send("started")
        await asyncio.to_thread(stop.wait)
        stopping = True
        await asyncio.gather(*tasks)

    asyncio.run(main())
    sending.send(found)


async def _ask(port: int, case: mixes.Case, kept: Connection | None) -> tuple[Asked, Connection | None]:
    """Ask once; what a kept connection was closed on before it was asked anything is asked again, as clients do."""
    sent = time.monotonic()
    status, fault, replica, version = 0, "", "", ""
    connection = kept
    try:
        async with asyncio.timeout(PATIENCE):
            connection = kept or await Connection.open(port)
            reply = await connection.ask(case.request)
        status, fault = reply.status, wrong(case, reply)
        if not fault and status != 200:
            fault = f"{case.name}: status {status}"
        replica, version = reply.headers.get("x-replica", ""), _version(reply)
    except (OSError, Broken, TimeoutError) as error:
        fault = f"{case.name}: {type(error).__name__} {error}{' on a kept connection' if kept else ''}"
        connection = None
    asked = Asked(sent, time.monotonic(), status, replica, version, fault)
    if connection and not connection.reusable:
        connection.close()
        connection = None
    return asked, connection


def _version(reply: Reply) -> str:
    """Return the version that an answer names, and those that its labels name, once each."""
    found = {part.partition(b'"')[0] for part in reply.body.split(b'"version":"')[1:]}
    found |= {part.partition(b" ")[0] for part in reply.body.split(b'"label":"version-')[1:]}
    return " ".join(sorted(one.decode() for one in found))
