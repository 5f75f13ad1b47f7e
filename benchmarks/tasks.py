"""A rerank of 100 passages beside sentence-transformers' CrossEncoder, alone and with FastAPI: `make bench-tasks`.

The shape is MiniLM-L6's in fp32, the weights minilm's with a head of random numbers. Each batches as it does by
default, on the same cores. One request at a time, and of FastAPI also two at once. Requests alternate: what is given is
the median of the ratios of neighbours.
"""

import argparse
import random
import statistics
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import sentence_transformers
import torch
import transformers

from benchmarks.peers import ROOT, log
from benchmarks.running_service import fastapi, served
from benchmarks.service import heading
from export.packaged import MINILM, folder_of

NAME = "ranker"
PASSAGES, LEAST, MOST = 100, 20, 200
"""How many, and of how many tokens each."""
QUERY = "how does a steam engine turn heat into motion"
AT_ONCE = 2
CLOSE = 1e-4
"""The largest difference of a score from CrossEncoder's."""


def passages():
    """Draw passages of words that are one token each."""
    rng = random.Random(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder_of("minilm", MINILM) / "model")
    words = [word for word in tokenizer.get_vocab() if word.isalpha() and word.isascii() and len(word) > 2]
    words.sort()
    drawn = [" ".join(rng.choices(words, k=rng.randint(LEAST, MOST))) for _ in range(PASSAGES)]
    assert all(LEAST <= len(tokenizer.tokenize(text)) <= MOST for text in drawn)
    return drawn


def prepare(folder):
    """Write the checkpoint and our artifact, unless they are there."""
    checkpoint = folder / "checkpoint"
    if not checkpoint.exists():
        log("checkpoint")
        source = folder_of("minilm", MINILM) / "model"
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = transformers.AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
        torch.nn.init.normal_(model.classifier.weight, std=0.5)
        model.save_pretrained(checkpoint)
        transformers.AutoTokenizer.from_pretrained(source).save_pretrained(checkpoint)
    artifacts = folder / "artifacts"
    if not (artifacts / NAME).exists():
        log("artifact")
        command = [sys.executable, "-m", "export", checkpoint, "--name", NAME, "--to", artifacts, "--methods", "raw"]
        subprocess.run(command, cwd=ROOT, check=True)
    return checkpoint, artifacts


def seconds(call):
    """Return what a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ratio(ours, theirs, rounds):
    """Return the median seconds of ours and theirs, in turns, and the median of theirs by ours."""
    ours(), theirs()
    found = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return [statistics.median(own) for own in zip(*found, strict=True)] + [statistics.median(b / a for a, b in found)]


def several(call):
    """Return what makes a call AT_ONCE times at once."""

    def calls():
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda _: call(), range(AT_ONCE)))

    return calls


def main():
    """Print a section for RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="pairs of requests")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/tasks", help="what is made is kept there")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    checkpoint, artifacts = prepare(arguments.folder)
    encoder = sentence_transformers.CrossEncoder(str(checkpoint), device="cpu")
    print(heading("make bench-tasks"))
    print(
        f"{PASSAGES} passages of {LEAST} to {MOST} tokens; sentence-transformers {sentence_transformers.__version__}.\n"
    )
    with (
        served(artifacts) as client,
        fastapi("serve_rerank.py", "--checkpoint", checkpoint) as url,
        httpx.Client(timeout=60) as http,
    ):
        texts = passages()
        body = {"query": QUERY, "texts": texts}

        def ask():
            answer = client.post(f"/v1/models/{NAME}/rerank", json=body)
            assert answer.status_code == 200, answer.text
            return {one["index"]: one["score"] for one in answer.json()["results"]}

        def alone():
            return encoder.predict([(QUERY, text) for text in texts])

        def asked():
            return http.post(f"{url}/rerank", json=body).raise_for_status().json()

        found = np.array([one for _, one in sorted(ask().items())])
        for theirs in (alone(), asked()):
            assert np.abs(found - theirs).max() < CLOSE, "answers differ"
        rows = {
            "CrossEncoder in a process": ratio(ask, alone, arguments.rounds),
            "FastAPI around it": ratio(ask, asked, arguments.rounds),
            f"FastAPI around it, {AT_ONCE} at once": ratio(several(ask), several(asked), max(arguments.rounds // 3, 3)),
        }
    print("| beside | regard, ms | it, ms | regard's rate by its |\n|---|---|---|---|")
    for name, (ours, theirs, times) in rows.items():
        print(f"| {name} | {1000 * ours:.0f} | {1000 * theirs:.0f} | {times:.2f} |")


if __name__ == "__main__":
    main()
