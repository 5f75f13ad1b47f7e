"""Early refusals arrive: bodies that are refused before they have arrived, sent by clients of every kind.

A service that takes bodies of at most 1 MiB is sent larger ones, directly, while it drains, and behind proxies. Every
client must get every answer. Clients and proxies that are not installed are left out, and named.

    python -m tests.rigs.early_refusals --requests 100
"""

import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.rigs import early_clients, report
from tests.rigs.haproxy import Haproxy
from tests.rigs.nginx import UNBUFFERED, Nginx
from tests.rigs.proxy import find
from tests.rigs.replica import Replica
from tests.rigs.report import Verdict

MEGABYTES = (2, 10, 50)
WAYS = ("direct", "draining", "nginx", "nginx unbuffered", "haproxy")
PATH = "/v1/models/digits/classify"
STATUS = "413"


@dataclass
class Early(Verdict):
    """What came of early refusals."""

    requests: int = 0
    """The number of requests of each client, in each way, with each size."""
    absent: list[str] = field(default_factory=list)
    """Clients and proxies that are not installed."""
    lost: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many answers were lost, by way and size, and by client."""


def run(
    artifacts: Path, requests: int, ways: Sequence[str] = WAYS, megabytes: Sequence[int] = MEGABYTES,
    clients: Sequence[str] = tuple(early_clients.CLIENTS),
) -> Early:  # fmt: skip
    """Let every client send every body in every way."""
    result = Early(requests=requests)
    proxies = {name: find(name) for name in ("nginx", "haproxy")}
    result.absent += [name for name in clients if not early_clients.installed(name)]
    result.absent += [way for way in ways if not proxies.get(way.partition(" ")[0], True)]
    with tempfile.TemporaryDirectory() as folder:
        for way in ways:
            if way in result.absent:
                continue
            with _served(artifacts, way) as port:
                for size in megabytes:
                    file = Path(folder) / str(size)
                    file.write_bytes(bytes(size * 1_000_000))
                    for client in clients:
                        if client not in result.absent:
                            _ask(result, way, size, client, f"http://127.0.0.1:{port}{PATH}", file)
    return result


def _ask(result: Early, way: str, size: int, client: str, url: str, file: Path) -> None:
    begun = time.monotonic()
    found = early_clients.ask(client, url, file, result.requests)
    lost = result.requests - found[STATUS]
    result.lost.setdefault(f"{way}, {size} MB", {})[client] = lost
    if lost:
        result.faults.append(f"{way}, {size} MB, {client}: {lost} of {result.requests} lost: {dict(found)}")
    words = f"{way}, {size} MB, {client}: {lost} of {result.requests} lost in {time.monotonic() - begun:.1f} s"
    report.progress("early refusals", words)


@contextlib.contextmanager
def _served(artifacts: Path, way: str) -> Iterator[int]:
    """Give the port that clients are to ask."""
    with Replica(artifacts, max_body_bytes=1 << 20, drain_seconds=3600, log_level="error") as replica:
        if way == "draining":
            replica.process.send_signal(signal.SIGTERM)
            while replica.http.get("/health/ready").status_code == 200:
                time.sleep(0.01)
        try:
            with contextlib.ExitStack() as stack:
                if way.startswith("nginx"):
                    yield stack.enter_context(Nginx(replica.port, UNBUFFERED if "unbuffered" in way else "")).port
                elif way == "haproxy":
                    yield stack.enter_context(Haproxy([replica.port])).port
                else:
                    yield replica.port
        finally:
            if way != "draining":
                replica.process.send_signal(signal.SIGTERM)
                time.sleep(0.2)  # a second signal ends it at once


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Send bodies that are refused early, from clients of every kind.", 100)
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=WAYS)
    parser.add_argument("--megabytes", nargs="*", type=int, default=MEGABYTES)
    parser.add_argument("--clients", nargs="*", default=list(early_clients.CLIENTS), choices=early_clients.CLIENTS)
    given = parser.parse_args()
    with report.only_bundled(given.artifacts) as artifacts:
        found = run(artifacts, given.requests, given.ways, given.megabytes, given.clients)
    return report.finish("early refusals", found)


if __name__ == "__main__":
    sys.exit(main())
