"""What the service costs, over HTTP on this machine: `make bench`.

Requests alternate, so that drift of the machine falls on all of them alike; compare ratios, not milliseconds.
"""

import contextlib
import io
import os
import platform
import re
import statistics
import tempfile
import time
from datetime import date
from pathlib import Path

import onnxruntime as ort
from PIL import Image

from benchmarks.peers import ROOT
from benchmarks.running_service import served

BUNDLED = ("digits", "dates")
ROUNDS = 200
PNG = {"Content-Type": "image/png"}
CLASSIFY, GENERATE = "/v1/models/digits/classify", "/v1/models/dates/generate"
SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()
TEXT = "the twenty-third of March 2021"
EVERYTHING = {"layers": "all", "heads": "all", "queries": "all"}


def bomb():
    """A picture of 48 kB with 400 million pixels."""
    file = io.BytesIO()
    Image.new("1", (20000, 20000)).save(file, "PNG")
    return file.getvalue()


def raw(data, **params):
    return "POST", CLASSIFY, {"content": data, "headers": PNG, "params": params}


def text(**document):
    return "POST", GENERATE, {"json": {"inputs": TEXT, **document}}


ANSWERS = {
    "GET /health/live": ("GET", "/health/live", {}),
    "classify": raw(SEVEN),
    "classify, rollout": raw(SEVEN, attention="rollout"),
    "classify, raw (default: last layer, class token)": raw(SEVEN, attention="raw"),
    "classify, raw (every weight)": raw(SEVEN, attention="raw", **EVERYTHING),
    "classify, norm (default: last layer, class token)": raw(SEVEN, attention="norm"),
    "classify, relevance": raw(SEVEN, attention="relevance"),
    "generate, greedy": text(),
    "generate, 4 beams": text(num_beams=4),
    "generate, greedy, raw (default: last layer)": text(attention={"method": "raw"}),
    "generate, greedy, raw (every weight)": text(attention={"method": "raw", **EVERYTHING}),
    "generate, greedy, relevance (of every token)": text(attention={"method": "relevance"}),
}
REFUSALS = {
    "empty body": raw(b""),
    "text as image": raw(b"hello" * 1000),
    "20000 x 20000 PNG of 48 kB": raw(bomb()),
    "11 MB body": raw(bytes(11 << 20)),
    "10 MB of text": ("POST", GENERATE, {"json": {"inputs": "a" * 10_000_000}}),
    "NaN": ("POST", GENERATE, {"content": b'{"inputs": NaN}', "headers": {"Content-Type": "application/json"}}),
    "max_new_tokens 10^9": text(max_new_tokens=10**9),
    "layer 99": raw(SEVEN, attention="raw", layers="99"),
    "unknown model": ("POST", "/v1/models/none/classify", {"content": SEVEN, "headers": PNG}),
}


def measure(client, requests, rounds):
    """Return each request's milliseconds, from alternating rounds."""
    found = {name: [] for name in requests}
    for _ in range(rounds):
        for name, (method, path, options) in requests.items():
            start = time.perf_counter()
            client.request(method, path, **options)
            found[name].append((time.perf_counter() - start) * 1000)
    return found


def resident(pid):
    """Return a process' resident and private megabytes. A service can be inspected by root only."""
    lines = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    kilobytes = {name: int(lines[name].split()[0]) for name in ("Rss", "Private_Clean", "Private_Dirty")}
    return kilobytes["Rss"] / 1024, (kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]) / 1024


def processor():
    """Return the name of the processor and its vector instructions (Linux, x86; elsewhere what Python knows of it)."""
    with contextlib.suppress(OSError, KeyError):
        facts = dict(re.findall(r"^(.+?)\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE))
        name = f"{facts['model name']}, family {facts['cpu family']}, model {facts['model']}"
        flags = {"avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8"} & set(facts["flags"].split())
        return f"{name} ({', '.join(sorted(flags))})"
    return platform.processor() or platform.machine()


def heading(command):
    """Return the beginning of a section for RESULTS.md."""
    machine = f"{processor()}, {os.cpu_count()} cores"
    versions = f"Python {platform.python_version()}, onnxruntime {ort.__version__}"
    return f"### {date.today()}, {machine}, {versions}\n\n`{command}`\n"


def main():
    """Print a section for RESULTS.md."""
    print(heading("make bench"))
    starts = []
    with tempfile.TemporaryDirectory() as folder:
        for name in BUNDLED:
            (Path(folder) / name).symlink_to(ROOT / "artifacts" / name)
        for _ in range(5):
            start = time.perf_counter()
            with served(folder) as client:
                starts.append(time.perf_counter() - start)
        with served(folder) as client:
            measure(client, ANSWERS, 10)
            answers = measure(client, ANSWERS, ROUNDS)
            refusals = measure(client, REFUSALS, 20)
            whole, private = resident(client.process.pid)
    print("| request, one at a time | median ms | 95 % ms | of its prediction |\n|---|---|---|---|")
    for name, milliseconds in answers.items():
        plain = statistics.median(answers["classify" if name.startswith("classify") else "generate, greedy"])
        ratio = f"{statistics.median(milliseconds) / plain:.2f}x" if "/" not in name else ""
        p95 = statistics.quantiles(milliseconds, n=20)[-1]
        print(f"| {name} | {statistics.median(milliseconds):.2f} | {p95:.2f} | {ratio} |")
    print("\n| refusal | median ms | worst ms |\n|---|---|---|")
    for name, milliseconds in refusals.items():
        print(f"| {name} | {statistics.median(milliseconds):.2f} | {max(milliseconds):.2f} |")
    print(f"\nStart to ready, both bundled models: {statistics.median(starts):.2f} s (median of 5). ", end="")
    print(f"Resident memory after the run: {whole:.0f} MB, of which private {private:.0f} MB.")


if __name__ == "__main__":
    main()
