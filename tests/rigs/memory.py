"""Memory under the heaviest legal load: with the defaults, the service must stay below the limits that we ship.

It serves digits and dates from a control group with the smallest limit of docker-compose.yml and k8s/ for a CPU, and
takes requests of every kind that are as large as admission allows, many at once. The kernel must end no process, and
what cannot be reclaimed must stay below the limit by a margin. Where no control group can be made, the proportional
set sizes of all processes are summed instead.

    python -m tests.rigs.memory --seconds 180
"""

import asyncio
import base64
import functools
import io
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import yaml
from PIL import Image

from tests.conftest import ROOT
from tests.rigs import mixes, report
from tests.rigs.client import Broken, Connection, request
from tests.rigs.memory_group import Group, Watch
from tests.rigs.replica import Replica
from tests.rigs.report import Verdict

CLIENTS = 63
MARGIN = 0.1
"""The share of the limit that must stay free."""
SETTLED_SECONDS = 5.0
"""The seconds after the last answer within which memory is given back."""
PATIENCE = 90.0
RIGHT = frozenset({200, 429, 503, 504})
"""Under this load, a request is answered, or refused for lack of room or time."""
TOO_SLOW = b"given one that takes longer"
"""What a refusal says of an image that was not decoded in time."""


def shipped_limit() -> int:
    """Return the least of the memory limits, in bytes, that docker-compose.yml and k8s/ give a service on a CPU."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    found = [compose[name]["deploy"]["resources"]["limits"]["memory"] for name in ("api-cpu", "api-one", "api-two")]
    deployment = yaml.safe_load((ROOT / "k8s/base/deployment.yaml").read_text())
    containers = deployment["spec"]["template"]["spec"]["containers"]
    found += [one["resources"]["limits"]["memory"] for one in containers if one["name"] == "api"]
    return min(map(bytes_of, found))


def bytes_of(amount: str) -> int:
    """Return the bytes of an amount as compose (`2g`, `512m`) or Kubernetes (`2Gi`, `512Mi`) writes it."""
    number = amount.rstrip("gmkiGMKB")
    power = {"": 0, "k": 1, "m": 2, "g": 3}[amount[len(number) :].lower().removesuffix("i")]
    return int(number) << (10 * power)


# What is sent


@functools.cache
def photograph(kind: str) -> bytes:
    """Return an image of nearly 16 megapixels, whose sides are odd, so that no decoder can take a smaller scale."""
    side = 3999
    rows, columns = np.mgrid[0:side, 0:side]
    gray = 255 - 200 * (((rows - side / 2) ** 2 / 2 + (columns - side / 2) ** 2) < (side / 5) ** 2).astype(np.uint8)
    file = io.BytesIO()
    if kind == "deep":
        Image.fromarray(gray.astype(np.uint16) * 257).save(file, "PNG")
    elif kind == "transparent":
        layers = np.stack([gray, gray, gray, 255 - gray // 2], axis=-1)
        Image.fromarray(layers, "RGBA").save(file, "PNG", compress_level=1)
    else:
        Image.fromarray(gray).convert("RGB").save(file, kind.upper(), quality=70)
    return file.getvalue()


def form(path: str, images: list[bytes], **options: object) -> bytes:
    """Return a request with images and options as a form."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in options.items()
    ]
    head = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\nContent-Type: image/png\r\n\r\n'
    parts += [head + image + b"\r\n" for image in images]
    return request("POST", mixes.DIGITS + path, b"".join(parts) + b"--x--\r\n", "multipart/form-data; boundary=x")


def _scans(count: int) -> list[bytes]:
    small = sorted(mixes.SCANS, key=len)[:8]
    return [small[index % len(small)] for index in range(count)]


EVERY = {"layers": "all", "heads": "all", "queries": "all"}
TEXT = "the twenty-third of March 2021, which was a Tuesday, in the evening, as far as anybody remembers"[:96]


def _posted(kind: str, count: int) -> bytes:
    images = [base64.b64encode(photograph(kind)).decode()] * count
    return mixes.document(mixes.DIGITS + "/classify", images=images)


def _generated(count: int, **attention: object) -> bytes:
    return mixes.document(mixes.DATES + "/attention", inputs=[TEXT] * count, attention=attention)


MAKERS: Mapping[str, Callable[[], bytes]] = {
    "every weight, json": lambda: form("/attention", _scans(32), **EVERY, digits=3),
    "every weight, base64": lambda: form("/attention", _scans(32), **EVERY, encoding="base64"),
    "every weight, npz": lambda: form("/attention", _scans(32), **EVERY, format="npz"),
    "every norm": lambda: form("/attention", _scans(32), method="norm", layers="all", queries="all", digits=9),
    "rollout": lambda: form("/attention", _scans(32), queries="all", method="rollout", discard=0.5, diagnostics="true"),
    "relevance, json": lambda: form(
        "/attention", _scans(32), method="relevance", queries="all", digits=4, target="0,1,2,3,4,5,6,7,8,9"
    ),
    "relevance, npz": lambda: form(
        "/attention", _scans(32), method="relevance", queries="all", format="npz", target="0,1,2,3,4,5,6,7,8,9"
    ),
    "evaluation": lambda: form("/attention", _scans(8), method="rollout", evaluate="deletion,insertion"),
    "overlay": lambda: form("/attention", [photograph("jpeg")], format="png"),
    "overlays": lambda: form("/attention", _scans(1), format="png", layers="all", heads="all"),
    "photographs": lambda: form("/classify", [photograph("jpeg")] * 2),
    "deep photographs": lambda: form("/classify", [photograph("deep")] * 2),
    "transparent photographs": lambda: form("/classify", [photograph("transparent")] * 2),
    "photographs in webp": lambda: form("/classify", [photograph("webp")] * 2),
    "photographs in json": lambda: _posted("transparent", 2),
    "beams": lambda: mixes.document(mixes.DATES + "/generate", inputs=[TEXT] * 32, num_beams=8),
    "samples": lambda: mixes.document(mixes.DATES + "/generate", inputs=[TEXT] * 32, temperature=1.0, top_p=0.9),
    "maps of generated": lambda: _generated(8, layers="all", heads="all", format="npz"),
    "maps of generated, json": lambda: _generated(8, layers="all", heads="all", digits=3),
    "libra": lambda: form("/attention", _scans(32), method="libra", layers="all", target="0,1,2,3,4,5,6,7,8,9"),
    "integrated": lambda: form("/attention", _scans(32), method="integrated", target="0,1,2,3"),
    "integrated of generated": lambda: _generated(14, method="integrated"),  # 15 would be too many runs
    "relevance of generated": lambda: _generated(32, method="relevance"),
    "matrix": lambda: _generated(1, kind="cross", format="png", layers="all"),
}


PHOTOGRAPHS = {name for name in MAKERS if "photograph" in name or name == "overlay"}
"""Kinds that are sent in turns with the others, which would wait behind them for the decoders, and compute little."""
TURNS = 6

# The run


@dataclass
class Memory(Verdict):
    """What was held, in MiB: what the kernel cannot reclaim of all processes of the service together."""

    counted: str = ""
    """How memory was counted: `cgroup v1`, `cgroup v2` or `pss`."""
    limit: int = 0
    base: int = 0
    """The memory before the load, in bytes."""
    most: int = 0
    after: int = 0
    """The memory SETTLED_SECONDS after the load, in bytes."""
    parts: dict[str, int] = field(default_factory=dict)
    """The proportional set size of each process at the moment at which their sum was largest."""
    statuses: dict[str, dict[str, int]] = field(default_factory=dict)
    killed: int = 0


def run(
    artifacts: Path,
    seconds: float,
    kinds: Mapping[str, Callable[[], bytes]] = MAKERS,
    limit: int = 0,
    clients: int = CLIENTS,
    seed: int = 0,
    **settings: object,
) -> Memory:
    """Load a service with requests of these kinds, and judge it by a limit in bytes; 0 takes that of the files."""
    limit = limit or shipped_limit()
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None  # deployed, /tmp is in memory and counts
    with Group(limit) as group, tempfile.TemporaryDirectory(dir=shared) as folder:
        before = (*group.join, "env", f"TMPDIR={folder}")
        with (
            Replica(artifacts, before=before, log_level="warning", drain_seconds=0, **settings) as replica,
            Watch(replica, group) as watch,
        ):
            made = {name: maker() for name, maker in kinds.items()}
            time.sleep(1)
            result = Memory(counted=group.kind, limit=limit >> 20, base=watch.held() >> 20)
            watch.begin()
            asyncio.run(_load(replica.port, made, seconds, clients, result, watch))
            time.sleep(SETTLED_SECONDS)
            result.after, result.most, result.parts = watch.held() >> 20, watch.most >> 20, watch.parts
            if replica.process.poll() is not None:
                result.faults.append(f"the service has ended: {replica.said()[-500:]}")
        result.killed = group.killed()
    if result.killed:
        result.faults.append(f"killed: {result.killed} processes, for want of memory")
    if result.most > (1 - MARGIN) * result.limit:
        result.faults.append(f"memory: {result.most} MiB were held, at most {(1 - MARGIN) * result.limit:.0f} may be")
    return result


async def _load(
    port: int, made: Mapping[str, bytes], seconds: float, clients: int, result: Memory, watch: Watch
) -> None:
    counted: dict[str, Counter[str]] = {name: Counter() for name in made}
    start = time.monotonic()
    end = start + seconds

    async def client(number: int) -> None:
        chance, name = random.Random(number), list(made)[number % len(made)]  # so that all kinds are always in flight
        connection: Connection | None = None
        while (now := time.monotonic()) < end:
            if int((now - start) * TURNS / seconds) % 2 != (name in PHOTOGRAPHS):
                await asyncio.sleep(0.1)
                continue
            try:
                connection = connection or await Connection.open(port)
                async with asyncio.timeout(PATIENCE):
                    reply = await connection.ask(made[name])
                counted[name][str(reply.status)] += 1
                if reply.status not in RIGHT and TOO_SLOW not in reply.body and len(result.faults) < 10:
                    result.faults.append(f"{name}: {reply.status} {reply.body[:200]!r}")
                if reply.status != 200:
                    await asyncio.sleep(chance.uniform(0.1, 1.0))
                reusable = connection.reusable
            except (OSError, Broken, TimeoutError) as error:
                counted[name][type(error).__name__] += 1
                reusable = False
                await asyncio.sleep(0.2)
            if connection and not reusable:
                connection.close()
                connection = None
        if connection:
            connection.close()

    async def say() -> None:
        while True:
            await asyncio.sleep(10)
            report.progress("memory", f"{watch.held() >> 20} MiB, at most {watch.most >> 20}; {watch.parts}")

    saying = asyncio.ensure_future(say())
    await asyncio.gather(*(client(number) for number in range(clients)))
    saying.cancel()
    result.statuses = {name: dict(one) for name, one in counted.items()}


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Send the heaviest legal requests, and compare the memory with the limits shipped.", 0)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--limit", type=int, default=0, metavar="MIB", help="in place of the one that is shipped")
    parser.add_argument("--kinds", default="", help="of requests, separated by semicolons; all by default")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    given = parser.parse_args()
    kinds = {name: MAKERS[name] for name in given.kinds.split(";")} if given.kinds else MAKERS
    with report.only_bundled(given.artifacts) as artifacts:
        return report.finish(
            "memory", run(artifacts, given.seconds, kinds, given.limit << 20, given.clients, given.seed)
        )


if __name__ == "__main__":
    sys.exit(main())
