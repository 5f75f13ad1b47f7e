"""Slips: the same text, less carefully written."""

import datetime
import random
import re
from collections.abc import Callable

from train.data.written_dates.combinators import in_turn, sometimes
from train.data.written_dates.spelling import MONTHS, WEEKDAYS

APOSTROPHE = "\u2019"
EN_DASH = "\u2013"

_ORDINAL_SUFFIX = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_LONG_NAME = re.compile("|".join(name for name in (*MONTHS, *WEEKDAYS) if len(name) > 4))
_NEEDLESS_SPACE = re.compile(r"(?<=[A-Za-z,]) | (?=[A-Za-z,])")
_MISSPELT_NUMBERS = (("twelfth", "twelth"), ("eighth", "eigth"), ("ninth", "nineth"), ("forty", "fourty"))
_MISSPELT_TENS = (("ninety", "ninty"), ("nineteen", "ninteen"))
_MISSPELT_NAMES = (("February", "Febuary"), ("Wednesday", "Wendesday"))
_MISSPELT = (*_MISSPELT_NUMBERS, *_MISSPELT_TENS, *_MISSPELT_NAMES)
_CASES: tuple[Callable[[str], str], ...] = (str.lower, str.lower, str.lower, str.upper, str.title, str.capitalize)


def change_case(rng: random.Random, _date: datetime.date, text: str) -> str:
    """Write everything small, everything capital or every word with a capital."""
    return _CASES[int(rng.random() * len(_CASES))](text)


def widen_space(rng: random.Random, _date: datetime.date, text: str) -> str:
    """Double one space, or put one at either end."""
    places = [place for place, letter in enumerate(text) if letter == " "]
    place = rng.choice([*places, *places, 0, len(text)])
    return f"{text[:place]} {text[place:]}"


def drop_space(rng: random.Random, _date: datetime.date, text: str) -> str:
    """Leave out one space, or all of them, where no two numbers run together."""
    places = [match.start() for match in _NEEDLESS_SPACE.finditer(text)]
    if not places or rng.random() < 0.2:
        return _NEEDLESS_SPACE.sub("", text)
    place = rng.choice(places)
    return text[:place] + text[place + 1 :]


def slip_at_comma(rng: random.Random, _date: datetime.date, text: str) -> str:
    """Put a comma's space on the wrong side, leave it out, or write a full stop."""
    return text.replace(", ", (",", " ,", " , ", ". ")[int(rng.random() * 4)])


def slip_at_ordinal(rng: random.Random, _date: datetime.date, text: str) -> str:
    """Write 23 rd, 23-rd or 23th."""
    return _ORDINAL_SUFFIX.sub((r" \g<0>", r" \g<0>", r"-\g<0>", "th", "th")[int(rng.random() * 5)], text, count=1)


def mistype_name(rng: random.Random, _date: datetime.date, text: str) -> str:
    """Drop, double or swap a letter in the name of a month or a weekday that is long enough to stay itself."""
    names = _LONG_NAME.findall(text)
    if not names:
        return text
    name = rng.choice(names)
    place = rng.randrange(1, len(name) - 1)
    head, letter, following, tail = name[:place], name[place], name[place + 1], name[place + 2 :]
    middle = rng.choice((following, letter + letter + following, following + letter))
    return text.replace(name, head + middle + tail, 1)


def misspell(_rng: random.Random, _date: datetime.date, text: str) -> str:
    """Misspell the words that many people do."""
    for right, wrong in _MISSPELT:
        text = text.replace(right, wrong)
    return text


def curl_apostrophe(_rng: random.Random, _date: datetime.date, text: str) -> str:
    """Write the typographic apostrophe."""
    return text.replace("'", APOSTROPHE)


def widen_dash(_rng: random.Random, _date: datetime.date, text: str) -> str:
    """Write en dashes for hyphens."""
    return text.replace("-", EN_DASH)


SLIPS = in_turn(
    sometimes(0.015, mistype_name),
    sometimes(0.02, misspell),
    sometimes(0.015, slip_at_ordinal),
    sometimes(0.02, slip_at_comma),
    sometimes(0.04, drop_space),
    sometimes(0.04, widen_space),
    sometimes(0.25, curl_apostrophe),
    sometimes(0.02, widen_dash),
    sometimes(0.55, change_case),
)
