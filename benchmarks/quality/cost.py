"""What a map costs beside a prediction: the definitions in PyTorch, one thread, in pairs taken in turn."""

import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.quality import methods
from benchmarks.quality.images import Report, held_digits, of_images
from benchmarks.quality.methods import METHODS, Subject
from benchmarks.quality.texts import asked_of
from export.plan import Source

PAIRS = 11
ROWS = 8
"""The number of inputs of a batch."""


def ratios(source: Source, subject: Subject) -> dict[str, float]:
    """Return how long each method takes as a multiple of a prediction of the same batch: the median of pairs."""

    @torch.no_grad()
    def predict() -> None:
        source.traced.observe(*subject.inputs)

    found = {}
    for method in METHODS:
        if methods.has(source, method):
            run = lambda method=method: methods.explain(source, method, subject)  # noqa: E731 # of one line
            run()
            pairs = [(_seconds(predict), _seconds(run)) for _ in range(PAIRS)]
            found[method] = statistics.median(second / first for first, second in pairs)
    return found


def cost_table(digits: Source, dates: Source, report: Report) -> dict:
    """Measure on `digits` and `dates`."""
    pixels, labels = held_digits(ROWS)
    subjects = {"digits": (digits, of_images(pixels, labels))}
    subjects["dates"] = (dates, asked_of("dates", dates, 2).subject.at(slice(0, ROWS)))
    found = {}
    for name, (source, subject) in subjects.items():
        report(f"{name}, cost")
        found[name] = ratios(source, subject)
    return found


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
