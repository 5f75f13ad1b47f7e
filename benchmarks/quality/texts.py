"""What is measured on models of texts: alignment of sequences and dates, and sentences that share a noun."""

import numpy as np
import torch

from benchmarks.quality import measures, methods, sentences, sequences
from benchmarks.quality.images import ALL, UNSEEN, Report
from benchmarks.quality.sequences import Asked
from export.plan import Source

DATES = 100
"""Held-out dates, of each of which six characters are asked for."""
REVERSALS = 300


def alignment_table(source: Source, asked: Asked, report: Report, wanted=ALL) -> dict:
    """Return, a method, the alignment error and the share of positive mass on the right place; and errors by layer."""
    gold = np.arange(methods.keys(source, asked.subject)) == asked.gold[:, None]
    found: dict = {"exact": asked.exact, "tokens": len(asked.gold), "methods": {}}
    for method in wanted:
        if methods.has(source, method):
            report(f"{source.name}, {method}")
            maps = methods.explain(source, method, asked.subject)
            wrong = 1 - measures.hits(maps, gold)
            found["methods"][method] = {
                "error": float(wrong.mean()),
                "interval": measures.share_interval(int(wrong.sum()), len(wrong)),
                "mass": float(measures.mass(maps, gold).mean()),
            }
    if source.attention[-1].kind == "cross":
        found["layers"] = sequences.by_row(source, asked)
    return found


def asked_of(name: str, source: Source, count: int = DATES) -> Asked:
    """Ask a bundled model of dates for the characters that are copied."""
    drawn = sequences.plain_dates(count)
    if name == "dates-clm":
        return sequences.of_continued(source, drawn)
    if name == "dates-mlm":
        return sequences.of_masked(source, drawn)
    return sequences.of_targets(source, sequences.translated(drawn))


def reversal_table(seeds: tuple[int, ...], report: Report) -> dict:
    """Train and measure a reverser for each seed."""
    found = {}
    for seed in seeds:
        source = sequences.reverser(seed)
        drawn = sequences.reversals(REVERSALS, torch.Generator().manual_seed(UNSEEN))
        found[str(seed)] = alignment_table(source, sequences.of_targets(source, drawn), report)
    return found


def sentence_table(source: Source, report: Report, wanted=ALL) -> dict:
    """Measure in how many pairs the noun is the hottest token, of all and of those that are words."""
    subject, noun = sentences.of_pairs(source)
    tokens = torch.arange(noun.shape[1])
    words = ((tokens > 0) & (tokens < subject.visible.sum(1, keepdim=True) - 1)).numpy()
    found: dict = {"pairs": len(noun), "methods": {}}
    for method in wanted:
        report(f"minilm, {method}")
        maps = methods.explain(source, method, subject)
        hits = measures.hits(maps, noun)
        found["methods"][method] = {
            "hottest": float(hits.mean()),
            "interval": measures.share_interval(int(hits.sum()), len(hits)),
            "hottest word": float(measures.hits(np.where(words, maps, -np.inf), noun).mean()),
            "mass": float(measures.mass(maps, noun).mean()),
        }
    return found
