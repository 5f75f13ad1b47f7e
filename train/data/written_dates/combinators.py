"""What parts and dressings are made of: choices, sequences, chances."""

import bisect
import datetime
import itertools
import random
from collections.abc import Callable

Part = Callable[[random.Random, datetime.date], str]
Dressing = Callable[[random.Random, datetime.date, str], str]

LONGEST = 64  # characters of a written date


# Parts.


def literal(text: str) -> Part:
    """Write the same text for every date."""
    return lambda _rng, _date: text


def _as_part(piece: Part | str) -> Part:
    return literal(piece) if isinstance(piece, str) else piece


def one_of(*texts: str) -> Part:
    """Write one of the texts, each as likely as the others."""
    return lambda rng, _date: texts[int(rng.random() * len(texts))]


def either(*options: tuple[float, Part | str]) -> Part:
    """Write one of the options, as often as its weight says."""
    parts = [_as_part(piece) for _, piece in options]
    bounds = list(itertools.accumulate(weight for weight, _ in options))
    return lambda rng, date: parts[bisect.bisect(bounds, rng.random() * bounds[-1])](rng, date)


def joined(*pieces: Part | str) -> Part:
    """Write the pieces one after the other."""
    parts = [_as_part(piece) for piece in pieces]
    return lambda rng, date: "".join([part(rng, date) for part in parts])


def separated(separator: Part, *parts: Part) -> Part:
    """Write the parts with one separator, drawn once, between them."""
    return lambda rng, date: separator(rng, date).join([part(rng, date) for part in parts])


def shuffled(separator: Part, *parts: Part) -> Part:
    """Write the parts in any order with one separator between them."""
    return lambda rng, date: separator(rng, date).join([part(rng, date) for part in rng.sample(parts, len(parts))])


# Dressings.


def sometimes(chance: float, dressing: Dressing) -> Dressing:
    """Dress the text with this chance, and only if the result is short enough."""

    def dressed(rng: random.Random, date: datetime.date, text: str) -> str:
        if rng.random() >= chance:
            return text
        result = dressing(rng, date, text)
        return result if len(result) <= LONGEST else text

    return dressed


def in_turn(*dressings: Dressing) -> Dressing:
    """Apply the dressings one after the other."""

    def dressed(rng: random.Random, date: datetime.date, text: str) -> str:
        for dressing in dressings:
            text = dressing(rng, date, text)
        return text

    return dressed


def around(before: Part, after: Part) -> Dressing:
    """Put one part before the text and one after it."""
    return lambda rng, date, text: f"{before(rng, date)}{text}{after(rng, date)}"
