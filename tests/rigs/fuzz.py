"""Hostile input by the hundred thousand: no answer says that the service failed or what it is made of, nothing hangs.

What OpenAPI promises is tried by schemathesis; bodies are spoilt by hypothesis; framing and floods come over raw
sockets. The service must stay live throughout.

    python -m tests.rigs.fuzz --requests 100000 --seed 1
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given

from tests.rigs import mixes, mutate, report
from tests.rigs.client import Broken, Connection, Reply, request
from tests.rigs.load import FORBIDDEN
from tests.rigs.replica import Replica
from tests.rigs.report import Verdict
from tests.rigs.sockets import ATTACKS, CLOSED, Attack, attack

CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
SHARES = {
    "json": 0.08,
    "document": 0.08,
    "multipart": 0.05,
    "png": 0.07,
    "jpeg": 0.07,
    "webp": 0.05,
    "gif": 0.02,
    "bmp": 0.02,
    "tiff": 0.03,
    "avif": 0.03,
    "infer": 0.1,
    "completions": 0.05,
    "pipelines": 0.05,
    "objects": 0.1,
    "spoilt": 0.1,
}
"""The share of each kind in all requests; the rest is schemathesis' and the sockets'."""
HANG = 35.0
"""The seconds after which a request hangs: its own deadline, and some."""
WAIT = 0.25
"""Seconds until a request that was cut short is left alone."""
LIVE_MEDIAN, LIVE_MOST = 0.1, 1.0


class Unexpected(Exception):
    """An answer that must never be."""


@dataclass
class Fuzzed(Verdict):
    """What came of hostile input; durations are of `/health/live`, asked in between."""

    seed: int = 0
    sent: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    live_median_ms: float = 0.0
    live_most_ms: float = 0.0

    @property
    def total(self) -> int:
        """How many requests were sent."""
        return sum(self.sent.values())


class Prober:
    """Sends one request after another, and asks in between whether the service is live."""

    def __init__(self, port: int, result: Fuzzed, every: int) -> None:
        self._port, self._result, self._every = port, result, every
        self._loop = asyncio.new_event_loop()
        self._kept: Connection | None = None
        self._since = 0
        self.live: list[float] = []

    def send(self, kind: str, sent: bytes) -> None:
        """Send a whole request. Raises Unexpected for an answer that must not be, or for none."""
        self._count(kind, 1)
        self._check(kind, self._loop.run_until_complete(self._ask(sent)))
        self._look()

    def send_spoilt(self, kind: str, sent: Sequence[bytes]) -> None:
        """Send requests of which some are cut short, each on a connection of its own."""
        self._count(kind, len(sent))

        async def together() -> list[Reply | None]:
            attacks = (attack(self._port, Attack(kind, [one]), WAIT) for one in sent)
            return await asyncio.gather(*attacks)

        for reply in self._loop.run_until_complete(together()):
            if reply:
                self._check(kind, reply)
        self._look()

    def attack(self, one: Attack) -> None:
        """Send an attack. Raises Unexpected for an answer that is not right."""
        self._count("sockets", 1)
        reply = self._loop.run_until_complete(attack(self._port, one, 1.0))
        status = reply.status if reply else CLOSED
        if status not in one.right:
            raise Unexpected(f"{one.name}: status {status}")
        if reply:
            self._check(one.name, reply)
        self._look()

    def close(self) -> None:
        """Close connections."""
        if self._kept:
            self._kept.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _count(self, kind: str, many: int) -> None:
        self._result.sent[kind] = self._result.sent.get(kind, 0) + many
        self._since += many

    def _check(self, kind: str, reply: Reply) -> None:
        statuses = self._result.statuses
        statuses[str(reply.status)] = statuses.get(str(reply.status), 0) + 1
        if reply.status >= 500 and reply.status not in (503, 504):
            raise Unexpected(f"{kind}: status {reply.status}: {reply.body[:200]!r}")
        if reply.status >= 400 and (found := FORBIDDEN.search(reply.body)):
            raise Unexpected(f"{kind}: status {reply.status} tells {found[0]!r}: {reply.body[:300]!r}")

    def _look(self) -> None:
        """Ask whether the service is live, now and then."""
        if self._since < self._every:
            return
        self._since = 0
        start = time.monotonic()
        reply = self._loop.run_until_complete(self._ask(request("GET", "/health/live")))
        self.live.append(time.monotonic() - start)
        if reply.status != 200:
            raise Unexpected(f"/health/live: status {reply.status}")

    async def _ask(self, sent: bytes) -> Reply:
        old = self._kept
        connection = old or await Connection.open(self._port)
        try:
            async with asyncio.timeout(HANG):
                reply = await connection.ask(sent)
        except Broken as error:
            connection.close()
            self._kept = None
            if old:  # it may have been closed while it was idle
                return await self._ask(sent)
            raise Unexpected(f"closed without an answer: {sent[:200]!r}") from error
        except TimeoutError as error:
            raise Unexpected(f"no answer within {HANG:g} seconds: {sent[:200]!r}") from error
        self._kept = connection if connection.reusable else None
        if not connection.reusable:
            connection.close()
        return reply


def run(
    artifacts: Path, requests: int, seed: int = 0, *, attacks: Sequence[Attack] = ATTACKS, conformance: bool = True
) -> Fuzzed:
    """Send requests of all kinds; `conformance` runs schemathesis too, which takes some seconds to begin."""
    result = Fuzzed(seed=seed)
    with Replica(artifacts, log_level="warning") as replica:
        every = 1 if requests <= 2000 else 20
        prober = Prober(replica.port, result, every)
        for name, share in SHARES.items() if requests else ():
            many = int(requests * share)
            report.progress("fuzz", f"{name}: {many} requests, seed {seed}")
            with _noting(result):
                if name == "spoilt":
                    hunt(lambda sent: prober.send_spoilt("spoilt", sent), mutate.SPOILT_WHOLE, many // 12, seed)
                else:
                    hunt(lambda sent, name=name: prober.send(name, sent), mutate.REQUESTS[name], many, seed)
        for task in attacks:
            with _noting(result):
                prober.attack(task)
        if conformance:
            left = requests - result.total
            report.progress("fuzz", f"schemathesis: about {left} requests, seed {seed}")
            _conform(replica, max(left // 60, 3), seed, result)
        prober.close()
        result.live_median_ms = round(statistics.median(prober.live or [0]) * 1000, 2)
        result.live_most_ms = round(max(prober.live, default=0) * 1000, 1)
        if replica.process.poll() is not None:
            result.faults.append("the service has ended")
    if result.live_median_ms > LIVE_MEDIAN * 1000 or result.live_most_ms > LIVE_MOST * 1000:
        result.missed.append(
            f"/health/live: {result.live_median_ms} ms in the median, {result.live_most_ms} ms at most"
        )
    return result


def hunt(
    send: Callable[[Any], None], strategy: "hypothesis.strategies.SearchStrategy[object]", examples: int, seed: int
) -> None:
    """Send examples until one is answered wrongly; that one is made small before it is raised."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(examples, 1),
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(strategy)
    def hunting(sent: object) -> None:
        send(sent)

    hunting()


@contextlib.contextmanager
def _noting(result: Fuzzed) -> Iterator[None]:
    try:
        yield
    except Unexpected as error:
        result.faults.append("; ".join([str(error), *getattr(error, "__notes__", [])])[:600])


def _conform(replica: Replica, examples: int, seed: int, result: Fuzzed) -> None:
    """Let schemathesis try what OpenAPI promises, with the models that there are."""
    schema = replica.http.get("/openapi.json").json()
    models = {"type": "string", "enum": [one["name"] for one in replica.http.get("/v1/models").json()["models"]]}
    schema["components"]["parameters"]["path_model"]["schema"] = models
    for described in schema["components"]["schemas"].values():
        if "model" in described.get("properties", {}) and described.get("additionalProperties") is False:
            described["properties"]["model"] = models  # of requests; answers may have more members
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "openapi.json").write_text(json.dumps(schema))
        found = Path(folder) / "found.json"
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{folder}/openapi.json", "--no-color", "--url"),
            *(f"http://127.0.0.1:{replica.port}", "--checks", ",".join(CHECKS), "--max-examples", str(examples)),
            *("--seed", str(seed), "--generation-database", "none", "--suppress-health-check", "all"),
            *("--report", "json", "--report-json-path", str(found), "--request-timeout", str(HANG)),
            *(("--phases", "fuzzing") if examples < 10 else ()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if not found.exists():
            result.faults.append(f"schemathesis: {done.stderr[-600:]}")
            return
        told = json.loads(found.read_text())
    result.sent["schemathesis"] = told["test_cases"]["generated"]
    result.faults += [f"schemathesis: {json.dumps(failure)[:600]}" for failure in told["failures"][:10]]
    result.faults += [f"schemathesis: {json.dumps(error)[:600]}" for error in told["errors"][:10]]


def main() -> int:
    """Run from the command line."""
    given_ = report.arguments("Send hostile input.", 100_000).parse_args()
    with report.only_bundled(given_.artifacts, mixes.DETECTOR) as artifacts:
        return report.finish("fuzz", run(artifacts, given_.requests, given_.seed))


if __name__ == "__main__":
    sys.exit(main())
