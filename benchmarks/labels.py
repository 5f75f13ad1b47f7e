"""Labels of pictures at the shape of CLIP ViT-B/32, beside transformers with FastAPI: `make bench-labels`.

Weights are random, in fp32. Both are asked over HTTP for the probabilities of ten labels of a JPEG of 320 x 240 pixels;
both keep the vectors of labels, and theirs has the better of one and two threads. Rounds alternate: what is given is
the median of the ratios of neighbours. Once the labels are always the same, and once each request brings ten others.
"""

import argparse
import base64
import contextlib
import functools
import io
import itertools
import json
import operator
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import httpx
import numpy as np
import tokenizers
import torch
import transformers
from PIL import Image

from benchmarks.peers import ROOT, log
from benchmarks.running_service import fastapi, served
from benchmarks.service import heading

NAME = "b32"
AT_ONCE, REQUESTS, LABELS = 8, 48, 10
CLOSE = 1e-4
"""The largest difference of a probability."""
WORDS = "a photo of small large red blue old new cat dog house tree car boat bird horse chair table lamp cup".split()
TEMPLATE = "a photo of a {}"
Ask: TypeAlias = Callable[[list[str]], list[float]]


def save_checkpoint(folder: Path) -> None:
    """Save a CLIP of the sizes of ViT-B/32, with random weights and a tokenizer of few words."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = ["<|startoftext|>", "<|endoftext|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, end_of_word_suffix="</w>", initial_alphabet=list("0123456789")
    )
    tokenizer.train_from_iterator([f"{word} {word} {number}" for number, word in enumerate(WORDS * 5)], trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in special]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{special[0]} $A {special[1]}", special_tokens=ends
    )
    torch.manual_seed(0)
    text = transformers.CLIPTextConfig(bos_token_id=ends[0][1], eos_token_id=ends[1][1], pad_token_id=ends[1][1])
    config = transformers.CLIPConfig(text_config=text.to_dict())
    transformers.CLIPModel(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    said = {"bos_token": special[0], "eos_token": special[1], "pad_token": special[1], "unk_token": special[1]}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **said, "model_max_length": 77}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    transformers.CLIPImageProcessorPil().save_pretrained(folder)


def prepare(folder: Path) -> tuple[Path, Path]:
    """Write the checkpoint and our artifacts, unless they are there."""
    checkpoint, artifacts = folder / "checkpoint", folder / "artifacts"
    if not checkpoint.exists():
        log("checkpoint")
        save_checkpoint(checkpoint)
    if not (artifacts / NAME).exists():
        log("artifacts")
        command = [sys.executable, "-m", "export", checkpoint, "--name", NAME, "--to", artifacts, "--methods", "raw"]
        subprocess.run(command, cwd=ROOT, check=True)
    return checkpoint, artifacts


def rate(ask: Ask, labels: Iterator[list[str]]) -> float:
    """Return the requests a second of AT_ONCE clients."""
    asked = list(itertools.islice(labels, REQUESTS))
    start = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(ask, asked))
    return REQUESTS / (time.perf_counter() - start)


def same() -> Iterator[list[str]]:
    """Yield the same labels for ever."""
    return itertools.repeat([f"{word} {number}" for number, word in enumerate(WORDS[:LABELS])])


def new() -> Iterator[list[str]]:
    """Yield labels that no request before had."""
    numbers = itertools.count(1000)
    while True:
        yield [f"{WORDS[number % len(WORDS)]} {number}" for number in itertools.islice(numbers, LABELS)]


def main() -> None:
    """Print a section for RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.labels", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="pairs of rounds")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/labels", help="what is made is kept there")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    checkpoint, artifacts = prepare(arguments.folder)
    noise = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).resize((320, 240), Image.Resampling.BICUBIC).save(file, "JPEG")
    picture = base64.b64encode(file.getvalue()).decode()
    print(heading("make bench-labels"))
    with served(artifacts) as client, contextlib.ExitStack() as running, httpx.Client(timeout=60) as http:
        script = "serve_labels.py"
        urls = [
            running.enter_context(fastapi(script, "--checkpoint", checkpoint, f"--threads={threads}"))
            for threads in (1, 2)
        ]

        def ours(labels: list[str]) -> list[float]:
            body = {"images": [picture], "labels": labels, "template": TEMPLATE}
            answer = client.post(f"/v1/models/{NAME}/classify", json=body).raise_for_status().json()
            found = {one["label"]: one["probability"] for one in answer["results"][0]["labels"]}
            return [found[label] for label in labels]

        def theirs(url: str, labels: list[str]) -> list[float]:
            body = {"image": picture, "texts": [TEMPLATE.replace("{}", label) for label in labels]}
            found: list[float] = http.post(f"{url}/classify", json=body).raise_for_status().json()
            return found

        first = next(same())
        difference = np.abs(np.subtract(ours(first), theirs(urls[0], first))).max()
        assert difference < CLOSE, f"answers differ by {difference:.1e}"
        print(f"transformers {transformers.__version__}; {AT_ONCE} clients, answers within {difference:.0e}.\n")
        print("| labels | regard, a second | transformers with FastAPI | regard's rate by its |\n|---|---|---|---|")
        for name, labels in (("the same ten", same), ("ten new ones a request", new)):
            peers = [functools.partial(theirs, url) for url in urls]
            drawn = labels()
            _, peer = max(((rate(one, drawn), one) for one in peers), key=operator.itemgetter(0))
            rate(ours, drawn)
            pairs = [(rate(ours, drawn), rate(peer, drawn)) for _ in range(arguments.rounds)]
            mine, its = (statistics.median(own) for own in zip(*pairs, strict=True))
            times = statistics.median(one / other for one, other in pairs)
            print(f"| {name} | {mine:.1f} | {its:.1f} | {times:.2f} |", flush=True)


if __name__ == "__main__":
    main()
