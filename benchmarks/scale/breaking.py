"""What breaks first: what one store, one proxy and one Prometheus have to carry, measured here."""

import itertools
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.running_service import free_port, served
from benchmarks.scale.costs import kinds, redis_server
from benchmarks.start import used
from service.store.redis_store import ENTRY_KEY_PREFIX, PUT_SCRIPT, SIZES_KEY, TIMES_KEY

SECONDS = 5
COMMON = """
global
    maxconn 2000
    nbthread 1
defaults
    mode http
    timeout connect 2s
    timeout client 30s
    timeout server 30s
"""
FORWARDS = """
frontend asked
    bind 127.0.0.1:{front}
    default_backend answers
backend answers
    balance leastconn
    server one 127.0.0.1:{back}
"""
ANSWERS = """
frontend answering
    bind 127.0.0.1:{back}
    http-request return status 200 content-type application/json string "1"
"""


def store(payload, kept):
    """Return what one Redis server does in a second of its core, and the bytes that a kept request takes of it.

    One client puts (by the service's own script) and gets, one request after the other as replicas do, while `kept`
    are there. The server's processor time counts.
    """
    with redis_server() as (client, _):
        value, bounds, numbers = b"x" * payload, [kept, 1 << 40, 600_000], itertools.count()
        script = client.script_load(PUT_SCRIPT)

        def put(target):
            name = f"{next(numbers):032d}"
            target.evalsha(script, 2, TIMES_KEY, SIZES_KEY, ENTRY_KEY_PREFIX, name, value, payload, *bounds)

        def rate(operation):
            count, start, end = 0, _processor(client), time.monotonic() + SECONDS
            while time.monotonic() < end:
                operation()
                count += 1
            return round(count / (_processor(client) - start))

        before = client.info("memory")["used_memory"]
        for _ in range(kept // 500):
            with client.pipeline(transaction=False) as pipe:
                for _ in range(500):
                    put(pipe)
                pipe.execute()
        held = client.info("memory")["used_memory"] - before
        last = f"{ENTRY_KEY_PREFIX}{next(numbers) - 1:032d}"
        puts = rate(lambda: put(client))
        return {
            "payload": payload,
            "kept": kept,
            "bytes_each": round(held / kept),
            "puts": puts,
            "gets": rate(lambda: client.get(last)),
        }


def _processor(client):
    """Return the processor seconds of a Redis server."""
    spent = client.info("cpu")
    return spent["used_cpu_user"] + spent["used_cpu_sys"]


def proxy():
    """Return the requests that HAProxy forwards for a second of a core, before a backend that answers at once.

    The backend is another process of HAProxy, whose time does not count.
    """
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    front, back = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        running = []
        try:
            for name, text in (("back", ANSWERS), ("front", FORWARDS)):
                file = Path(folder) / name
                file.write_text(COMMON + text.format(front=front, back=back))
                running.append(subprocess.Popen([program, "-db", "-f", file], stderr=subprocess.DEVNULL))
            time.sleep(1)
            before = used(running[1].pid)[0]
            command = ["wrk", "-t1", "-c32", f"-d{SECONDS}s", f"http://127.0.0.1:{front}/"]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            seconds = used(running[1].pid)[0] - before
        finally:
            for process in running:
                process.terminate()
                process.wait(timeout=10)
    requests = int(next(line.split()[0] for line in said.splitlines() if " requests in " in line))
    return {"requests_a_core_second": round(requests / seconds), "microseconds": round(1e6 * seconds / requests, 1)}


def series(artifacts, models):
    """Return how many series of metrics one replica exposes after requests of every kind to these models."""
    found = {}
    for count in range(1, len(models) + 1):
        with tempfile.TemporaryDirectory() as folder:
            for model in models[:count]:
                (Path(folder) / model).symlink_to((artifacts / model).resolve())
            with served(folder) as client:
                for model in models[:count]:
                    for kind in kinds()[model]:
                        client.post(kind.path, content=kind.body, headers={"Content-Type": kind.content})
                client.post("/v1/models/none/classify")
                lines = client.get("/metrics").text.splitlines()
        found[count] = sum(not line.startswith("#") for line in lines)
    return found


def main(artifacts, models):
    """Print the figures as JSON."""
    found = {
        "store": [store(payload, kept) for payload, kept in ((2_400, 1_000), (2_400, 100_000), (40_000, 10_000))],
        "proxy": proxy(),
        "series by number of models": series(artifacts, models),
    }
    print(json.dumps(found, indent=1))
