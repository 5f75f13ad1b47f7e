"""`dates`: an encoder-decoder that turns a written date into ISO 8601, character by character."""

import random
from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.catalogue import build
from model.vocabularies import END, PAD, START, UNKNOWN, encode
from train.data.written_dates.examples import example
from train.fit import Run, fit

Draw: TypeAlias = Callable[[random.Random], tuple[str, str]]
"""What returns a text and the answer to it."""

LONGEST_SOURCE = 96  # characters

BATCH = 128
POOLED_BATCHES = 16  # drawn together and sorted by length, so that there is little padding

WORDS = """
please note that this letter was sent to our office and we will meet you in the town hall for lunch with all guests
from abroad before they leave by train or ship my friend wrote it down here as a reminder of what had been said when
everyone came home their contract starts
""".split()


def batches(rng: random.Random, draw: Draw | None = None, size: int = BATCH) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches (source, target), (size, length) each, right-padded, of texts that `draw` returns.

    By default these are dates, some of them in a sentence; no held-out date is among them.
    """
    draw = draw or _perhaps_in_a_sentence
    while True:
        pool = [draw(rng) for _ in range(size * POOLED_BATCHES)]
        pool.sort(key=lambda pair: len(pair[0]))
        order = list(range(POOLED_BATCHES))
        rng.shuffle(order)
        for index in order:
            yield tensors([_smudge(rng, encode(text), iso) for text, iso in pool[index * size : (index + 1) * size]])


def tensors(pairs: list[tuple[list[int], str]]) -> tuple[Tensor, Tensor]:
    """Pad encoded texts and their answers to (batch, longest) each; targets begin with START and end with END."""
    sources = [torch.tensor(source) for source, _ in pairs]
    targets = [torch.tensor([START, *encode(iso), END]) for _, iso in pairs]
    return (
        nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PAD),
        nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=PAD),
    )


def _perhaps_in_a_sentence(rng: random.Random) -> tuple[str, str]:
    """Draw a date, and put one in ten among other words."""
    text, iso = example(rng)
    if rng.random() < 0.1:
        before, after = (" ".join(rng.choices(WORDS, k=rng.randint(0, 6))) for _ in range(2))
        longer = f"{before} {text} {after}".strip()
        if len(longer) <= LONGEST_SOURCE:
            return longer, iso
    return text, iso


def _smudge(rng: random.Random, source: list[int], iso: str) -> tuple[list[int], str]:
    """Put an unknown character into one text in fifty, so that its embedding is learned."""
    if rng.random() < 0.02 and len(source) < LONGEST_SOURCE:
        source.insert(rng.randint(0, len(source)), UNKNOWN)
    return source, iso


def logits(module: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """Predict every token of the target but the first from those before it: (batch, target - 1, vocabulary)."""
    out: Tensor = module(source, source != PAD, target[:, :-1])[0]
    return out


STEPS = {
    "dates": 6000,
    "dates-bilinear": 2000,
    "dates-convolutional": 2000,
    "dates-recurrent": 3000,
    "dates-plain": 3000,
}
RATE = {
    "dates": 1.5e-3,
    "dates-bilinear": 1.5e-3,
    "dates-convolutional": 1.5e-3,
    "dates-recurrent": 2e-3,
    "dates-plain": 2e-3,
}


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model; return it and the sentence its card quotes."""
    rng = run.begin()
    module = build(name)
    drawn = batches(rng)

    def loss() -> Tensor:
        source, target = next(drawn)
        return F.cross_entropy(logits(module, source, target).flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)

    fit(module, loss, run, rate=RATE[name], label=name, rng=rng)
    right = exact(module, held := [example(rng, held=True) for _ in range(5000)])
    return module, f"exact match {right / len(held):.2%} ({right} of {len(held)} expressions of held-out dates)"


@torch.no_grad()
def exact(module: nn.Module, pairs: list[tuple[str, str]]) -> int:
    """Count the texts whose greedy decoding is exactly right.

    Greedy decoding finds the target exactly when, fed the target, every prediction is the next token of it.
    """
    right = 0
    for start in range(0, len(pairs), BATCH):
        source, target = tensors([(encode(text), iso) for text, iso in pairs[start : start + BATCH]])
        hit = logits(module, source, target).argmax(-1) == target[:, 1:]
        right += int((hit | (target[:, 1:] == PAD)).all(1).sum())
    return right
