"""Embeddings of a sentence by minilm, beside FastAPI with threads and infinity-emb: `make bench-embedding`.

All three answer OpenAI's request for the embedding of one text, in JSON. FastAPI runs our own graph; infinity-emb runs
the checkpoint by PyTorch, its default on a processor, and has its cache of answers off. Each has the best of a few
settings, and regard and a peer are measured in turns, as benchmarks/servers.py does.
"""

import argparse
import contextlib
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import tokenizers
import torch

from benchmarks.peers import ROOT, Unusable, log, prepare, version
from benchmarks.running_service import free_port
from benchmarks.servers import (
    CORES,
    ENVIRONMENTS,
    FAST,
    HERE,
    JSON,
    OURS,
    PEERS,
    SAME,
    best_of,
    duel,
    loader,
    regard,
    running,
    tell_rows,
    words,
)
from benchmarks.service import heading
from export.packaged import MINILM, folder_of
from service import VERSION

TEXT = "A cat sat on the mat while the rain was falling, and nobody who went by could tell whether it was asleep."
CLOSE = 0.9999  # the least cosine with our embedding


@dataclass(frozen=True)
class Task:
    """How it is measured."""

    concurrency: tuple[int, ...] = (1, 8, 64)
    swept: tuple[int, ...] = (8, 64)


class Asked:
    """The request, and the embedding that onnxruntime computes of it in regard's service."""

    task = Task()

    def __init__(self, folder):
        self.body = json.dumps({"model": "minilm", "input": TEXT, "encoding_format": "float"}).encode()
        self.files = {JSON: folder / "request.json"}
        self.files[JSON].write_bytes(self.body)
        self.expected = None

    def answer(self, url):
        """Return the embedding that a server answers with. Raises Unusable."""
        found = httpx.post(url, content=self.body, headers={"Content-Type": JSON}, timeout=20)
        if found.status_code != 200:
            raise Unusable(f"answers {found.status_code}")
        return np.array(found.json()["data"][0]["embedding"])

    def check(self, url, kind):
        """Raise Unusable unless a server answers as regard does."""
        found = self.answer(url)
        if self.expected is None:
            self.expected = found
        cosine = found @ self.expected / np.linalg.norm(found) / np.linalg.norm(self.expected)
        if cosine < CLOSE:
            raise Unusable(f"answers with an embedding whose cosine with ours is {cosine:.5f}")


def ours(artifacts, setting):
    """Run regard with minilm alone until the block ends; gives its process id and address."""
    return regard(artifacts, "/v1/embeddings", setting)


@contextlib.contextmanager
def fastapi(artifacts, asked, setting):
    """Run FastAPI with threads until the block ends; gives its process id and address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1/embeddings"
    flags = [f"--{option}={value}" for option, value in setting.items()]
    graph = artifacts / "minilm/1/predict.onnx"
    command = [ENVIRONMENTS / "fastapi-embedding/bin/python", HERE / "peers/serve_embedding.py", "--model", graph]
    with running([*command, f"--port={port}", *flags], lambda: asked.check(url, JSON)) as pid:
        yield pid, url


@contextlib.contextmanager
def infinity(artifacts, asked, setting):
    """Run infinity-emb until the block ends; gives its process id and address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/embeddings"
    command = [
        ENVIRONMENTS / "infinity/bin/infinity_emb",
        "v2",
        "--model-id",
        folder_of("minilm", MINILM) / "model",
        f"--port={port}",
    ]
    command += ["--served-model-name=minilm", "--engine=torch", "--device=cpu", "--dtype=float32"]
    command += ["--no-vector-disk-cache", "--no-bettertransformer", f"--batch-size={setting['batch']}"]
    command += ["--compile" if setting["compile"] else "--no-compile", "--host=127.0.0.1", "--log-level=warning"]
    threads = {"OMP_NUM_THREADS": str(setting["threads"])}
    with running(command, lambda: asked.check(url, JSON), **threads) as pid:
        yield pid, url


STARTS = {"fastapi": fastapi, "infinity": infinity}
TITLES = {"regard": "regard", "fastapi": PEERS["fastapi"].title, "infinity": "infinity-emb"}
AXES = {
    "regard": (OURS, [{"threads": 0}, {"threads": 1}]),
    "fastapi": PEERS["fastapi"].axes,
    "infinity": (
        [{"threads": CORES}, {"threads": 1}],
        [{"batch": 32}, {"batch": 8}],
        [{"compile": 0}, {"compile": 1}],
    ),
}
FASTAPI = (*PEERS["fastapi"].requires, f"tokenizers=={tokenizers.__version__}")


def install(name):
    """Make a peer's environment; return the version of its package. Raises Unusable."""
    if name == "fastapi":
        return version(prepare(ENVIRONMENTS / "fastapi-embedding", (*FASTAPI, *SAME, *FAST)), "fastapi")
    # 0.0: it was never released as more
    requires = ("infinity-emb[server,torch]~=0.0.78", f"torch=={torch.__version__.partition('+')[0]}")
    return version(prepare(ENVIRONMENTS / "infinity", requires), "infinity-emb")


def main():
    """Print a section for RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedding", description=__doc__)
    parser.add_argument("--peers", choices=STARTS, nargs="+", default=list(STARTS))
    parser.add_argument("--seconds", type=int, default=4, help="of a cell")
    parser.add_argument("--rounds", type=int, default=5, help="of cells")
    parser.add_argument("--artifacts", type=Path, default=ROOT / "artifacts", help="has minilm")
    arguments = parser.parse_args()
    generator, duels, settings, versions = loader(), {}, {}, {"regard": VERSION}
    print(heading("make bench-embedding"))
    print(f"Load from {generator}; one text of {len(TEXT)} characters.\n")
    with tempfile.TemporaryDirectory() as place:
        artifacts, asked = Path(place) / "artifacts", Asked(Path(place))
        artifacts.mkdir()
        (artifacts / "minilm").symlink_to((arguments.artifacts / "minilm").resolve())
        log("regard")
        settings["regard"], _ = best_of(
            AXES["regard"], lambda one: ours(artifacts, one), JSON, asked, arguments.seconds
        )
        for name in arguments.peers:
            try:
                versions[name] = install(name)
                log(name)
                start = STARTS[name]
                settings[name], _ = best_of(
                    AXES[name], lambda one, start=start: start(artifacts, asked, one), JSON, asked, arguments.seconds
                )
                with (
                    ours(artifacts, settings["regard"]) as server,
                    start(artifacts, asked, settings[name]) as theirs,
                ):
                    found = duel(name, server, theirs, (JSON, JSON), asked, arguments.seconds, arguments.rounds)
                duels[TITLES[name]] = found
            except (Unusable, httpx.HTTPError, OSError, subprocess.CalledProcessError) as error:
                log(f"{name}: {error}")
                settings[name] = {}
    tell_rows(duels)
    print("\n| peer | version | best setting |\n|---|---|---|")
    for name, setting in settings.items():
        print(f"| {TITLES[name]} | {versions.get(name)} | {words(setting) or 'not measured'} |")


if __name__ == "__main__":
    main()
