"""`dates-rank`: a cross-encoder that says which ISO date a written date means; it begins with `dates-mlm`'s weights."""

import datetime
import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.text_encoder import TextEncoder
from model.catalogue import build, bundled
from model.vocabularies import END, PAD, START, encode
from train.data.written_dates.examples import draw_date, write
from train.fit import Run, fit
from train.recipes.language import small

CANDIDATES = 5
"""ISO dates of which a written date means one."""
QUERIES = 16
"""In a batch."""
POOLED_BATCHES = 16  # drawn together and sorted by length, so that there is little padding
ONE_PART_SHARE = 0.8  # of the wrong candidates, which differ from the right one in one part
HELD_QUERIES = 2000  # on which the figure is measured
LEAST_YEAR, LAST_YEAR = 1600, 2199


def other_date(rng: random.Random, date: datetime.date, parts: Sequence[str]) -> datetime.date:
    """Draw a date that differs from another in the named parts alone: year, month, day.

    Half of all other years differ in one digit.
    """
    while True:
        drawn = {"year": _other_year(rng, date.year), "month": rng.randint(1, 12), "day": rng.randint(1, 31)}
        try:
            found = date.replace(**{part: drawn[part] for part in parts})
        except ValueError:  # no such day
            continue
        if all(getattr(found, part) != getattr(date, part) for part in parts):
            return found


def _other_year(rng: random.Random, year: int) -> int:
    if rng.random() < 0.5:
        return rng.randint(LEAST_YEAR, LAST_YEAR)
    return min(max(year + rng.choice((-100, -10, -1, 1, 10, 100)), LEAST_YEAR), LAST_YEAR)


def candidates(rng: random.Random, date: datetime.date) -> list[str]:
    """Return CANDIDATES different ISO dates, the first of which is the right one."""
    found = [date]
    while len(found) < CANDIDATES:
        count = 1 if rng.random() < ONE_PART_SHARE else rng.randint(2, 3)
        drawn = other_date(rng, date, rng.sample(("year", "month", "day"), count))
        if drawn not in found:
            found.append(drawn)
    return [one.isoformat() for one in found]


def question(rng: random.Random, *, held: bool = False) -> tuple[str, list[str]]:
    """Draw a written date and its candidates; of a held-out day if `held`."""
    date = draw_date(rng, held=held)
    return write(rng, date), candidates(rng, date)


def pairs(questions: Sequence[tuple[str, Sequence[str]]]) -> tuple[Tensor, Tensor]:
    """Return the tokens and token types (questions x candidates, longest) of each written date with each candidate."""
    tokens, types = [], []
    for text, dates in questions:
        first = [START, *encode(text), END]
        for date in dates:
            second = [*encode(date), END]
            tokens.append(torch.tensor(first + second))
            types.append(torch.tensor([0] * len(first) + [1] * len(second)))
    return (
        nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=PAD),
        nn.utils.rnn.pad_sequence(types, batch_first=True),
    )


def scores(module: nn.Module, questions: Sequence[tuple[str, Sequence[str]]]) -> Tensor:
    """Return the logits (questions, candidates)."""
    tokens, types = pairs(questions)
    logits: Tensor = module(tokens, tokens != PAD, types)[0]
    return logits.reshape(len(questions), -1)


def batches(rng: random.Random) -> Iterator[list[tuple[str, list[str]]]]:
    """Yield endless batches of QUERIES questions; no held-out day is asked for."""
    while True:
        pool = sorted((question(rng) for _ in range(QUERIES * POOLED_BATCHES)), key=lambda one: len(one[0]))
        order = list(range(POOLED_BATCHES))
        rng.shuffle(order)
        for index in order:
            yield pool[index * QUERIES : (index + 1) * QUERIES]


def begun() -> TextEncoder:
    """Return the model with the embeddings and blocks of `dates-mlm`, and a fresh head."""
    module, filler = build("dates-rank").apply(small), bundled("dates-mlm")
    assert isinstance(module, TextEncoder)  # noqa: S101 # for the type checker
    known = filler.state_dict()
    module.load_state_dict({**module.state_dict(), **{name: known[name] for name in known if "head" not in name}})
    return module


def ranking_loss(logits: Tensor) -> Tensor:
    """Return the cross-entropy of the right candidate, the first, among all, and of each alone by a sigmoid."""
    right = torch.zeros_like(logits)
    right[:, 0] = 1
    among = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
    return among + F.binary_cross_entropy_with_logits(logits, right)


@torch.no_grad()
def figure(module: nn.Module, questions: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Format the share of questions whose right candidate is ranked first, and of candidates that are judged right."""
    found = torch.cat([scores(module, questions[at : at + QUERIES]) for at in range(0, len(questions), QUERIES)])
    first = int((found.argmax(1) == 0).sum())
    alone = float(((found > 0) == (torch.arange(found.shape[1]) == 0)).double().mean())
    return (
        f"the right one of {CANDIDATES} first {first / len(found):.2%} ({first} of {len(found)} written dates of "
        f"held-out days); {alone:.2%} of pairs on the right side of one half"
    )


STEPS = {"dates-rank": 6000}


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train the model; return it and the sentence its card quotes."""
    rng = run.begin()
    module, drawn = begun(), batches(rng)
    fit(module, lambda: ranking_loss(scores(module, next(drawn))), run, rate=1e-3, label=name, rng=rng)
    return module, figure(module, [question(rng, held=True) for _ in range(HELD_QUERIES)])
