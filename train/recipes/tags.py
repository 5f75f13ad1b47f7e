"""`dates-tags`: a classifier of each character of a text, by the part of a date that it is in."""

import itertools
import random
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.catalogue import build
from model.vocabularies import DATE_TAGS, END, PAD, START, encode
from train.data.tagged_dates import Span, tagged
from train.fit import Run, fit
from train.recipes.language import BATCH, POOLED_BATCHES, padded, small

NO_TAG = -100
"""Of START, END and padding, which the loss leaves out."""
HELD_TEXTS = 5000  # on which the figure is measured

STEPS = {"dates-tags": 6000}


def line(rng: random.Random, *, held: bool = False) -> tuple[list[int], list[int]]:
    """Draw a text as tokens between START and END, and the tag of each; of held-out days if `held`."""
    text, spans = tagged(rng, held=held)
    return [START, *encode(text), END], [NO_TAG, *tags_of(text, spans), NO_TAG]


def tags_of(text: str, spans: list[Span]) -> list[int]:
    """Return the index in DATE_TAGS of each character."""
    tags = [DATE_TAGS.index("O")] * len(text)
    for span in spans:
        tags[span.start : span.stop] = [DATE_TAGS.index(span.tag)] * (span.stop - span.start)
    return tags


def batches(rng: random.Random) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches of tokens and tags (BATCH, length), right-padded; no held-out day is among them."""
    while True:
        pool = sorted((line(rng) for _ in range(BATCH * POOLED_BATCHES)), key=lambda one: len(one[0]))
        order = list(range(POOLED_BATCHES))
        rng.shuffle(order)
        for index in order:
            yield stacked(pool[index * BATCH : (index + 1) * BATCH])


def stacked(lines: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """Stack tokens and tags (batch, longest)."""
    tokens, tags = (padded(list(rows)) for rows in zip(*lines, strict=True))
    return tokens, tags.masked_fill(tokens == PAD, NO_TAG)


def loss(module: nn.Module, tokens: Tensor, tags: Tensor) -> Tensor:
    """Return the cross-entropy of the tags of all characters."""
    logits = module(tokens, tokens != PAD)[0]
    return F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=NO_TAG)


@torch.no_grad()
def figure(module: nn.Module, lines: list[tuple[list[int], list[int]]]) -> str:
    """Format the share of characters whose tag is right, of parts found whole, and of texts without a fault."""
    right, characters, whole, parts, faultless = 0, 0, 0, 0, 0
    for start in range(0, len(lines), BATCH):
        tokens, tags = stacked(lines[start : start + BATCH])
        asked = tags != NO_TAG
        found = module(tokens, tokens != PAD)[0].argmax(-1).masked_fill(~asked, NO_TAG)
        hits = found == tags
        right, characters = right + int(hits[asked].sum()), characters + int(asked.sum())
        faultless += int(hits.all(1).sum())
        for own, true in zip(found.tolist(), tags.tolist(), strict=True):
            wanted = _parts(true)
            parts, whole = parts + len(wanted), whole + len(wanted & _parts(own))
    return (
        f"parts found whole {whole / parts:.2%} ({whole} of {parts}), tags of characters {right / characters:.2%}, "
        f"texts without a fault {faultless / len(lines):.2%} of {len(lines)} of held-out days"
    )


def _parts(tags: list[int]) -> set[tuple[int, int, int]]:
    """Return the parts that tags stand for: the tag, where the part begins, and where it ends."""
    found, place = set(), 0
    for tag, run in itertools.groupby(tags):
        stop = place + len(list(run))
        if tag > 0:
            found.add((tag, place, stop))
        place = stop
    return found


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train the model; return it and the sentence its card quotes."""
    rng = run.begin()
    module = build(name).apply(small)
    drawn = batches(rng)
    fit(module, lambda: loss(module, *next(drawn)), run, rate=2e-3, label=name, rng=rng)
    return module, figure(module, [line(rng, held=True) for _ in range(HELD_TEXTS)])
