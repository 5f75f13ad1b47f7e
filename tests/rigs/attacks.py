"""Attacks: what one hostile client does to everybody else.

Each attack runs beside an honest client, which must be answered rightly or be told to come again, and beside a probe of
/health/live every 50 ms over connections of its own. Bodies and headers are sent once each, the others for some
seconds. The service has a core of its own.

    python -m tests.rigs.attacks
"""

import asyncio
import io
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from PIL import Image

from tests.rigs import bodies, mixes, report
from tests.rigs.client import Broken, Connection, Reply, request
from tests.rigs.load import FORBIDDEN, Apart
from tests.rigs.replica import Replica, two_cores
from tests.rigs.report import Verdict

EVERY_SECONDS = 0.05
WORST_SECONDS = 0.1
"""How long /health/live may take at most."""
WORST_SECONDS_OF = {"bursts": 0.25}
HONEST_STATUSES = frozenset({200, 429})
PATIENCE = 60.0
LIVE = request("GET", "/health/live", Connection="close")
STEPS = {"inputs": mixes.DATE, "stream": True, "attention": {"method": "raw", "kind": "cross", "steps": True}}
SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Effect:
    """What an attack did."""

    attack: str
    live_ms: float
    """The slowest answer of /health/live."""
    answers: dict[str, int]
    """Statuses that the attacker saw; 0 of connections that ended without an answer."""
    honest: dict[str, int]
    """Statuses that the honest client saw."""
    honest_ms: float
    """The slowest answer to the honest client."""
    grown_mib: int
    """By how much the memory of all processes grew, from before the attack until its end."""


@dataclass
class Attacked(Verdict):
    """What came of all attacks."""

    worst_live_ms: float = 0.0
    effects: list[Effect] = field(default_factory=list)


@dataclass
class Seen:
    """What a client saw: statuses, the slowest answer in seconds, and what was wrong."""

    statuses: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)


async def idle_connections(port: int, seconds: float) -> Counter[int]:
    """Open more connections than are allowed, and send nothing."""
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1200)]
    await asyncio.sleep(seconds)
    for _, writer in held:
        writer.close()
    return Counter()


async def half_heads(port: int, seconds: float) -> Counter[int]:
    """Send heads that do not end, behind whole requests in the same segment."""
    held = [await Connection.open(port) for _ in range(200)]
    for connection in held:
        connection.leave(request("GET", "/health/live") + b"GET /health/live HTT")
    await asyncio.sleep(seconds)
    for connection in held:
        connection.close()
    return Counter()


async def unfinished_bodies(port: int, seconds: float) -> Counter[int]:
    """Send 30 bodies of 10 MB but for their last bytes, and wait."""
    whole = request("POST", mixes.DIGITS + "/classify", bytes(10_000_000), "image/png")
    held = [await Connection.open(port) for _ in range(30)]
    for connection in held:
        connection.leave(whole[:-100_000])
    await asyncio.sleep(seconds)
    for connection in held:
        connection.reset()
    return Counter()


async def large_pictures(port: int, seconds: float) -> Counter[int]:
    """Send forms of 32 pictures of 16 million pixels each, of a few hundred bytes, on four connections."""
    file = io.BytesIO()
    Image.new("L", (4000, 4000)).save(file, "WEBP")
    part = b'--x\r\nContent-Disposition: form-data; name="image"; filename="i"\r\n\r\n%b\r\n' % file.getvalue()
    form = request("POST", mixes.DIGITS + "/classify", part * 32 + b"--x--\r\n", "multipart/form-data; boundary=x")
    return await _again_and_again(port, seconds, form, 4)


async def many_values(port: int, seconds: float) -> Counter[int]:
    """Send JSON of many values on eight connections."""
    lists = bodies.filled(b'{"images":[', b"[],", b"0]}", 1 << 20)
    return await _again_and_again(port, seconds, request("POST", mixes.DIGITS + "/classify", lists, mixes.JSON), 8)


async def slow_readers(port: int, seconds: float) -> Counter[int]:
    """Ask for 100 streams with maps, and read nothing of them."""
    return await _unread(port, seconds, mixes.document(mixes.DATES + "/generate", **STEPS), 100)


async def unread_answers(port: int, seconds: float) -> Counter[int]:
    """Ask for 60 answers of megabytes, and read nothing of them."""
    return await _unread(port, seconds, mixes.images("/attention?layers=all&heads=all&queries=all", 16), 60)


async def bursts(port: int, seconds: float) -> Counter[int]:
    """Send 1,200 requests on 300 connections at once, and again once they are answered."""
    asked = [
        mixes.image("/classify", mixes.SMALL),
        mixes.document(mixes.DATES + "/generate", inputs=mixes.DATE),
        mixes.document(mixes.DATES + "/generate", **STEPS),
        request("POST", "/v1/models/nobody/classify", b"{}", mixes.JSON),
    ]
    seen: Counter[int] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        held = await asyncio.gather(*(Connection.open(port) for _ in range(300)))
        for place, connection in enumerate(held):
            connection.leave(asked[place % len(asked)] * 4)
        seen += await _all_answers(held, 4)
    return seen


async def _all_answers(held: Sequence[Connection], each: int) -> Counter[int]:
    """Return the statuses of what connections are answered, `each` answers a connection, and close them."""

    async def read(connection: Connection) -> Counter[int]:
        try:
            async with asyncio.timeout(PATIENCE):
                return Counter([(await connection.ask(b"")).status for _ in range(each)])
        except (OSError, Broken, TimeoutError):
            return Counter([0])
        finally:
            connection.close()

    return sum(await asyncio.gather(*map(read, held)), Counter())


async def smuggling(port: int, seconds: float) -> Counter[int]:
    """Send a second request as the body of one that asks for an upgrade. The second must not be answered."""
    body = SMUGGLED + b" " * 40
    first = request("POST", mixes.DATES + "/generate", body, mixes.JSON, Connection="Upgrade", Upgrade="h2c")
    seen: Counter[int] = Counter()
    for cut in (len(first), len(first) - len(body)):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first[:cut])
        await asyncio.sleep(0.2)
        writer.write(first[cut:])
        writer.write_eof()
        answers = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        seen[answers.count(b"HTTP/1.1 200")] += 1
        if b"regard_requests" in answers:
            raise AssertionError("a smuggled request was answered")
    return seen


ATTACKS: Sequence[Callable[[int, float], Awaitable[Counter[int]]]] = (
    idle_connections,
    half_heads,
    unfinished_bodies,
    large_pictures,
    many_values,
    slow_readers,
    unread_answers,
    bursts,
    smuggling,
)


async def _again_and_again(port: int, seconds: float, sent: bytes, connections: int) -> Counter[int]:
    """Send a request again and again on some connections."""
    seen: Counter[int] = Counter()
    end = time.monotonic() + seconds

    async def one() -> None:
        while time.monotonic() < end:
            seen[(await _ask(port, sent)).status] += 1

    await asyncio.gather(*(one() for _ in range(connections)))
    return seen


async def _unread(port: int, seconds: float, sent: bytes, connections: int) -> Counter[int]:
    """Send a request on each of some connections, with small buffers, and read nothing."""
    held = []
    for _ in range(connections):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.setblocking(False)
        await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))
        await asyncio.get_running_loop().sock_sendall(one, sent)
        held.append(one)
    await asyncio.sleep(seconds)
    for connection in held:
        connection.close()
    return Counter()


async def _ask(port: int, sent: bytes) -> Reply:
    """Send a request on a connection of its own; an answer of status 0 says that there was none."""
    try:
        async with asyncio.timeout(PATIENCE):
            connection = await Connection.open(port)
            try:
                return await connection.ask(sent)
            finally:
                connection.close()
    except (OSError, Broken, TimeoutError):
        return Reply(0, {}, b"")


async def _probe(port: int, seconds: float) -> Seen:
    """Ask whether the service lives, each time on a new connection."""
    seen, end = Seen(), time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        status = (await _ask(port, LIVE)).status
        seen.slowest = max(seen.slowest, time.monotonic() - start)
        seen.statuses[status] += 1
        if status != 200:
            seen.faults.append(f"/health/live: status {status}")
        await asyncio.sleep(EVERY_SECONDS)
    return seen


async def _honest(port: int, seconds: float) -> Seen:
    """Ask for predictions as any client does."""
    seen, end = Seen(), time.monotonic() + seconds
    asked = [
        mixes.image("/classify", mixes.SMALL),
        mixes.document(mixes.DATES + "/generate", inputs=mixes.DATE),
        mixes.image("/attention?method=rollout", mixes.SMALL),
    ]
    while time.monotonic() < end:
        for question in asked:
            start = time.monotonic()
            reply = await _ask(port, question)
            seen.slowest = max(seen.slowest, time.monotonic() - start)
            seen.statuses[reply.status] += 1
            if reply.status not in HONEST_STATUSES:
                seen.faults.append(f"an honest client got status {reply.status}")
        await asyncio.sleep(EVERY_SECONDS)
    return seen


async def _watched(port: int, seconds: float) -> tuple[Seen, Seen]:
    return await asyncio.gather(_probe(port, seconds), _honest(port, seconds))


def _watch(port: int, seconds: float) -> tuple[Seen, Seen]:
    return uvloop.run(_watched(port, seconds))


def _send(name: str, port: int, seconds: float) -> Counter[int]:
    return uvloop.run(next(one for one in ATTACKS if one.__name__ == name)(port, seconds))


def _send_once(port: int, sent: bytes) -> tuple[Counter[int], list[str]]:
    reply = uvloop.run(_ask(port, sent))
    found = FORBIDDEN.search(reply.body)
    faults = [f"status {reply.status} tells {found[0]!r}"] if found and reply.status != 200 else []
    return Counter([reply.status]), faults + [f"status {reply.status}"] * (reply.status in (500, 502, 504))


def run(artifacts: Path, seconds: float = 10, only: str = "") -> Attacked:
    """Run every attack whose name holds `only`."""
    served, loading = two_cores()
    result = Attacked()
    with Replica(artifacts, cores=served, log_level="warning") as replica, Apart(loading) as apart:
        for attack in ATTACKS:
            name = attack.__name__.replace("_", " ")
            if only in name:
                before = replica.rss()
                watching = apart.submit(_watch, replica.port, seconds + 1)
                sending: Future[Counter[int]] = apart.submit(_send, attack.__name__, replica.port, seconds)
                _note(result, name, watching, sending.result(), replica.rss() - before)
        for name, sent in bodies.requests():
            if only in name:
                before = replica.rss()
                watching = apart.submit(_watch, replica.port, 1.0)
                once: Future[tuple[Counter[int], list[str]]] = apart.submit(_send_once, replica.port, sent)
                statuses, faults = once.result()
                result.faults += [f"{name}: {fault}" for fault in faults]
                _note(result, name, watching, statuses, replica.rss() - before)
        if replica.process.poll() is not None:
            result.faults.append("the service has ended")
    result.worst_live_ms = max((one.live_ms for one in result.effects), default=0.0)
    return result


def _note(
    result: Attacked, name: str, watching: "Future[tuple[Seen, Seen]]", answers: Counter[int], grown: int
) -> None:
    """Add the effect of an attack to the result, once it was watched for long enough."""
    probe, honest = watching.result()
    effect = Effect(
        name,
        round(probe.slowest * 1000, 1),
        {str(status): count for status, count in sorted(answers.items())},
        {str(status): count for status, count in sorted(honest.statuses.items())},
        round(honest.slowest * 1000, 1),
        grown >> 20,
    )
    result.effects.append(effect)
    result.faults += [f"{name}: {fault}" for fault in (probe.faults + honest.faults)[:3]]
    if probe.slowest > WORST_SECONDS_OF.get(name, WORST_SECONDS):
        result.missed.append(f"{name}: /health/live took {effect.live_ms} ms")
    report.progress("attacks", str(effect))


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Attack the service as a hostile client would.", 0)
    parser.add_argument("--seconds", type=float, default=10, help="of each attack that lasts")
    parser.add_argument("--only", default="", help="run the attacks whose name holds this")
    given = parser.parse_args()
    with report.only_bundled(given.artifacts) as artifacts:
        return report.finish("attacks", run(artifacts, given.seconds, given.only))


if __name__ == "__main__":
    sys.exit(main())
