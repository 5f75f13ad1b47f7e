"""Written dates and two ISO dates that differ in one part: that part decides which is meant."""

import calendar
import datetime
import itertools
import operator
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.quality import measures, methods
from benchmarks.quality.images import ALL, UNSEEN, Report
from benchmarks.quality.methods import Subject
from export.plan import Source
from model.vocabularies import END, MASK, PAD, START
from train.data.written_dates.examples import held_out, sample_date
from train.data.written_dates.forms import FORMS, Form
from train.recipes.ranks import other_date, pairs

QUESTIONS = 600
"""Held-out dates, each with a right and a wrong reading."""
PARTS = {"year": slice(0, 4), "month": slice(5, 7), "day": slice(8, 10)}
"""The parts of a date, and where an ISO date has them."""
ISO = 10
"""Characters of an ISO date."""
MONTHS = [name.lower() for name in calendar.month_abbr if name]
SIGNED = {"libra", "integrated", "gradient x input"}
"""Methods whose values say for and against."""

Span = tuple[int, int]


class Question(NamedTuple):
    """A written date, its reading, and another date that differs in one part; where that part is in the first."""

    text: str
    right: str
    wrong: str
    part: str
    span: Span


def _alike(one: str, other: str) -> int:
    """Return with how many characters both texts begin."""
    return sum(itertools.takewhile(bool, map(operator.eq, one, other)))


def span_of(form: Form, seed: int, date: datetime.date, part: str) -> Span | None:
    """Return where a form writes a part of a date: the characters that change with it. None where none do."""
    text = form.write(random.Random(seed), date)
    rng, spans = random.Random(seed), []
    for other in (other_date(rng, date, [part]) for _ in range(40)):
        if form.expresses(other) and (found := form.write(random.Random(seed), other)) != text:
            start = _alike(text, found)
            spans.append((start, len(text) - _alike(text[start:][::-1], found[start:][::-1])))
    start, end = min((one for one, _ in spans), default=0), max((one for _, one in spans), default=0)
    return (start, end) if start < end else None


def questions(count: int) -> list[Question]:
    """Draw held-out dates in forms that write each part in a place of its own."""
    rng, found = random.Random(UNSEEN), list[Question]()
    while len(found) < count:
        date, form, seed = sample_date(rng), rng.choice(FORMS), rng.randrange(1 << 30)
        if not held_out(date) or not form.expresses(date):
            continue
        spans = {part: span_of(form, seed, date, part) for part in PARTS}
        placed = sorted(span for span in spans.values() if span)
        if len(placed) < len(PARTS) or any(one[1] > other[0] for one, other in itertools.pairwise(placed)):
            continue
        part = rng.choice(list(PARTS))
        text = form.write(random.Random(seed), date)
        wrong = other_date(rng, date, [part])
        found.append(Question(text, date.isoformat(), wrong.isoformat(), part, spans[part] or (0, 0)))
    return found


def _subject(asked: Sequence[Question], side: str) -> Subject:
    """Ask for the score of each written date with its right or its wrong reading."""
    tokens, types = pairs([(one.text, [getattr(one, side)]) for one in asked])
    special = (tokens == START) | (tokens == END) | (tokens == PAD)
    visible, first = tokens != PAD, torch.zeros(len(tokens), dtype=torch.int64)
    blank = torch.where(special, tokens, MASK)
    return Subject(
        inputs=(tokens, visible, types),
        baseline=(blank, visible, types),
        target=first,
        row=first,
        visible=visible,
    )


def _scores(source: Source, subject: Subject) -> Tensor:
    with torch.no_grad():
        return source.traced.observe(*subject.inputs).answer[:, 0]


def evidence(asked: Sequence[Question], length: int) -> dict[str, np.ndarray]:
    """Return where the part is in the tokens (question, length): of the written date, and of an ISO date."""
    place = np.arange(length)
    found = {"query": np.zeros((len(asked), length), bool), "text": np.zeros((len(asked), length), bool)}
    for row, one in enumerate(asked):
        start, end = one.span
        iso = PARTS[one.part]
        behind = len(one.text) + 2  # START, the written date, END
        found["query"][row] = (place > start) & (place <= end)
        found["text"][row] = (place >= behind + iso.start) & (place < behind + iso.stop)
    return found


def rank_table(source: Source, report: Report, count: int = QUESTIONS, wanted: Sequence[str] = ALL) -> dict:
    """Measure whether the part that differs is what speaks most against the wrong reading.

    Of its own characters ("text"), and of those of the written date, in the map of the wrong reading alone ("query")
    and in the difference of both maps ("difference"), as a request for the right reading `against` the wrong one has
    it: each of all dates, and of those whose month is a name, since in 3/23/21 the order of the numbers decides too.
    Methods without signs are read by what is hottest.
    """
    drawn = questions(count)
    right = _scores(source, _subject(drawn, "right")) > _scores(source, _subject(drawn, "wrong"))
    asked = [one for one, kept in zip(drawn, right.tolist(), strict=True) if kept]
    sides = {side: _subject(asked, side) for side in ("right", "wrong")}
    length = sides["right"].inputs[0].shape[1]
    truth, place = evidence(asked, length), np.arange(length)
    ends = np.array([[len(one.text) + 1] for one in asked])
    within = {"query": (place > 0) & (place < ends), "text": (place > ends) & (place < ends + 1 + ISO)}
    named = np.array([any(month in one.text.lower() for month in MONTHS) for one in asked])
    table: dict = {"exact": len(asked) / count, "questions": len(asked), "named": int(named.sum()), "methods": {}}
    for method in wanted:
        if methods.has(source, method):
            report(f"{source.name}, {method}")
            maps = {side: methods.explain(source, method, subject) for side, subject in sides.items()}
            against = -maps["wrong"] if method in SIGNED else maps["wrong"]
            read = {
                "text": ("text", against),
                "query": ("query", against),
                "difference": ("query", np.nan_to_num(maps["right"]) - np.nan_to_num(maps["wrong"])),
            }
            table["methods"][method] = {
                name: _shares(np.where(within[of], values, -np.inf), truth[of], named)
                for name, (of, values) in read.items()
            }
    return table


def _shares(values: np.ndarray, truth: np.ndarray, named: np.ndarray) -> dict:
    """Return in which share of questions the largest value is in the part: of all, and of months by name."""
    hits = measures.hits(np.nan_to_num(values, neginf=-np.inf), truth)
    return {
        "all": float(hits.mean()),
        "named": float(hits[named].mean()),
        "interval": measures.share_interval(int(hits.sum()), len(hits)),
    }
