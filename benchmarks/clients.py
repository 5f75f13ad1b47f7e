"""What other protocols cost beside our own, and aiperf as the load: `make bench-clients`.

The same input goes to the same model by two protocols, in cells that alternate, and the processor time of the service
(its decoders and the kernel included) is divided by the answers. The median of the differences of the pairs counts: it
may be at most the larger of 5 % and 0.1 ms. No answer is timed before it was seen to be right.

aiperf runs in an environment of its own and asks by OpenAI's protocol, as its users do.
"""

import argparse
import base64
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from benchmarks.peers import ROOT, Unusable, log, prepare
from benchmarks.running_service import served
from benchmarks.servers import ENVIRONMENTS, computed, load, loader, quiet
from benchmarks.service import SEVEN, heading

MODELS = ("digits", "minilm", "dates-clm")
AIPERF = "aiperf==0.13.0"
SHARE, LEAST = 0.05, 0.1
"""What a protocol may cost more than ours: of ours, and in milliseconds."""
JSON, RAW = "application/json", "application/octet-stream"
TEXT = "A cat sat on the mat."


@dataclass(frozen=True)
class Asked:
    """A request, and what must be read of its answer."""

    path: str
    body: bytes
    kind: str
    read: Callable[[httpx.Response], object]
    headers: tuple[tuple[str, str], ...] = ()


def _embedding(vector):
    """Return what must be equal of two embeddings."""
    return [round(float(one), 4) for one in vector]


NATIVE_IMAGE = Asked(
    "/v1/models/digits/classify",
    SEVEN,
    "image/png",
    lambda answer: answer.json()["results"][0]["labels"][0]["label"],
)
NATIVE_TEXT = Asked(
    "/v1/models/minilm/embed",
    json.dumps({"inputs": TEXT}).encode(),
    JSON,
    lambda answer: _embedding(answer.json()["results"][0]["embedding"]),
)


def openai(form, read):
    """Return a request for an embedding in a form."""
    body = {"model": "minilm", "input": TEXT, "encoding_format": form}
    return Asked(
        "/v1/embeddings", json.dumps(body).encode(), JSON, lambda answer: _embedding(read(answer.json()["data"][0]))
    )


PAIRS = {
    "Open Inference Protocol, a picture as the body": (
        NATIVE_IMAGE,
        Asked(
            "/v2/models/digits/infer",
            SEVEN,
            RAW,
            lambda answer: answer.content[-1:].decode(),
            (("Inference-Header-Content-Length", "0"),),
        ),
    ),
    "OpenAI, an embedding in base64 (the default of its client)": (
        NATIVE_TEXT,
        openai("base64", lambda found: np.frombuffer(base64.b64decode(found["embedding"]), "<f4")),
    ),
    "OpenAI, an embedding in JSON": (NATIVE_TEXT, openai("float", lambda found: found["embedding"])),
}


def cost(client, asked, file, concurrency, seconds):
    """Return the milliseconds of processors for an answer."""
    file.write_bytes(asked.body)
    before = computed(client.process.pid)
    found = load(f"{client.base_url}{asked.path}", file, asked.kind, concurrency, seconds, asked.headers)
    time.sleep(0.2)  # what is computed after an answer was sent, such as its line in the log
    if any(found["wrong"].values()):
        raise RuntimeError(f"{asked.path}: {found['wrong']}")
    return 1000 * (computed(client.process.pid) - before) / found["count"]


def answer(client, asked):
    """Return what is read of an answer."""
    response = client.post(asked.path, content=asked.body, headers={"Content-Type": asked.kind, **dict(asked.headers)})
    return asked.read(response.raise_for_status())


def compare(client, ours, theirs, folder, given):
    """Return the milliseconds of each pair of cells; the first of a pair alternates too."""
    assert answer(client, ours) == answer(client, theirs), "the answers differ"
    pairs = []
    for number in range(given.rounds + 1):
        cells = {}
        for asked in (ours, theirs) if number % 2 else (theirs, ours):
            cells[asked] = cost(client, asked, folder / "body", given.concurrency, given.seconds)
        if number:  # the first warms up
            pairs.append((cells[ours], cells[theirs]))
    return pairs


def tell(name, pairs):
    """Print a row of the table; return whether the protocol costs no more than it may."""
    ours, theirs = (statistics.median(cells) for cells in zip(*pairs, strict=True))
    over = sorted(second - first for first, second in pairs)
    middle, allowed = statistics.median(over), max(SHARE * ours, LEAST)
    met = middle <= allowed
    print(
        f"| {name} | {ours:.2f} | {theirs:.2f} | {middle:+.2f} ({over[0]:+.2f} to {over[-1]:+.2f}) | {allowed:.2f} | "
        f"{'yes' if met else 'NO'} |",
        flush=True,
    )
    return met


# aiperf


def cached_tokenizer(artifact, folder):
    """Put the tokenizer of an artifact into a cache of the hub's form, as `regard/tokenizer`."""
    kept = folder / "hub/models--regard--tokenizer"
    (kept / "snapshots/0").mkdir(parents=True)
    (kept / "refs").mkdir()
    (kept / "refs/main").write_text("0")
    shutil.copy(artifact / "tokenizer.json", kept / "snapshots/0")
    (kept / "snapshots/0/tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


def profile(python, client, artifacts, requests, concurrency, model, kind, *options):
    """Run aiperf; return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        cached_tokenizer(artifacts / "minilm/1", Path(folder))
        command = [python.with_name("aiperf"), "profile", "--model", model, "--endpoint-type", kind]
        command += [
            "--url",
            str(client.base_url),
            "--tokenizer",
            "regard/tokenizer",
            "--artifact-dir",
            f"{folder}/found",
        ]
        command += ["--request-count", str(requests), "--concurrency", str(concurrency)]
        command += ["--ui", "none", "--no-gpu-telemetry", *options]
        offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": folder, "HOME": folder}
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | offline)
        if done.returncode:
            raise RuntimeError(f"aiperf: {(done.stderr or done.stdout)[-800:]}")
        return json.loads((Path(folder) / "found/profile_export_aiperf.json").read_text())


def tell_aiperf(client, artifacts, given):
    """Print what aiperf measures."""
    try:
        python = prepare(ENVIRONMENTS / "aiperf", (AIPERF,))
    except Unusable as error:
        print(f"\naiperf was not run: {error}")
        return
    runs = {
        "embeddings": ("minilm", "embeddings", "--isl", "24"),
        "completions": ("dates-clm", "completions", "--isl", "4", "--osl", "8"),
        "completions, streamed": ("dates-clm", "completions", "--isl", "4", "--osl", "8", "--streaming"),
    }
    print(f"\n{AIPERF.replace('==', ' ')}, {given.requests} requests, {given.concurrency} at a time:\n")
    print("| endpoint | requests | errors | a second | p50 ms | p99 ms | first token, p50 ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, (model, kind, *options) in runs.items():
        log(f"aiperf: {name}")
        found = profile(python, client, artifacts, given.requests, given.concurrency, model, kind, *options)
        latency, first = found["request_latency"], found.get("time_to_first_token")
        cells = [name, f"{found['request_count']['avg']:.0f}"]
        cells.append(f"{(found.get('error_request_count') or {'avg': 0})['avg']:.0f}")
        cells.append(f"{found['request_throughput']['avg']:.0f}")
        cells += [f"{latency[mark]:.1f}" for mark in ("p50", "p99")]
        cells.append(f"{first['p50']:.1f}" if first else "")
        print(f"| {' | '.join(cells)} |", flush=True)


def main():
    """Print a section for RESULTS.md; return 1 if a protocol costs more than it may."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--artifacts", type=Path, default=ROOT / "artifacts", help=f"holds {', '.join(MODELS)}")
    parser.add_argument("--rounds", type=int, default=9, help="pairs of cells")
    parser.add_argument("--seconds", type=int, default=4, help="of a cell")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--requests", type=int, default=500, help="that aiperf sends to each endpoint")
    parser.add_argument("--lock", metavar="FILE", help="a file to lock while something is timed, if others measure too")
    given = parser.parse_args()
    generator = loader()
    print(heading("make bench-clients"))
    print(f"Load from {generator}, {given.concurrency} at a time; {given.rounds} pairs of {given.seconds} s.\n")
    with tempfile.TemporaryDirectory() as folder, quiet(given.lock):
        models = Path(folder) / "artifacts"
        models.mkdir()
        for name in MODELS:
            (models / name).symlink_to((given.artifacts / name).absolute())
        with served(models) as client:
            print("| protocol | ours, ms of processors | theirs | more, median of the pairs | may be | is |")
            print("|---|---:|---:|---:|---:|---|")
            rows = {name: compare(client, *pair, Path(folder), given) for name, pair in PAIRS.items()}
            met = [tell(name, pairs) for name, pairs in rows.items()]
            tell_aiperf(client, given.artifacts, given)
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
