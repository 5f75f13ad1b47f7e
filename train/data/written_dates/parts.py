"""Parts: one piece of a date each. The docstring of a part is what it writes."""

import datetime
import random

from train.data.written_dates.combinators import either
from train.data.written_dates.spelling import (
    ABBREVIATED_MONTHS,
    ABBREVIATED_WEEKDAYS,
    CARDINALS,
    MONTHS,
    ORDINALS,
    ROMANS,
    SHORT_MONTHS,
    WEEKDAYS,
    WORDED_ORDINALS,
    roman,
)

# Days.


def plain_day(_rng: random.Random, date: datetime.date) -> str:
    """7."""
    return str(date.day)


def padded_day(_rng: random.Random, date: datetime.date) -> str:
    """07."""
    return f"{date.day:02d}"


def ordinal_day(_rng: random.Random, date: datetime.date) -> str:
    """7th."""
    return ORDINALS[date.day]


def worded_ordinal_day(rng: random.Random, date: datetime.date) -> str:
    """Twenty-third, or without the hyphen."""
    return _perhaps_unhyphenated(rng, WORDED_ORDINALS[date.day])


def worded_day(rng: random.Random, date: datetime.date) -> str:
    """Twenty-three, or without the hyphen."""
    return _perhaps_unhyphenated(rng, CARDINALS[date.day])


def roman_day(_rng: random.Random, date: datetime.date) -> str:
    """XXIII."""
    return ROMANS[date.day]


def _perhaps_unhyphenated(rng: random.Random, words: str) -> str:
    return words.replace("-", " ") if rng.random() < 0.45 else words


# Months.


def plain_month(_rng: random.Random, date: datetime.date) -> str:
    """3."""
    return str(date.month)


def padded_month(_rng: random.Random, date: datetime.date) -> str:
    """03."""
    return f"{date.month:02d}"


def ordinal_month(_rng: random.Random, date: datetime.date) -> str:
    """3rd."""
    return ORDINALS[date.month]


def worded_ordinal_month(_rng: random.Random, date: datetime.date) -> str:
    """Third."""
    return WORDED_ORDINALS[date.month]


def full_month(_rng: random.Random, date: datetime.date) -> str:
    """March."""
    return MONTHS[date.month]


def short_month(_rng: random.Random, date: datetime.date) -> str:
    """Mar."""
    return SHORT_MONTHS[date.month]


def abbreviated_month(rng: random.Random, date: datetime.date) -> str:
    """Mar, with or without a dot, and Sept as well as Sep."""
    names = ABBREVIATED_MONTHS[date.month]
    return names[int(rng.random() * len(names))]


def undotted_month(rng: random.Random, date: datetime.date) -> str:
    """Mar, never with a dot, and Sept as well as Sep."""
    return abbreviated_month(rng, date).rstrip(".")


def roman_month(_rng: random.Random, date: datetime.date) -> str:
    """III."""
    return ROMANS[date.month]


# Years.


def full_year(_rng: random.Random, date: datetime.date) -> str:
    """2021."""
    return str(date.year)


def short_year(_rng: random.Random, date: datetime.date) -> str:
    """21."""
    return f"{date.year % 100:02d}"


def roman_year(_rng: random.Random, date: datetime.date) -> str:
    """MMXXI."""
    return roman(date.year)


def paired_year(rng: random.Random, date: datetime.date) -> str:
    """Nineteen eighty-four, nineteen oh five, nineteen hundred; but two thousand."""
    century, rest = divmod(date.year, 100)
    if rest >= 10:
        return f"{CARDINALS[century]} {CARDINALS[rest]}"
    if rest == 0:
        return year_in_thousands(rng, date) if century == 20 else f"{CARDINALS[century]} hundred"
    nought = (" oh ", " oh ", "-oh-", " o ")[int(rng.random() * 4)]
    return f"{CARDINALS[century]}{nought}{CARDINALS[rest]}"


def year_in_hundreds(rng: random.Random, date: datetime.date) -> str:
    """Nineteen hundred and five; but two thousand and five."""
    century, rest = divmod(date.year, 100)
    if century == 20:
        return year_in_thousands(rng, date)
    return f"{CARDINALS[century]} hundred{_remainder(rng, rest)}"


def year_in_thousands(rng: random.Random, date: datetime.date) -> str:
    """Two thousand and twenty-one, one thousand nine hundred and five."""
    thousands, below = divmod(date.year, 1000)
    hundreds, rest = divmod(below, 100)
    middle = f" {CARDINALS[hundreds]} hundred" if hundreds else ""
    return f"{CARDINALS[thousands]} thousand{middle}{_remainder(rng, rest)}"


def _remainder(rng: random.Random, rest: int) -> str:
    link = " and " if rng.random() < 0.6 else " "
    return f"{link}{CARDINALS[rest]}" if rest else ""


def worded_year(rng: random.Random, date: datetime.date) -> str:
    """The year as it is said, in hundreds before 2010 more often than after."""
    style = _EARLY_YEAR_STYLE if 2000 <= date.year < 2010 else _YEAR_STYLE
    return _perhaps_unhyphenated(rng, style(rng, date))


def worded_short_year(_rng: random.Random, date: datetime.date) -> str:
    """Seventy-six, oh five, oh oh."""
    rest = date.year % 100
    return CARDINALS[rest] if rest >= 10 else f"oh {CARDINALS[rest] if rest else 'oh'}"


_YEAR_STYLE = either((6, paired_year), (3, year_in_hundreds), (0.5, year_in_thousands))
_EARLY_YEAR_STYLE = either((2, paired_year), (8, year_in_thousands))


# Weekdays and times of day.


def weekday(rng: random.Random, date: datetime.date) -> str:
    """Tuesday, or Tue and the like."""
    if rng.random() < 0.55:
        return WEEKDAYS[date.weekday()]
    names = ABBREVIATED_WEEKDAYS[date.weekday()]
    return names[int(rng.random() * len(names))]


def short_weekday(_rng: random.Random, date: datetime.date) -> str:
    """Tue, as machines write it."""
    return WEEKDAYS[date.weekday()][:3]


def hour_and_minute(rng: random.Random, _date: datetime.date) -> str:
    """10:15."""
    return f"{int(rng.random() * 24):02d}:{int(rng.random() * 60):02d}"


def full_clock(rng: random.Random, date: datetime.date) -> str:
    """10:15:00."""
    return f"{hour_and_minute(rng, date)}:{int(rng.random() * 60):02d}"


def compact_clock(rng: random.Random, date: datetime.date) -> str:
    """101500."""
    return full_clock(rng, date).replace(":", "")


def twelve_hour_clock(rng: random.Random, _date: datetime.date) -> str:
    """5pm, 10:15 a.m., noon."""
    hour = 1 + int(rng.random() * 12)
    minute = int(rng.random() * 60)
    half = ("am", "pm", " am", " pm", " a.m.", " p.m.")[int(rng.random() * 6)]
    return (f"{hour}:{minute:02d}{half}", f"{hour}{half}", "noon")[int(rng.random() * 2.2)]


CLOCK = either((4, hour_and_minute), (2, full_clock), (3, twelve_hour_clock))
ZONE = either((2, "Z"), (1, ""), (1, "+00:00"), (1, "-05:00"), (1, "+02:00"), (0.5, ".000Z"), (0.5, " UTC"))
