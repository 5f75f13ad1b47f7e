"""Texts with dates whose parts are known: weekday, day, month and year, by the characters that each takes.

A template joins fields, each of which writes one part of a date, with what stands between them; what a field wrote is
that part. Where people disagree, numbers mean what they do in `written_dates`: month first with slashes, dashes and
spaces unless the first exceeds 12, day first with dots. Times of day, room numbers and other words are no part.
"""

import datetime
import random
from string import Formatter
from typing import NamedTuple

from train.data.written_dates.combinators import Part, either, joined, one_of
from train.data.written_dates.dressings import LABEL, NOTHING, REMARK
from train.data.written_dates.examples import draw_date
from train.data.written_dates.forms import MONTH, NUMBER, ORDINAL, SHORT_YEAR
from train.data.written_dates.parts import (
    CLOCK,
    full_year,
    padded_day,
    padded_month,
    plain_day,
    plain_month,
    roman_month,
    short_year,
    weekday,
    worded_ordinal_day,
    worded_year,
)

LONGEST = 92  # characters of a text


class Span(NamedTuple):
    """A part of a date, and the characters of it."""

    tag: str
    start: int
    stop: int
    field: str
    """The name of the field that wrote it."""


FIELDS: dict[str, tuple[str, Part]] = {
    "weekday": ("WEEKDAY", weekday),
    "day": ("DAY", NUMBER),
    "th": ("DAY", ORDINAL),
    "first": ("DAY", worded_ordinal_day),
    "d": ("DAY", plain_day),
    "dd": ("DAY", padded_day),
    "month": ("MONTH", MONTH),
    "m": ("MONTH", plain_month),
    "mm": ("MONTH", padded_month),
    "III": ("MONTH", roman_month),
    "year": ("YEAR", full_year),
    "yy": ("YEAR", short_year),
    "'yy": ("YEAR", SHORT_YEAR),
    "words": ("YEAR", worded_year),
}
"""By the name of a field in templates: the part that it writes, and how."""

WHOLE = (
    (8, "{day} {month} {year}"), (5, "{month} {day}, {year}"), (3, "{month} {day} {year}"), (4, "{th} {month} {year}"),
    (4, "the {th} of {month} {year}"), (3, "{month} {th}, {year}"), (2, "{month} the {th}, {year}"),
    (3, "{year} {month} {day}"), (2, "{year}, {month} {day}"), (2, "{year}, {day} {month}"),
    (3, "{day}-{month}-{year}"), (1, "{day}/{month}/{year}"), (2, "{day} {month} {'yy}"), (2, "{month} {day}, {'yy}"),
    (2, "the {first} of {month} {words}"), (2, "{month} {first}, {words}"), (2, "{first} {month} {year}"),
    (2, "{day} {month} {year} AD"), (1, "{month} {day}, A.D. {year}"), (1, "on the {th} of {month} in the year {year}"),
    (2, "{d} {III} {year}"), (2, "{d}.{III}.{year}"), (1, "{year}.{III}.{d}"),
    (6, "{m}/{d}/{year}"), (5, "{mm}/{dd}/{year}"), (5, "{m}/{d}/{yy}"), (2, "{mm}-{dd}-{year}"), (2, "{m} {d} {year}"),
    (5, "{d}.{m}.{year}"), (4, "{dd}.{mm}.{year}"), (3, "{d}.{m}.{yy}"), (8, "{year}-{mm}-{dd}"), (4, "{year}/{m}/{d}"),
    (3, "{year}{mm}{dd}"), (2, "day {d}, month {m}, year {year}"), (1, "year {year} month {m} day {d}"),
)  # fmt: skip
IN_PART = (
    (3, "{month} {year}"), (2, "{day} {month}"), (2, "the {th} of {month}"), (2, "{month} {th}"), (2, "{month}"),
    (2, "{year}"), (2, "{weekday}"), (1, "{weekday} the {th}"), (1, "{weekday}, {day} {month}"), (1, "{mm}/{year}"),
)  # fmt: skip
DAY_BEYOND_MONTHS = ((4, "{d}/{m}/{year}"), (3, "{dd}/{mm}/{year}"), (2, "{d}-{m}-{year}"), (2, "{d}/{m}/{yy}"))
"""Templates of days that no month has the number of."""

HEADS = ((12, ""), (3, "{weekday}, "), (2, "{weekday} "), (0.5, "{weekday}: "))
TAILS = ((16, ""), (1, " ({weekday})"), (1, ", {weekday}"))
BESIDE = one_of(
    *("room {}", "page {}", "flight {}", "no. {}", "chapter {}", "{} people", "seat {}", "£{}", "{} km", "line {}"),
)
COUNT = either((3, lambda rng, _date: str(rng.randrange(1, 40))), (1, lambda rng, _date: str(rng.randrange(40, 3000))))


def _counted(rng: random.Random, date: datetime.date) -> str:
    return BESIDE(rng, date).format(COUNT(rng, date))


BEFORE = either(
    (10, NOTHING), (8, LABEL), (1.5, joined(_counted, one_of(" on ", ", ", ": ", " - "))),
    (1.5, joined(either((1, "at "), (2, "")), CLOCK, one_of(" on ", ", ", " "))),
    (0.7, one_of("may I come on ", "sun on ")),
)  # fmt: skip
BEHIND = either(
    (12, NOTHING), (2, REMARK), (1.5, joined(one_of(", ", " in ", " - "), _counted)),
    (2, one_of(".", "!", "?", ";", ":")),
    (2, joined(one_of(" ", ", ", " at ", "T"), CLOCK)),
)  # fmt: skip
LINKS = (" to ", " - ", " until ", " and ", " or ", ", not ")
WITHOUT = either((1, LABEL), (1, _counted), (1, REMARK), (1, CLOCK))
"""A text without a date."""

WHOLE_SHARE, TWO_SHARE, WITHOUT_SHARE = 0.75, 0.1, 0.04


def _drawn(rng: random.Random, weighted: tuple[tuple[float, str], ...]) -> str:
    return rng.choices([text for _, text in weighted], [weight for weight, _ in weighted])[0]


class Writing:
    """A text that grows piece by piece, and the parts of dates in it."""

    def __init__(self) -> None:
        self.text = ""
        self.spans: list[Span] = []

    def add(self, rng: random.Random, date: datetime.date, template: str) -> None:
        """Write a date by a template."""
        for between, field, *_ in Formatter().parse(template):
            self.text += between
            if field:
                tag, part = FIELDS[field]
                start = len(self.text)
                self.text += part(rng, date)
                self.spans.append(Span(tag, start, len(self.text), field))


def _template(rng: random.Random, date: datetime.date) -> str:
    if rng.random() >= WHOLE_SHARE:
        return _drawn(rng, IN_PART)
    beyond = date.day > 12
    template = _drawn(rng, (*WHOLE, *DAY_BEYOND_MONTHS) if beyond else WHOLE)
    if "weekday" in template or "{'yy}" in template or (template[0] == "{" and "/" in template):
        return template
    return _drawn(rng, HEADS) + template + _drawn(rng, TAILS)


def tagged(rng: random.Random, *, held: bool = False) -> tuple[str, list[Span]]:
    """Draw a text and the parts of dates in it, in order; of held-out days if `held`, else of all others."""
    writing, date = Writing(), draw_date(rng, held=held)
    if rng.random() < WITHOUT_SHARE:
        return WITHOUT(rng, date).strip(), []
    writing.add(rng, date, _escaped(BEFORE(rng, date)))
    writing.add(rng, date, _template(rng, date))
    if rng.random() < TWO_SHARE:
        writing.text += rng.choice(LINKS)
        date = draw_date(rng, held=held)
        writing.add(rng, date, _template(rng, date))
    writing.add(rng, date, _escaped(BEHIND(rng, date)))
    return (writing.text, writing.spans) if len(writing.text) <= LONGEST else tagged(rng, held=held)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
