"""Where the time of a light model's answer goes: `make bench-stations`.

A tiny ViT answers pictures one at a time. The first table has the moments at which a request passes each station, as
the service's own process sees them: medians of many requests. The second says what keeps the device from its next run
when many requests wait. The third has the answers a second, and what one costs the processors, with one station taken
out at a time; all variants alternate, and the ratio to the whole service counts.

`--serve VARIANT` is for the processes that this one starts: the service, with marks or without a station.
"""

import argparse
import asyncio
import atexit
import contextlib
import itertools
import json
import os
import re
import signal
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.running_service import served
from benchmarks.servers import JPEG, TASKS, Asked, cell, loader, paused, rounded, tell
from benchmarks.service import heading

MARKS_FILE = "REGARDED_MARKS"  # not a setting of the service, which refuses unknown ones
REQUESTS = 400
STATIONS = (
    ("received", "the kernel and the client: from the last byte of one answer to the first of the next request"),
    ("application", "parsing HTTP, and starting a task"),
    ("endpoint", "middleware: request id, metrics, gate, limits, fast path"),
    ("decoding", "reading the body and the options, admission"),
    ("decoded", "decoding: to a confined process and back"),
    ("queued", "pixels to an input of the model"),
    ("running", "from the lane to a thread of the device"),
    ("run", "the run"),
    ("answered", "from the thread back to the request"),
    ("written", "softmax, labels, the store of requests, JSON"),
    ("sent", "middleware and HTTP again"),
    ("logged", "metrics and the line in the log, after the answer was sent"),
)
BETWEEN_RUNS = (
    ("told", "until the event loop knows that a run has ended"),
    ("begun", "until it has begun the next batch"),
    ("running", "until that runs: the thread wakes, gets the GIL and stacks the inputs"),
)


# In the service's process


def without_log():
    """Write no line for a request."""
    os.environ["REGARD_LOG_LEVEL"] = "error"


def without_store():
    """Store no request."""
    os.environ["REGARD_KEEP_COUNT"] = "0"


def without_confinement():
    """Decode on threads of the service."""
    os.environ["REGARD_DECODE"] = "threads"


def without_metrics():
    """Count nothing."""
    from prometheus_client import Counter, Gauge, Histogram

    for kind, names in ((Counter, ["inc"]), (Gauge, ["inc", "dec", "set"]), (Histogram, ["observe"])):
        for name in names:
            setattr(kind, name, lambda *_, **__: None)


def without_gate():
    """Check no host, key, path and size, and bound no body."""
    import service.app

    for name in ("Gate", "BodyLimits"):
        patch_class(getattr(service.app, name))


def patch_class(kind):
    async def passed_on(self, scope, receive, send):
        from service.http.exchange import exchange_of

        exchange = exchange_of(scope)

        async def noted():
            message = await receive()
            if not message.get("more_body"):
                exchange.body_read = True
            return message

        await self.app(scope, noted, send)

    kind.__call__ = passed_on


def without_deadline():
    """Wait for the answer without a deadline, and without watching whether the client leaves."""
    import service.answering.call

    async def answer(_, work, __):
        return await work

    service.answering.call.answer_in_time = answer


VARIANTS = {
    "confinement": without_confinement,
    "the log's line": without_log,
    "metrics": without_metrics,
    "the store of requests": without_store,
    "gate and limits of bodies": without_gate,
    "deadline, and watch for a client that leaves": without_deadline,
}


def mark_stations(file):
    """Write the moments at which requests pass the stations to a file at the end."""
    from service.api import fast_path, responses
    from service.batching.batcher import Lane
    from service.http.bounded_protocol import BoundedHttpProtocol
    from service.http.request_log import RequestLog
    from service.inputs.sandbox.decoder_pool import DecoderPool
    from service.runtime import device
    from service.runtime.session import Session

    passed, clock = [], time.perf_counter_ns

    def mark(name):
        passed.append((name, clock()))

    def around(owner, name, before, after):
        whole = getattr(owner, name)

        def call(*arguments, **options):
            if before:
                mark(before)
            try:
                return whole(*arguments, **options)
            finally:
                if after:
                    mark(after)

        async def wait(*arguments, **options):
            if before:
                mark(before)
            try:
                return await whole(*arguments, **options)
            finally:
                if after:
                    mark(after)

        setattr(owner, name, wait if asyncio.iscoroutinefunction(whole) else call)

    around(BoundedHttpProtocol, "data_received", "received", None)
    around(RequestLog, "__call__", "application", "logged")
    around(fast_path.FastPath, "__call__", "endpoint", None)
    around(DecoderPool, "run", "decoding", "decoded")
    around(Lane, "submit", "queued", "answered")
    around(Session, "run", "running", "run")
    around(responses, "respond", None, "written")
    around(RequestLog, "_record", "sent", None)
    around(device.Turn, "_finish", "told", None)
    around(device._Thread, "begin", "begun", None)
    atexit.register(lambda: Path(file).write_text(json.dumps(passed)))


def serve(variant):
    """Run the service in this process, with marks where the environment asks for them."""
    if variant in VARIANTS:
        VARIANTS[variant]()
    if file := os.environ.pop(MARKS_FILE, None):
        mark_stations(file)
    from service.__main__ import main

    sys.argv[1:] = []
    sys.exit(main())


# Measuring


def spans(asked, folder):
    """Return the median milliseconds of each station, and of the whole."""
    file = Path(folder) / "marks.json"
    with started(asked, "nothing", **{MARKS_FILE: str(file)}) as client:
        head = f"POST /v1/models/tiny/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JPEG}\r\n"
        request = f"{head}Content-Length: {len(asked.sent[0])}\r\n\r\n".encode() + asked.sent[0]
        with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
            for _ in range(REQUESTS):
                connection.sendall(request)  # in one piece, so that one event of the loop reads it
                read_answer(connection)
    found, last = [], {}
    for name, at in json.loads(file.read_text()):
        if name == "received" and all(station in last for station, _ in STATIONS):
            found.append(last)
            last = {"answered before": last["sent"]}
        last[name] = at
    names = [name for name, _ in STATIONS]
    found = found[REQUESTS // 4 :]
    rows = {
        name: [one[name] - one[before] for one in found]
        for before, name in zip(["answered before", *names], names, strict=False)
    }
    rows["whole"] = [one["sent"] - one["received"] for one in found]
    return {name: statistics.median(values) / 1e6 for name, values in rows.items()}


def between_runs(asked, folder, concurrency, seconds):
    """Return what the device does under load: answers a second, inputs a run, the part of the time in runs, and spans.

    The spans are medians in milliseconds: of the whole way from one run to the next, and of its parts.
    """
    file = Path(folder) / "marks.json"
    with started(asked, "nothing", **{MARKS_FILE: str(file)}) as client:
        server = client.process.pid, f"{client.base_url}/v1/models/tiny/classify"
        rate = cell(server, asked, JPEG, concurrency, seconds)["rate"]
    marks = sorted(json.loads(file.read_text()), key=lambda mark: mark[1])  # of the loop and of the thread
    end = max(at for name, at in marks if name == "run")  # of the load: the service makes marks when it stops, too
    marks = [(name, at) for name, at in marks if end - seconds * 1e9 < at <= end]
    names = [name for name, _ in marks]
    computed, spans, last = 0.0, [], {}
    for name, at in marks:
        if name == "run" and "running" in last:
            computed += at - last["running"]
        if name == "running" and {"run", "told", "begun"} <= last.keys():
            moments = [last["run"], last["told"], last["begun"], at]
            spans.append([(end - start) / 1e6 for start, end in itertools.pairwise(moments)])
        last[name] = at
    whole, *parts = (statistics.median(values) for values in zip(*((sum(one), *one) for one in spans), strict=True))
    busy = computed / (marks[-1][1] - marks[0][1])
    return [rounded(rate), f"{names.count('answered') / names.count('run'):.1f}", f"{busy:.2f}"] + [
        f"{one:.2f}" for one in (whole, *parts)
    ]


def read_answer(connection):
    """Read one whole answer. Raises RuntimeError unless it is good."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, content = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
    while len(content) < length:
        content += connection.recv(1 << 16)
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"the service answers {content[:200]!r}")


@contextlib.contextmanager
def started(asked, variant, **environment):
    """Run the service without one station until the block ends."""
    command = ["-m", "benchmarks.stations", "--serve", variant]
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        with served(asked.artifact.folder.parent.parent, command=command) as client:
            os.environ.clear()
            os.environ.update(before)
            yield client
    finally:
        os.environ.clear()
        os.environ.update(before)


def rates(asked, seconds, rounds):
    """Return for each variant its cells (rate, milliseconds of processors) by requests at a time."""
    found = {}
    with contextlib.ExitStack() as running:
        servers = {}
        for variant in ("nothing", *VARIANTS):
            client = running.enter_context(started(asked, variant))
            servers[variant] = client.process.pid, f"{client.base_url}/v1/models/tiny/classify"
            running.enter_context(paused_at_end(client.process.pid))
        for concurrency in (1, 64):
            for _ in range(rounds):
                for variant, server in servers.items():
                    with contextlib.ExitStack() as others:
                        for other, (pid, _) in servers.items():
                            if other != variant:
                                others.enter_context(paused(pid))
                        one = cell(server, asked, JPEG, concurrency, seconds)
                    found.setdefault(variant, {}).setdefault(concurrency, []).append((one["rate"], one["cpu"]))
    return found


@contextlib.contextmanager
def paused_at_end(pid):
    """Make sure that a process is not paused when it is told to end."""
    try:
        yield
    finally:
        tell([pid], signal.SIGCONT)


def main():
    """Print a section for RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stations", description=__doc__)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=int, default=2, help="of a cell")
    parser.add_argument("--rounds", type=int, default=5, help="of cells")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    print(heading("make bench-stations"))
    with tempfile.TemporaryDirectory() as folder:
        asked = Asked(Path(folder), "tiny", TASKS["tiny"])
        medians = spans(asked, folder)
        print("| until | ms | what happens |\n|---|---|---|")
        for name, what in STATIONS:
            print(f"| {name} | {medians[name]:.3f} | {what} |")
        print(f"| **from received to sent** | **{medians['whole']:.3f}** | |\n\nLoad from {loader()}.\n")
        heads = ["at a time", "answers/s", "inputs a run", "part of the time in runs", "ms from run to run"]
        print(f"| {' | '.join([*heads, *(what for _, what in BETWEEN_RUNS)])} |\n|{'---|' * 8}")
        for concurrency in (8, 64):
            row = between_runs(asked, folder, concurrency, arguments.seconds)
            print(f"| {concurrency} | {' | '.join(row)} |", flush=True)
        print()
        found = rates(asked, arguments.seconds, arguments.rounds)
    print("| without | 1 at a time, answers/s | of the whole | CPU ms | 64 at a time | of the whole | CPU ms |")
    print("|---|---|---|---|---|---|---|")
    for variant, cells in found.items():
        row = []
        for concurrency in (1, 64):
            whole = found["nothing"][concurrency]
            ratio = [one / base for (one, _), (base, _) in zip(cells[concurrency], whole, strict=True)]
            row.append(rounded(statistics.median(rate for rate, _ in cells[concurrency])))
            row.append(f"{statistics.median(ratio):.2f}x ({min(ratio):.2f} to {max(ratio):.2f})")
            row.append(f"{statistics.median(cost for _, cost in cells[concurrency]):.2f}")
        print(f"| {variant} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
