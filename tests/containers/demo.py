"""`make demo-cluster`: what a cluster does for the service, shown by podman on one machine.

Two replicas behind the proxy, with a store and Prometheus, as docker-compose.yml describes them. While requests of
many kinds arrive at a rate that does not wait for answers, the store is killed, and the replicas are replaced in turn
until the load ends. A line tells of each step, a table of what came of it. Nothing is left but the images.
"""

import argparse
import contextlib
import multiprocessing
import os
import platform
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.containers import asking, compose, images
from tests.containers.compose import Compose
from tests.containers.needs import lacking
from tests.containers.podman import inspect, run
from tests.rigs import mixes
from tests.rigs.load import Apart, Phase, Plan, Sample, summary

REPLICAS = ("api-one", "api-two")
IDS = 100
MANY = {"PROXY_CONNECTIONS": "2000", "PROXY_REQUESTS": "1000000"}
"""All requests come from one address here, which the proxy would else keep from taking more than its share."""


@dataclass
class Story:
    """What happened: lines as it goes on, rows for the end, and what should not have been."""

    started: float = field(default_factory=time.monotonic)
    rows: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def tell(self, words: str) -> None:
        """Say what happens now."""
        print(f"{time.monotonic() - self.started:6.1f} s  {words}", flush=True)

    def expect(self, what: str, found: str, right: bool) -> None:
        """Note a result, and whether it is what it should be."""
        self.tell(f"{what}: {found}")
        self.rows.append((what, found))
        if not right:
            self.faults.append(f"{what}: {found}")


def main() -> int:
    """Run from the command line; return 1 if anything was not as it should be, 2 if it cannot run here."""
    parser = argparse.ArgumentParser(description="Replace replicas and kill the store under load, by podman.")
    parser.add_argument("--requests", type=int, default=10_000, help="how many at least (default 10000)")
    parser.add_argument("--rate", type=float, default=30, help="requests a second (default 30)")
    given = parser.parse_args()
    if reason := lacking("podman-compose"):
        print(f"cannot run here: {reason}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all is removed then too
    story = Story()
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}\n")
    try:
        play(story, given.requests, given.rate)
    except KeyboardInterrupt:
        story.tell("interrupted")
        return 130
    finally:
        story.tell("containers, network and volumes are removed")
    print(table(story))
    return 1 if story.faults else 0


def play(story: Story, requests: int, rate: float) -> None:
    """Run all steps."""
    story.tell("building the images where they are missing")
    compose.prepare()
    size = inspect("image", images.CPU)["Size"]
    story.expect("image of the service", f"{size / 1e6:.0f} MB", size < 450e6)
    with Compose("proxy", "watch", **MANY) as running, Apart(sorted(os.sched_getaffinity(0))) as apart:
        try:
            steps(story, running, apart, requests, rate)
        except BaseException:
            for process in multiprocessing.active_children():  # the load would go on to its end
                process.kill()
            raise
        finally:
            story.tell("taking all down")


def steps(story: Story, running: Compose, apart: Apart, requests: int, rate: float) -> None:
    """Do to the replicas what a cluster does, and look at what comes of it."""
    for replica in REPLICAS:
        running.wait_ready(replica)
        running.wait_reached(replica)
    story.tell(f"two replicas are ready behind the proxy at port {running.port['proxy']}")
    attention(story, running, "attention by id, two replicas")
    loading = apart.start(Plan(running.port["proxy"], mixes.GOOD, [Phase(rate, 1.03 * requests / rate)]))
    story.tell(f"load: {len(mixes.GOOD)} kinds of requests, {rate:g} a second, at random moments")
    time.sleep(5)
    for replica in REPLICAS:
        replace(story, running, replica)
    attention(story, running, "attention by id, replaced replicas")
    lose_the_store(story, running)
    replaced = len(REPLICAS)
    while not loading.done():
        replace(story, running, REPLICAS[replaced % len(REPLICAS)])
        replaced += 1
    story.expect("replacements under load", str(replaced), replaced > len(REPLICAS))
    judge(story, loading.result(), requests)
    watched(story, running)


def attention(story: Story, running: Compose, what: str) -> None:
    """Ask for the attention of earlier answers, whichever replica gave them."""
    found = asking.ids(running.port["proxy"], IDS)
    story.expect(what, f"{found[200]} of {IDS} found", found[200] == IDS)


def replace(story: Story, running: Compose, replica: str) -> None:
    """Stop a replica as an update does, and start another one in its place."""
    begun = time.monotonic()
    status = running.stop(replica)
    stopped = time.monotonic()
    running.start_anew(replica)
    running.wait_ready(replica)
    ready = time.monotonic()
    running.wait_reached(replica)
    words = f"ended with status {status} after {stopped - begun:.1f} s, another one ready {ready - stopped:.1f} s later"
    story.tell(f"{replica} replaced: {words}")
    if status:
        story.faults.append(f"{replica} replaced: {words}")


def lose_the_store(story: Story, running: Compose) -> None:
    """Kill the store, and bring it back."""
    port = running.port["proxy"]
    run("podman", "kill", running.container("store"))
    answered = asking.predictions(port, IDS)
    story.expect("predictions with the store killed", f"{answered[200]} of {IDS} answered", answered[200] == IDS)
    asked = asking.ids(port, 5)
    story.expect("attention by id meanwhile", said(asked), set(asked) == {503})
    run("podman", "start", running.container("store"))
    begun = time.monotonic()
    while asking.ids(port, 3)[200] < 3 and time.monotonic() < begun + 60:
        time.sleep(0.5)
    story.tell(f"the store is back, and used again after {time.monotonic() - begun:.1f} s")
    attention(story, running, "attention by id, store back")


def judge(story: Story, samples: list[Sample], requests: int) -> None:
    """Note what came of the load."""
    loaded = summary(samples, samples[-1].meant - samples[0].meant)
    failed = [one for one in samples if one.status != 200 or one.fault]
    story.expect("requests of the load", f"{len(samples)}, {loaded.rate:g} a second", len(samples) >= requests)
    story.expect("of these failed", str(len(failed)), not failed)
    story.faults += sorted({f"{one.name}: status {one.status} {one.fault}" for one in failed})[:10]
    story.expect("answered within", f"{loaded.p50_ms:.0f} ms (median), {loaded.p99_ms:.0f} ms (99 of 100)", True)


def watched(story: Story, running: Compose) -> None:
    """Note what Prometheus has seen."""
    up = running.seen("count(regard_ready == 1) == 2")  # the last replacement is scraped after half a minute at most
    counted = running.seen("sum(max_over_time(regard_requests_total[15m]))")
    firing = [labels for labels, _ in running.query('ALERTS{alertstate="firing"}')]
    alerts = sorted({f"{labels['alertname']} {labels.get('cause', '')}".strip() for labels in firing})
    story.expect("Prometheus: replicas ready", "2" if up else "not 2", bool(up))
    story.expect("Prometheus: requests counted", f"{counted[0][1]:.0f}" if counted else "none", bool(counted))
    story.expect("Prometheus: alerts that fire", ", ".join(alerts) or "none", not alerts)


def said(found: Counter[int]) -> str:
    """Return statuses and how often each came."""
    return ", ".join(f"{count} with {status}" for status, count in sorted(found.items()))


def machine() -> str:
    """Return what this runs on."""
    podman = run("podman", "--version").strip()
    model = "unknown processor"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:  # noqa: PTH123 # a line at a time
        model = next((line.partition(": ")[2].strip() for line in lines if line.startswith("model name")), model)
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {platform.system()}, {podman}"


def table(story: Story) -> str:
    """Return the rows in columns, and the verdict."""
    width = max(len(name) for name, _ in story.rows)
    lines = ["", *(f"{name:<{width}}  {value}" for name, value in story.rows), ""]
    return "\n".join([*lines, *((story.faults and ["not as it should be:", *story.faults]) or ["all as it should be"])])


if __name__ == "__main__":
    sys.exit(main())
