"""What other servers make of the same graph, over HTTP from a JPEG: `make bench-peers`.

Every peer serves regard's own predict.onnx with onnxruntime, at the best setting that a small sweep finds; the scripts
are in peers/, each runs in an environment of its own. Regard runs with its log, metrics and limits on, in as many
processes as the same sweep finds best. Cells alternate, regard then peer, and whichever is not measured is paused;
compare ratios of a round, not milliseconds. What an answer costs the processors holds also where others use the
machine. The load comes from wrk, or hey where there is none. No answer is timed before it was seen to be right.
"""

import argparse
import base64
import contextlib
import fcntl
import io
import itertools
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import httpx
import numpy as np
import onnxruntime as ort
import PIL
import skimage.data
from PIL import Image

from benchmarks.attention import drawn
from benchmarks.peers import ROOT, Unusable, log, prepare, version
from benchmarks.running_service import free_port, served
from benchmarks.service import heading
from contract.artifact import read_artifact
from contract.input_rules import ImageRule
from contract.manifest import GradientMethod
from export.pipeline import export
from export.tasks.image import image_model
from model.architectures.vit import ViTConfig
from service import VERSION
from service.inputs.image_preprocessing import decode_image
from service.runtime.session import Session, choose_device
from service.runtime.threads import usable_cores
from service.settings import Settings

HERE = Path(__file__).parent
ENVIRONMENTS = ROOT / ".venv-peers"
PLOT = HERE / "plots/servers.png"
CLOSE = 1e-3  # of a probability: what batches and the order of sums may change
START_SECONDS = 90
ANSWER_SECONDS = 20  # after which a request counts as timed out

JPEG, JSON = "image/jpeg", "application/json"


@dataclass(frozen=True)
class Task:
    """A model, the size of the JPEG that is sent (width, height), and how it is measured."""

    config: ViTConfig
    jpeg: tuple[int, int]
    concurrency: tuple[int, ...]
    swept: tuple[int, ...]
    seconds: int
    sweep_seconds: int


TASKS = {
    "tiny": Task(
        ViTConfig((64, 64), 3, patch=(16, 16), width=192, layers=4, heads=3, hidden=768, classes=100),
        jpeg=(128, 96),
        concurrency=(1, 8, 64),
        swept=(8, 64),
        seconds=4,
        sweep_seconds=2,
    ),
    "deit": Task(  # DeiT-S, Touvron et al. 2021, table 1
        ViTConfig((224, 224), 3, patch=(16, 16), width=384, layers=12, heads=6, hidden=1536, classes=1000),
        jpeg=(500, 375),
        concurrency=(8,),
        swept=(8,),
        seconds=12,
        sweep_seconds=5,
    ),
}

CORES = usable_cores()
SPLITS = [
    {"workers": workers, "threads": threads} for workers, threads in ((1, CORES), (2, max(1, CORES // 2)), (1, 1))
]
OURS = [{"workers": 1}, {"workers": CORES}]
BATCHES = [{"batch": size} for size in (16, 8, 32, 1)]
WAITS = [{"timeout": milliseconds} for milliseconds in (1, 5, 0)]
DECODERS = [{"pool": threads} for threads in (2, 1)]

SAME = (f"onnxruntime=={ort.__version__}", f"pillow=={PIL.__version__}", f"numpy=={np.__version__}")
FAST = ("uvloop>=0.23", "httptools>=0.9", "orjson>=3.13")
"""The event loop, parser and JSON that regard has too."""


@dataclass(frozen=True)
class Peer:
    """A server: the package whose version is said, what to install, and what the sweep tries.

    The sweep takes one axis after the other and keeps its best choice; the first of each is where it begins.
    """

    title: str
    package: str
    requires: tuple[str, ...]
    axes: tuple[list[dict[str, int]], ...]
    kind: str = JPEG


PEERS = {
    # no ceiling: it is what one writes by hand today
    "fastapi": Peer(
        "FastAPI, threads",
        "fastapi",
        ("fastapi>=0.165", "uvicorn>=0.54"),
        ([{"pool": 2}, {"pool": 1}, {"pool": 8}, {"pool": 40}], SPLITS),
    ),
    # 0.2: a first release that is not 0 may name its hooks otherwise
    "litserve": Peer("LitServe", "litserve", ("litserve~=0.2.19",), (BATCHES, WAITS, SPLITS, DECODERS)),
    # 1.4: how raw bodies and batches go together differs by minor version
    "bentoml": Peer(
        "BentoML",
        "bentoml",
        ("bentoml~=1.4.39",),
        (BATCHES, [{"timeout": 10_000}, {"timeout": 200}], SPLITS, DECODERS),
        kind=JSON,
    ),
    # 1.7: the last that was released; its route of its own is not a documented promise
    "mlserver": Peer("MLServer", "mlserver", ("mlserver~=1.7.1",), (BATCHES, WAITS[:2], SPLITS[::2], DECODERS)),
    # 2.60: its switch for throughput is younger than most of it
    "ray": Peer("Ray Serve", "ray", ("ray[serve]~=2.60",), (BATCHES, WAITS, SPLITS, DECODERS)),
}


# The model and what is asked


def make(folder, name, config):
    """Export a ViT; a picture is resized to its size, uncut."""
    model = drawn(config)
    height, width = config.image
    rule = ImageRule(
        height=height,
        width=width,
        channels=config.channels,
        locate="middle",
        resize=(height, width),
        resample="bilinear",
        mean=(0.5,) * 3,
        std=(0.5,) * 3,
    )
    source = image_model(name, model, config, family="vit", task="image-classification", rule=rule, made_by={})
    with contextlib.redirect_stdout(sys.stderr):
        return read_artifact(export(source, "1", Path(folder), without=get_args(GradientMethod)))


def jpegs(size):
    """Return photographs of that size."""
    found = []
    for photograph in (skimage.data.astronaut(), skimage.data.coffee(), skimage.data.chelsea()):
        file = io.BytesIO()
        Image.fromarray(photograph).resize(size, Image.Resampling.LANCZOS).save(file, "JPEG", quality=90)
        found.append(file.getvalue())
    return found


def body(data, kind):
    """Return what is sent of a JPEG: itself, or base64 in JSON."""
    return data if kind == JPEG else json.dumps({"images": [base64.b64encode(data).decode()]}).encode()


class Asked:
    """The artifact, the JPEGs, and what onnxruntime answers to them in this process."""

    def __init__(self, folder, name, task):
        self.task = task
        self.artifact = make(folder / "artifacts", name, task.config)
        self.model = self.artifact.path(self.artifact.manifest.graphs["predict"].file)
        self.session = Session(self.artifact, "predict", choose_device("cpu"), Settings())
        self.sent = jpegs(task.jpeg)
        self.files = {kind: folder / f"{name}.{kind.split('/')[1]}" for kind in (JPEG, JSON)}
        for kind, file in self.files.items():
            file.write_bytes(body(self.sent[0], kind))
        self.expected = []
        for data in self.sent:
            (logits,) = self.run([self.decode(data)])
            chances = np.exp(logits - logits.max())
            self.expected.append(chances / chances.sum())

    def decode(self, data):
        """Do what the service does before the graph."""
        return decode_image(data, self.artifact.manifest.image, 10**9).pixels

    def run(self, images):
        """Do what the service does with the graph."""
        return self.session.run({"pixels": np.stack(images)})["logits"]

    def check(self, url, kind):
        """Raise Unusable unless a server answers every JPEG as this process does."""
        for data, expected in zip(self.sent, self.expected, strict=True):
            answer = httpx.post(url, content=body(data, kind), headers={"Content-Type": kind}, timeout=ANSWER_SECONDS)
            if answer.status_code != 200:
                raise Unusable(f"answers {answer.status_code}")
            labels = labels_of(answer.json())
            if labels[0]["index"] != expected.argmax() or any(
                abs(label["probability"] - expected[label["index"]]) > CLOSE for label in labels
            ):
                raise Unusable(f"answers class {labels[0]['index']}, onnxruntime {expected.argmax()}")


def labels_of(answer):
    """Return the five classes, however they are wrapped."""
    found = answer[0] if isinstance(answer, list) else answer
    return found["results"][0]["labels"] if "results" in found else found["labels"]


# Load


def loader():
    """Return the name of the load generator. Exits where there is none: one in Python would measure itself."""
    for name in ("wrk", "hey"):
        if shutil.which(name):
            return name
    sys.exit("benchmarks.servers: needs wrk or hey to make the load (both are packages of Debian), found neither")


def load(url, file, kind, concurrency, seconds, headers=()):
    """Post a file over and over; return answers a second that were good, percentiles in ms, and what went wrong.

    `headers` are names and values.
    """
    if shutil.which("wrk"):
        command = ["wrk", "-t1", f"-c{concurrency}", f"-d{seconds}s", f"--timeout={ANSWER_SECONDS}s"]
        command += ["-s", str(HERE / "load.lua"), url, "--", str(file), kind]
        command += [word for header in headers for word in header]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = json.loads(out.splitlines()[-1])
    else:
        command = ["hey", "-z", f"{seconds}s", "-c", str(concurrency), "-t", str(ANSWER_SECONDS)]
        command += [word for name, value in headers for word in ("-H", f"{name}: {value}")]
        command += ["-m", "POST", "-T", kind, "-D", str(file), url]
        found = read_hey(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    wrong = {name: found[name] for name in ("refused", "timeouts", "broken")}
    good = found["requests"] - found["refused"]
    return {"rate": good / found["seconds"], "count": good, "p50": found["p50"], "p99": found["p99"], "wrong": wrong}


def read_hey(out):
    """Return the figures of hey's report."""
    spent = {mark: float(seconds) * 1000 for mark, seconds in re.findall(r"(\d+)%+ in ([\d.]+) secs", out)}
    answers = {status: int(count) for status, count in re.findall(r"\[(\d{3})\]\s+(\d+) responses", out)}
    failures = re.findall(r"^\s+\[(\d+)\]\s+(\D.*)", out.partition("Error dist")[2], re.MULTILINE)
    timeouts = sum(int(count) for count, said in failures if "Timeout" in said)
    refused = sum(count for status, count in answers.items() if not status.startswith("2"))
    return {
        "requests": sum(answers.values()),
        "seconds": float(re.search(r"Total:\s+([\d.]+) secs", out)[1]),
        "p50": spent.get("50", math.nan),
        "p99": spent.get("99", math.nan),
        "refused": refused,
        "timeouts": timeouts,
        "broken": sum(int(count) for count, _ in failures) - timeouts,
    }


# Processes


def family(pid):
    """Return a process and all that descend from it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for result in found:
        found += [child for child, parent in parents.items() if parent == result]
    return found


def tell(pids, number):
    """Send a signal to each that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def computed(pid):
    """Return the seconds that a server, its workers and what they have ended have computed so far."""
    total = 0
    for process in family(pid):
        with contextlib.suppress(OSError):
            total += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def paused(pid):
    """Stop a server and its workers until the block ends: some poll while they are idle."""
    pids = family(pid)
    tell(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        tell(pids, signal.SIGCONT)


@contextlib.contextmanager
def started(name, asked, setting):
    """Run a peer until the block ends; gives its process id and address. Raises Unusable unless it answers rightly."""
    port, kind = free_port(), PEERS[name].kind
    flags = [f"--{option}={value}" for option, value in setting.items()]
    python = ENVIRONMENTS / name / "bin/python"
    command = [python, HERE / f"peers/serve_{name}.py", "--model", asked.model, f"--port={port}", *flags]
    url = f"http://127.0.0.1:{port}/classify"
    with running(command, lambda: asked.check(url, kind)) as pid:
        yield pid, url


@contextlib.contextmanager
def running(command, check, **environment):
    """Run a server until the block ends; gives its process id. Raises Unusable unless `check` ends without an error."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            await_answer(process, check, said)
            yield process.pid
        finally:
            pids = family(process.pid)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=15)
            tell([*pids, *family(process.pid)], signal.SIGKILL)
            process.wait()


def await_answer(process, check, said):
    """Wait until a server answers rightly. Raises Unusable with the end of its log."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            check()
            return
        except (httpx.TransportError, Unusable, ValueError, KeyError) as error:
            if process.poll() is not None or time.monotonic() > until:
                said.seek(0)
                lines = [line.strip() for line in said.read().splitlines() if line.strip()]
                state = "ended" if process.poll() is not None else f"{START_SECONDS} s"
                last = lines[-1][:200] if lines else "nothing"
                raise Unusable(f"{state}; {type(error).__name__}: {str(error)[:100]}; its log ends: {last}") from error
        time.sleep(0.2)


def install(name):
    """Make a peer's environment where it is missing or other; return the version of its package. Raises Unusable."""
    peer = PEERS[name]
    return version(prepare(ENVIRONMENTS / name, (*peer.requires, *SAME, *FAST)), peer.package)


# Measuring


@contextlib.contextmanager
def quiet(lock):
    """Hold a lock while something is timed, where others measure on this machine too."""
    if lock is None:
        yield
        return
    with Path(lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cell(server, asked, kind, concurrency, seconds):
    """Measure one server (process id and address) at one concurrency, once it has answered what it was sent before."""
    pid, url = server
    asked.check(url, kind)
    before = computed(pid)
    found = load(url, asked.files[kind], kind, concurrency, seconds)
    time.sleep(0.2)
    return found | {"cpu": 1000 * (computed(pid) - before) / max(found["count"], 1)}


def words(setting):
    """Say a setting."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())


def sweep(name, asked, seconds, most):
    """Return a peer's best setting, and of everything tried the answers a second. Raises Unusable where none runs."""
    kind = PEERS[name].kind
    return best_of(
        [axis[:most] for axis in PEERS[name].axes], lambda setting: started(name, asked, setting), kind, asked, seconds
    )


def best_of(axes, start, kind, asked, seconds):
    """Return the best setting of a server, one axis after the other, and of everything tried the answers a second.

    `start` runs the server with a setting and gives its process id and address. Raises Unusable where none runs.
    """
    tried = {}

    def rates(setting):
        key = words(setting)
        if key not in tried:
            try:
                with start(setting) as server:
                    cells = [cell(server, asked, kind, count, seconds) for count in asked.task.swept]
                wrong = [one["wrong"] for one in cells if any(one["wrong"].values())]
                tried[key] = [0.0 if wrong else one["rate"] for one in cells]  # what refuses is no choice
                log(f"  {key}: {' / '.join(map(rounded, tried[key]))} a second {wrong or ''}")
            except (Unusable, httpx.HTTPError, subprocess.CalledProcessError) as error:
                tried[key] = [0.0] * len(asked.task.swept)
                log(f"  {key}: {error}")
                if len(tried) > 1 and not any(map(any, tried.values())):
                    raise Unusable(str(error)) from error
        return statistics.geometric_mean(max(rate, 1e-9) for rate in tried[key])

    best = {option: value for axis in axes for option, value in axis[0].items()}
    for axis in axes:
        best = max(({**best, **choice} for choice in axis), key=rates)
    return dict(sorted(best.items())), tried


@contextlib.contextmanager
def regard(artifacts, path, setting):
    """Run regard until the block ends; gives its process id, and the address with this path."""
    with served(artifacts, **setting) as client:
        while sum('"event":"ready"' in line for line in client.lines()) < setting["workers"]:
            time.sleep(0.1)
        yield client.process.pid, f"{client.base_url}{path}"


def ours(name, asked, setting):
    """Run regard with the model that is asked until the block ends; gives its process id and address."""
    return regard(asked.artifact.folder.parent.parent, f"/v1/models/{name}/classify", setting)


def duel(name, ours, theirs, kinds, asked, seconds, rounds):
    """Measure regard and a peer in turns; return (regard's cell, the peer's) a round, by concurrency.

    `ours` and `theirs` are process ids and addresses, `kinds` the types of what each is sent.
    """
    found = {}
    for concurrency in asked.task.concurrency:
        for _ in range(rounds):
            with paused(theirs[0]):
                first = cell(ours, asked, kinds[0], concurrency, seconds)
            with paused(ours[0]):
                second = cell(theirs, asked, kinds[1], concurrency, seconds)
            found.setdefault(concurrency, []).append((first, second))
            rates = f"regard {rounded(first['rate'])}, {name} {rounded(second['rate'])} a second"
            log(f"  {name}: {concurrency} at a time: {rates}")
    return found


def ceiling(asked, seconds, rounds, lock):
    """Return images a second of this process, without HTTP: by batch, with and without a thread that decodes."""
    data, found = asked.sent[0], {}
    with ThreadPoolExecutor(1) as beside, quiet(lock):

        def decoded(size):
            return [asked.decode(data) for _ in range(size)]

        def ahead(size):
            following = beside.submit(decoded, size)
            while True:
                images, following = following.result(), beside.submit(decoded, size)
                yield images

        def loop(size):
            while True:
                yield decoded(size)

        for _, (size, (way, images)) in itertools.product(
            range(rounds), itertools.product((1, 8), (("in turn", loop), ("decoding beside", ahead)))
        ):
            count, start = 0, time.perf_counter()
            for batch in images(size):
                asked.run(batch)
                count += size
                if (spent := time.perf_counter() - start) > seconds:
                    break
            found.setdefault(f"batch {size}, {way}", []).append(count / spent)
    return {way: statistics.median(rates) for way, rates in found.items()}


# Telling


def spread(values, form):
    """Say a median, and how far the values lie apart."""
    if len(values) == 1:
        return form(values[0])
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


def rounded(rate):
    """Say a rate in about three digits."""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}"


def tell_duels(name, asked, duels):
    """Print a row a peer and concurrency."""
    height, width = asked.task.config.image
    rounds = max((len(pairs) for found in duels.values() for pairs in found.values()), default=0)
    print(f"\n**{name}**: {width} x {height}, from a JPEG of {asked.task.jpeg[0]} x {asked.task.jpeg[1]}", end="")
    print(f" and {len(asked.sent[0]) / 1000:.1f} kB. Answers a second: median (least to most) of {rounds} rounds.\n")
    tell_rows({PEERS[peer].title: found for peer, found in duels.items()})


def tell_rows(duels):
    """Print the table of duels by the peer's title."""
    print(
        "| peer | at a time | regard | peer | regard / peer | p50 / p99 ms, regard | peer "
        "| CPU ms an answer, regard | peer | not 2xx, timed out |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for peer, found in duels.items():
        for concurrency, pairs in found.items():
            columns = [spread([one["rate"] for one in side], rounded) for side in zip(*pairs, strict=True)]
            columns.append(spread([ratio(pair) for pair in pairs], "{:.2f}".format))
            columns += [latency(side) for side in zip(*pairs, strict=True)]
            columns += [f"{statistics.median(one['cpu'] for one in side):.2f}" for side in zip(*pairs, strict=True)]
            columns.append(", ".join(wrongs(side) for side in zip(*pairs, strict=True)).replace("0, 0", "none"))
            print(f"| {peer} | {concurrency} | {' | '.join(columns)} |")


def ratio(pair):
    """Return how many answers regard gave for one of the peer's."""
    first, second = pair
    return max(first["rate"], 1e-9) / max(second["rate"], 1e-9)


def latency(cells):
    """Say the medians of two percentiles."""
    return " / ".join(f"{statistics.median(one[mark] for one in cells):.1f}" for mark in ("p50", "p99"))


def wrongs(cells):
    """Say what went wrong in some cells: a number, and of what kind."""
    total = {kind: sum(one["wrong"][kind] for one in cells) for kind in cells[0]["wrong"]}
    return " ".join(f"{count} {kind}" for kind, count in total.items() if count) or "0"


def draw(results):
    """Plot answers a second against concurrency, a panel a model; a peer lies where its ratio to regard puts it."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(results), figsize=(6 * len(results), 4.2), squeeze=False)
    for panel, (name, (duels, limit)) in zip(panels[0], results.items(), strict=True):
        ours = {}
        for found in duels.values():
            for concurrency, pairs in found.items():
                ours.setdefault(concurrency, []).extend(first["rate"] for first, _ in pairs)
        lines = {"regard": {concurrency: statistics.median(rates) for concurrency, rates in ours.items()}}
        for peer, found in duels.items():
            lines[PEERS[peer].title] = {
                concurrency: lines["regard"][concurrency] / statistics.median(map(ratio, pairs))
                for concurrency, pairs in found.items()
            }
        if all(len(line) == 1 for line in lines.values()):
            (concurrency,) = {at for line in lines.values() for at in line}
            heights = [line[concurrency] for line in lines.values()]
            panel.bar(list(lines), heights, color=[f"C{index}" for index in range(len(lines))])
            panel.tick_params("x", rotation=30)
            panel.set_xlabel(f"{concurrency} requests at a time")
        else:
            for title, line in lines.items():
                panel.plot(
                    list(line), list(line.values()), marker="o", label=title, linewidth=3 if title == "regard" else 1.5
                )
            panel.set_xscale("log", base=2)
            panel.set_xticks(list(line), [str(at) for at in line])
            panel.set_xlabel("requests at a time")
            panel.legend(fontsize=8, loc="lower right")
        panel.axhline(limit, color="gray", linestyle="--", linewidth=1)
        panel.text(
            0.99,
            limit,
            "one process, no HTTP",
            transform=panel.get_yaxis_transform(),
            va="bottom",
            ha="right",
            color="gray",
        )
        panel.set_ylim(0, 1.1 * panel.get_ylim()[1])
        panel.set_ylabel("answers a second")
        panel.set_title(name)
    PLOT.parent.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(PLOT, dpi=80)


def measure(name, peers, asked, arguments):
    """Sweep and duel; return the duels, the settings with what was tried, and the ceiling."""
    quick = arguments.quick
    seconds = arguments.seconds or (max(1, asked.task.seconds // 4) if quick else asked.task.seconds)
    rounds = arguments.rounds or (1 if quick else 3)
    most, sweep_seconds = (2, -(-asked.task.sweep_seconds // 2)) if quick else (9, asked.task.sweep_seconds)
    limits = ceiling(asked, min(seconds, 4), rounds, arguments.lock)
    log(f"{name}: in one process, {words({way: rounded(rate) for way, rate in limits.items()})} a second")
    with quiet(arguments.lock):
        log("regard")
        setting, tried = best_of([OURS], lambda one: ours(name, asked, one), JPEG, asked, sweep_seconds)
    duels, settings = {}, {"regard": (setting, tried)}
    for peer in list(peers):
        try:
            with quiet(arguments.lock):
                log(peer)
                settings[peer] = sweep(peer, asked, sweep_seconds, most)
                with ours(name, asked, setting) as server, started(peer, asked, settings[peer][0]) as theirs:
                    duels[peer] = duel(peer, server, theirs, (JPEG, PEERS[peer].kind), asked, seconds, rounds)
        except (Unusable, httpx.HTTPError, subprocess.CalledProcessError) as error:
            log(f"{peer}: {error}")
            settings[peer] = str(error), {}
    return duels, settings, limits


def main():
    """Print a section for RESULTS.md and draw the plot."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.servers", description=__doc__)
    parser.add_argument("--model", choices=TASKS, nargs="+", default=list(TASKS))
    parser.add_argument("--peers", choices=PEERS, nargs="+", default=list(PEERS))
    parser.add_argument("--seconds", type=int, help="of a cell (default: 4, for deit 12)")
    parser.add_argument("--rounds", type=int, help="of cells (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one round of short cells, and two choices an axis")
    parser.add_argument("--lock", metavar="FILE", help="a file to lock while something is timed, if others measure too")
    arguments = parser.parse_args()
    generator, versions, failed, results = loader(), {}, {}, {}
    titles = {"regard": "regard"} | {name: peer.title for name, peer in PEERS.items()}
    for peer in arguments.peers:
        try:
            versions[peer] = install(peer)
        except (Unusable, OSError, subprocess.CalledProcessError) as error:
            failed[peer] = str(error)
            log(f"{peer}: {error}")
    print(heading("make bench-peers"))
    print(f"Load from {generator}. Every server runs onnxruntime {ort.__version__} on the same graph.")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.model:
            asked = Asked(Path(folder), name, TASKS[name])
            duels, settings, limits = measure(name, versions, asked, arguments)
            tell_duels(name, asked, duels)
            best = max(limits, key=limits.get)
            print(f"\nIn one process, without HTTP: {rounded(limits[best])} images a second at best ({best}); ", end="")
            print(f"{words({way: rounded(rate) for way, rate in limits.items()})}.\n")
            print("| peer | version | best setting |\n|---|---|---|")
            for peer, (setting, _) in settings.items():
                said = words(setting) if isinstance(setting, dict) else f"not measured: {setting}"
                print(f"| {titles[peer]} | {versions.get(peer, VERSION)} | {said} |")
            for peer, reason in failed.items():
                print(f"| {PEERS[peer].title} | | not measured: {reason} |")
            print(f"\nTried, answers a second at {' / '.join(map(str, asked.task.swept))} at a time:\n")
            for peer, (_, tried) in settings.items():
                rates = (f"{setting}: {' / '.join(map(rounded, found))}" for setting, found in tried.items())
                print(f"- {titles[peer]}: {'; '.join(rates)}")
            results[name] = duels, limits[best]
    draw({name: result for name, result in results.items() if result[0]})


if __name__ == "__main__":
    main()
