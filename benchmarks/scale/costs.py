"""What a request costs: processor time of all processes of the service, memory, and bytes in, out and stored."""

import json
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import redis

from benchmarks.peers import ROOT, log
from benchmarks.running_service import free_port, served
from benchmarks.servers import JPEG, computed, family, jpegs, load
from benchmarks.service import SEVEN
from benchmarks.start import used
from service.store.redis_store import ENTRY_KEY_PREFIX, SIZES_KEY, TIMES_KEY

FILE = ROOT / "benchmarks/scale/costs.json"
JSON, PNG = "application/json", "image/png"
TEXT = "Attention maps of a served model show which of the words of a text its embedding was made of, layer by layer."
DATE = "the twenty-third of March 2021"
EVERY = "layers=all&heads=all&queries=all"
LIKENESS = {"method": "libra", "against": {"text": "Where a model looks."}}
EVERY_WEIGHT = {"method": "raw", "layers": "all", "heads": "all", "queries": "all"}


@dataclass(frozen=True)
class Kind:
    """A kind of request: its path, with the query, and its body."""

    model: str
    name: str
    path: str
    body: bytes
    content: str = JSON


@dataclass(frozen=True)
class Cost:
    """What a request of one kind took."""

    model: str
    name: str
    alone_ms: tuple[float, ...]
    """The time of a request by the clock, one at a time: its percentiles 2, 4 and so on, from least to most."""
    processor_ms: float
    """The processor time of a request in all processes of the service, at 16 at a time."""
    processor_alone_ms: float
    every_ms: float
    """The time from answer to answer by the clock, at 16 at a time: 1000 over the answers a second."""
    sent: int
    answered: int
    stored: int
    """Bytes of a request, of its answer, and of the store's memory for it."""
    peak_mb: float
    """The service's memory while these were answered."""


def document(**content):
    """Return JSON as bytes."""
    return json.dumps(content).encode()


def image_kinds(model, data, content):
    """Return the kinds of requests to a model of images."""
    path = f"/v1/models/{model}/classify"
    return [
        Kind(model, "no maps", path, data, content),
        Kind(model, "rollout", f"{path}?attention=rollout", data, content),
        Kind(model, "every weight, uint8", f"{path}?attention=raw&{EVERY}&encoding=base64&dtype=uint8", data, content),
        Kind(model, "libra", f"{path}?attention=libra", data, content),
    ]


def kinds():
    """Return the kinds of requests by model, light models first."""
    photograph = jpegs((500, 375))[0]
    generate, embed = "/v1/models/dates/generate", "/v1/models/minilm/embed"
    return {
        "digits": image_kinds("digits", SEVEN, PNG),
        "dates": [
            Kind("dates", "no maps", generate, document(inputs=DATE)),
            Kind("dates", "raw, last layer", generate, document(inputs=DATE, attention={"method": "raw"})),
            Kind("dates", "every weight", generate, document(inputs=DATE, attention=EVERY_WEIGHT)),
        ],
        "minilm": [
            Kind("minilm", "no maps", embed, document(inputs=TEXT)),
            Kind("minilm", "rollout", embed, document(inputs=TEXT, attention={"method": "rollout"})),
            Kind("minilm", "every weight", embed, document(inputs=TEXT, attention=EVERY_WEIGHT)),
            Kind("minilm", "libra", embed, document(inputs=TEXT, attention=LIKENESS)),
        ],
        "deit-s": image_kinds("deit-s", photograph, JPEG),
    }


class Watched:
    """The most memory (PSS) that the processes of a service had, sampled twice a second."""

    def __init__(self, pid):
        self.peak = 0.0
        self._pid, self._done = pid, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(0.5):
            try:
                held = sum(used(pid)[1] for pid in family(self._pid))
            except (OSError, StopIteration):  # one of them has just ended
                continue
            self.peak = max(self.peak, held)


@contextmanager
def redis_server():
    """Run a Redis server that keeps nothing on disk until the block ends; gives a client and its URL."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, retry_on_timeout=True)
    try:
        until = time.monotonic() + 5
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        yield client, f"redis://127.0.0.1:{port}"
    finally:
        client.close()
        process.terminate()
        process.wait(timeout=10)


def stored_bytes(store):
    """Return the memory that the request which was stored last takes in Redis, with its share of the two indexes."""
    (name,) = store.zrange(TIMES_KEY, -1, -1)
    indexes = sum(store.memory_usage(key, samples=0) for key in (TIMES_KEY, SIZES_KEY))
    return round(store.memory_usage(ENTRY_KEY_PREFIX + name.decode()) + indexes / store.zcard(TIMES_KEY))


def measure(kind, client, store, seconds):
    """Return what requests of one kind cost."""
    headers = {"Content-Type": kind.content}

    def ask():
        answer = client.post(kind.path, content=kind.body, headers=headers)
        answer.raise_for_status()
        return answer

    for _ in range(3):
        answer = ask()
    sent = len(kind.body) + sum(len(name) + len(value) + 4 for name, value in answer.request.headers.raw)
    answered = len(answer.content) + sum(len(name) + len(value) + 4 for name, value in answer.headers.raw)
    alone, before = [], computed(client.process.pid)
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(alone) < 20:
        start = time.perf_counter()
        ask()
        alone.append(1000 * (time.perf_counter() - start))
    processor_alone = 1000 * (computed(client.process.pid) - before) / len(alone)
    span = round(max(seconds, 60 * statistics.median(alone) / 1000))
    with tempfile.NamedTemporaryFile() as file, Watched(client.process.pid) as watched:
        file.write(kind.body)
        file.flush()
        before = computed(client.process.pid)
        # long enough that those under way at the end, which are not counted, are few
        cell = load(f"{str(client.base_url).rstrip('/')}{kind.path}", file.name, kind.content, 16, span)
        processor = 1000 * (computed(client.process.pid) - before) / max(cell["count"], 1)
    return Cost(
        model=kind.model,
        name=kind.name,
        alone_ms=tuple(round(value, 3) for value in statistics.quantiles(alone, n=50)),
        processor_ms=round(processor, 3),
        processor_alone_ms=round(processor_alone, 3),
        every_ms=round(1000 / cell["rate"], 3),
        sent=sent,
        answered=answered,
        stored=stored_bytes(store),
        peak_mb=round(watched.peak),
    )


def main(artifacts, models, seconds, file):
    """Measure every kind of these models, add the figures to a file, and print all of it as a table."""
    if not shutil.which("redis-server"):
        raise SystemExit("redis-server is not installed: it is a package of Debian (redis-server)")
    found = read(file) if file.exists() else {}
    for model in models:
        with tempfile.TemporaryDirectory() as folder, redis_server() as (store, url):
            (Path(folder) / model).symlink_to((artifacts / model).resolve())
            start = time.perf_counter()
            with served(folder, redis_url=url, keep_count=1_000_000, keep_bytes=1 << 33) as client:
                ready = time.perf_counter() - start
                held = sum(used(pid)[1] for pid in family(client.process.pid))
                log(f"{model}: ready after {ready:.1f} s, {held:.0f} MB")
                for kind in kinds()[model]:
                    found[model, kind.name] = measure(kind, client, store, seconds)
        file.write_text(json.dumps([asdict(cost) for cost in found.values()]) + "\n")
    print(table(found.values()))


def table(found):
    """Return the figures as a table."""
    head = (
        "| model | request | alone, ms (median; 98 %) | core-ms alone | core-ms at 16 | answers/s at 16 | bytes in "
        "| bytes out | bytes kept | peak, MB |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    rows = [
        f"| {cost.model} | {cost.name} | {cost.alone_ms[24]:.1f}; {cost.alone_ms[-1]:.1f} "
        f"| {cost.processor_alone_ms:.1f} | {cost.processor_ms:.1f} | {1000 / cost.every_ms:.1f} | {cost.sent:,} "
        f"| {cost.answered:,} | {cost.stored:,} | {cost.peak_mb:.0f} |"
        for cost in found
    ]
    return "\n".join([head, *rows])


def read(file=FILE):
    """Return the figures that were measured, by model and kind."""
    return {
        (one["model"], one["name"]): Cost(**{**one, "alone_ms": tuple(one["alone_ms"])})
        for one in json.loads(file.read_text())
    }
