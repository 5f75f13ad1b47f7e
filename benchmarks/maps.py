"""What attention costs beside the way it is served today: `make bench-maps`.

The other way is transformers with `output_attentions` in a FastAPI route (peers/serve_transformers.py) at the best of a
few settings, on the same random weights, from the same JPEG; no answer is timed before both were seen to say the same.
Cells alternate, whichever is not measured is paused, and the load comes from wrk or hey. Then, in one process, what it
takes to write every weight of a ViT-B/16 in each form, beside `json.dumps` of the same numbers in lists.

What is made (checkpoints, artifacts) goes to `--folder`, and what lies there is not made again.
"""

import argparse
import base64
import contextlib
import itertools
import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import fastapi
import httpx
import numpy as np
import torch
import transformers

from benchmarks.attention import seconds
from benchmarks.peers import log
from benchmarks.running_service import served
from benchmarks.runtimes import command, middle, prepare
from benchmarks.servers import HERE, JPEG, computed, family, jpegs, load, loader, paused, ratio, rounded, spread, tell
from benchmarks.service import heading
from contract.artifact import read_artifact
from service.api import responses
from service.explanations.answer import AttentionAnswer, npz
from service.explanations.answer_size import answer_bytes
from service.explanations.query import resolve
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.repository.models.graph_controls import controls_of, read_maps
from service.runtime.session import choose_device, open_sessions
from service.settings import Settings

SMALL, LARGE = "deit-s", "vit-b-16"
EVERYTHING = {"layers": "all", "heads": "all", "queries": "all"}
ASKS = {
    "rollout": {"attention": "rollout"},
    "class-token": {"attention": "raw"},
    "everything": {"attention": "raw", **EVERYTHING},
    "everything,base64": {"attention": "raw", **EVERYTHING, "encoding": "base64"},
}
SETTINGS = [
    {"workers": workers, "threads": threads, "pool": pool}
    for workers, threads, pool in ((1, 2, 1), (1, 1, 2), (1, 2, 8), (2, 1, 1))
]
"""The settings of FastAPI around transformers, of which the best counts."""
FORMS = {
    "JSON, lists of 5 decimals": {},
    "JSON, base64 of float32": {"encoding": "base64"},
    "JSON, base64 of uint8": {"encoding": "base64", "dtype": "uint8"},
    "npz of float32": {"format": "npz"},
    "npz of uint8": {"format": "npz", "dtype": "uint8"},
}
CLOSE = 0.999
"""Cosine that both ways' maps must have: a resize may round otherwise."""
START_SECONDS = ANSWER_SECONDS = 60
CONCURRENCY = (1, 8)
SWEEP_SECONDS, LONGEST_SECONDS = 4, 20
"""The seconds of a cell of the sweep, and of one in which every weight is sent."""


def shown(url, sent):
    """Return the likeliest class and the maps, flat, that a server answers with."""
    answer = httpx.post(url, content=sent, headers={"Content-Type": JPEG}, timeout=ANSWER_SECONDS)
    answer.raise_for_status()
    found = answer.json()
    if "results" not in found:
        return found["labels"][0]["index"], np.array(found["attention"]).ravel()
    (found,) = found["results"]
    values = [
        np.frombuffer(base64.b64decode(one["values"]), "<f4") if "dtype" in one else np.array(one["values"]).ravel()
        for one in found["attention"]["maps"]
    ]
    return found["labels"][0]["index"], np.concatenate(values)


def check(ask, urls, sent):
    """Raise RuntimeError unless all servers name the same class, and what they saw is the same."""
    (index, wanted), *others = (shown(url, sent) for url in urls)
    for other, found in others:
        likeness = found @ wanted / (np.linalg.norm(found) * np.linalg.norm(wanted))
        if other != index or likeness < CLOSE:
            raise RuntimeError(f"{ask}: class {other} for {index}, cosine {likeness:.4f}")


@contextlib.contextmanager
def started(checkpoint, setting, sent):
    """Run the other way until the block ends; gives its process id and address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = [f"--{option}={value}" for option, value in setting.items()]
    command = [sys.executable, HERE / "peers/serve_transformers.py", "--model", checkpoint, f"--port={port}", *flags]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
    try:
        for _ in range(5 * START_SECONDS):
            with contextlib.suppress(httpx.TransportError):
                for _ in range(2 * setting["workers"]):
                    shown(f"{url}/rollout", sent)
                break
            time.sleep(0.2)
        yield process.pid, url
    finally:
        pids = family(process.pid)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=15)
        tell([*pids, *family(process.pid)], signal.SIGKILL)


def cell(pid, url, file, concurrency, seconds):
    """Measure one server at one concurrency."""
    before = computed(pid)
    found = load(url, file, JPEG, concurrency, seconds)
    return found | {"cpu": 1000 * (computed(pid) - before) / max(found["count"], 1)}


def sweep(folder, file):
    """Return the other way's best setting at each concurrency, for rollout; print how it does with all."""
    kept = folder / "settings.json"
    if not kept.exists():
        tried = []
        for setting in SETTINGS:
            with started(folder / "checkpoint", setting, file.read_bytes()) as (pid, url):
                rates = [cell(pid, f"{url}/rollout", file, at, SWEEP_SECONDS)["rate"] for at in CONCURRENCY]
            log(f"{setting}: {' / '.join(map(rounded, rates))} a second")
            tried.append((setting, rates))
        kept.write_text(json.dumps(tried))
    tried = json.loads(kept.read_text())
    print(f"transformers, rollouts a second at {' / '.join(map(str, CONCURRENCY))} at a time:", end=" ")
    print("; ".join(f"{said(setting)}: {' / '.join(map(rounded, rates))}" for setting, rates in tried), end=".\n\n")
    return {at: max(tried, key=lambda one: one[1][place])[0] for place, at in enumerate(CONCURRENCY)}


def said(setting):
    return ", ".join(f"{name} {value}" for name, value in setting.items())


def serve(folder, asks, concurrency, seconds, rounds):
    """Print a row an ask, concurrency and server."""
    own = folder / SMALL
    (file := own / "sent.jpg").write_bytes(jpegs((500, 375))[0])
    best = sweep(own, file)
    print("| attention | at a time | server | answers a second | of transformers' | p50 / p99 ms | CPU ms an answer |")
    print("|---|---|---|---|---|---|---|")
    with contextlib.ExitStack() as stack:
        servers = {}
        for precision in ("fp32", "int8"):
            client = stack.enter_context(served(own / precision, max_answer_bytes=1 << 30))
            servers[f"regard {precision}"] = client.process.pid, f"{client.base_url}/v1/models/{SMALL}/classify?"
        for at in concurrency:
            with started(own / "checkpoint", best[at], file.read_bytes()) as (pid, url):
                for ask in asks:
                    duel(ask, at, file, {**servers, "transformers": (pid, url)}, seconds, rounds)


def duel(ask, at, file, servers, seconds, rounds):
    """Measure all servers in turns and print a row each."""
    options = "&".join(f"{name}={value}" for name, value in ASKS[ask].items())
    urls = {
        name: f"{url}/{ask.partition(',')[0]}" if name == "transformers" else url + options
        for name, (_, url) in servers.items()
    }
    check(ask, [urls["regard fp32"], urls["transformers"]], file.read_bytes())
    long = LONGEST_SECONDS if ask.startswith("everything") else seconds
    found = {name: [] for name in servers}
    for _, name in itertools.product(range(rounds), servers):
        with contextlib.ExitStack() as stack:
            for other in set(servers) - {name}:
                stack.enter_context(paused(servers[other][0]))
            found[name].append(cell(servers[name][0], urls[name], file, at, long))
    for name, cells in found.items():
        rates = [one["rate"] for one in cells]
        pairs = zip(cells, found["transformers"], strict=True)
        ratios = [ratio(pair) for pair in pairs if pair[1]["count"]]  # of a cell without an answer there is none
        marks = " / ".join(f"{statistics.median(one[mark] for one in cells):.0f}" for mark in ("p50", "p99"))
        wrong = sum(sum(one["wrong"].values()) for one in cells)
        print(
            f"| {ask} | {at} | {name} | {spread(rates, '{:.3g}'.format)} "
            f"| {'' if name == 'transformers' or not ratios else spread(ratios, '{:.2f}x'.format)} | {marks} "
            f"| {statistics.median(one['cpu'] for one in cells):.0f} |{f' {wrong} failed' if wrong else ''}",
            flush=True,
        )


def write(folder, rounds):
    """Print what each form of every weight of the large model takes to write."""
    artifact = read_artifact(folder / LARGE / "fp32" / LARGE / "1")
    kind = artifact.manifest.attention[0]
    tokens = {kind.query: kind.length}
    queries = {}
    for form, options in FORMS.items():
        query = resolve(parse(AttentionOptions, {**EVERYTHING, **options}, strings=False), artifact.manifest)
        queries[form] = query.in_form(query.options.format or "json")
    query = next(iter(queries.values()))
    session = open_sessions(artifact, ("attention",), choose_device("cpu"), Settings())["attention"]
    pixels = np.load(folder / LARGE / "inputs.npz")["pixels"][:1]
    controls = controls_of(query, tokens)
    stacks = session.run(
        {"pixels": pixels, **controls.feed(tokens, {kind.fed: np.zeros((1, tokens[kind.query]), bool)})}
    )
    maps = read_maps(query, controls, tokens, {kind.name: stacks[kind.name][0]})
    lists = {"attention": [one.values.tolist() for one in maps]}

    def ours(query):
        answer = AttentionAnswer(query, maps, axes={})
        if query.form == "npz":
            return npz({}, [answer])
        return responses.dump({"results": [{"attention": answer.json()}]})

    ways = {"json.dumps of lists": lambda: json.dumps(lists).encode()}
    ways["the same, and making the lists"] = lambda: json.dumps([one.values.tolist() for one in maps]).encode()
    ways |= {form: partial(ours, query) for form, query in queries.items()}
    sizes = {name: len(way()) for name, way in ways.items()}
    taken = {name: [] for name in ways}
    for _, name in itertools.product(range(rounds), ways):
        taken[name].append(seconds(ways[name]))
    first = next(iter(ways))
    count = sum(one.values.size for one in maps)
    print(f"\n{LARGE}: {count / 1e6:.2f} million weights of one image, {rounds} alternating rounds.\n")
    print("| form | MB | ms | middle half | of json.dumps | MB promised |\n|---|---|---|---|---|---|")
    for name, own in taken.items():
        median, low, high = middle([1000 * one for one in own])
        ratio, *_ = middle([one / other for one, other in zip(own, taken[first], strict=True)])
        promised = f"{answer_bytes(queries[name], tokens) / 1e6:.1f}" if name in queries else ""
        shown = f"1 / {1 / ratio:.1f}" if ratio < 1 else f"{ratio:.2f}x"
        print(f"| {name} | {sizes[name] / 1e6:.1f} | {median:.0f} | {low:.0f} to {high:.0f} | {shown} | {promised} |")


def main():
    """Make, measure and print a section for benchmarks/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["serve", "write"], nargs="+", default=["serve", "write"])
    parser.add_argument("--asks", choices=ASKS, nargs="+", default=list(ASKS))
    parser.add_argument("--concurrency", type=int, choices=CONCURRENCY, nargs="+", default=CONCURRENCY)
    parser.add_argument("--seconds", type=int, default=6, help="of a cell; where every weight is sent, 20")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where what is made stays (default: a temporary folder)")
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for part, name in (("serve", SMALL), ("write", LARGE)):
            if part in arguments.part:
                prepare(name, folder)
        print(heading(command("maps")))
        print(
            f"torch {torch.__version__}, transformers {transformers.__version__}, FastAPI {fastapi.__version__}", end=""
        )
        print(f", load from {loader()}. {SMALL}, from a JPEG of 500 x 375.\n")
        if "serve" in arguments.part:
            serve(folder, arguments.asks, arguments.concurrency, arguments.seconds, arguments.rounds)
        if "write" in arguments.part:
            write(folder, arguments.rounds)


if __name__ == "__main__":
    main()
