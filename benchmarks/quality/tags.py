"""Tags whose evidence is known: the characters of a part of a date, in texts of held-out days."""

import random

import numpy as np
import torch

from benchmarks.quality import measures, methods
from benchmarks.quality.images import ALL, Report
from benchmarks.quality.methods import Subject
from export.plan import Source
from model.vocabularies import DATE_TAGS, END, PAD, START, encode
from train.data.tagged_dates import tagged
from train.recipes.language import padded
from train.recipes.tags import tags_of

PARTS = 600
SEED = 0
TELLING = {"weekday", "th", "first", "month", "year", "words"}
"""What is written so that it tells its part by itself: names, ordinals, years of four digits and in words. Of other
numbers the order and what separates them decide, as in 3/23/21, so that the evidence is not theirs alone."""
OUTSIDE = DATE_TAGS.index("O")


def of_parts(source: Source, count: int) -> tuple[float, Subject, np.ndarray]:
    """Ask for the parts of dates, each by the label of its first character against O, those of one text after another.

    Returns the share of texts without a fault (others are left out), the subject, and the characters of each part
    (part, key).
    """
    rng = random.Random(SEED)
    rows, right, drawn = [], 0, 0
    while len(rows) < count:
        text, spans = tagged(rng, held=True)
        drawn += 1
        line = torch.tensor([[START, *encode(text), END]])
        with torch.no_grad():
            found = source.traced.observe(line, line != PAD).answer[0, 1:-1].argmax(-1).tolist()
        if found == tags_of(text, spans):
            right += 1
            rows += [(text, span) for span in spans if span.field in TELLING]
    rows = rows[:count]
    lines = padded([[START, *encode(text), END] for text, _ in rows])
    first, stop = (torch.tensor([1 + getattr(span, end) for _, span in rows]) for end in ("start", "stop"))
    place, special = torch.arange(lines.shape[1]), (lines == START) | (lines == END) | (lines == PAD)
    subject = Subject(
        inputs=(lines, lines != PAD),
        baseline=(torch.where(special, lines, PAD), lines != PAD),
        target=torch.tensor([DATE_TAGS.index(span.tag) for _, span in rows]),
        against=OUTSIDE,
        position=first,
        row=first,
        visible=~special,
    )
    return right / drawn, subject, ((place >= first[:, None]) & (place < stop[:, None])).numpy()


def tag_table(source: Source, report: Report, count: int = PARTS, wanted: tuple[str, ...] = ALL) -> dict:
    """Measure, a method, in how many parts the hottest character is one of the part, and the mass on these."""
    exact, subject, gold = of_parts(source, count)
    found: dict = {"exact": exact, "parts": len(gold), "share": float(_share(gold, subject)), "methods": {}}
    for method in wanted:
        if methods.has(source, method):
            report(f"{source.name}, {method}")
            maps = methods.explain(source, method, subject)
            hits = measures.hits(maps, gold)
            found["methods"][method] = {
                "pointing": float(hits.mean()),
                "interval": measures.share_interval(int(hits.sum()), len(hits)),
                "mass": float(measures.mass(maps, gold).mean()),
            }
    return found


def _share(gold: np.ndarray, subject: Subject) -> float:
    """Return the mean share of the characters of a text that a part has."""
    assert subject.visible is not None  # as it was made
    return float((gold.sum(1) / subject.visible.numpy().sum(1)).mean())
