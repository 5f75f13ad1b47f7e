"""Dates as people write them in English, each with its ISO 8601 reading: endless examples to train on.

What a text means where people disagree:

* Four digits first are the year, and month and day follow: 2021-03-23, 2021/3/23, 2021 03 23.
* Numbers joined by slashes, dashes or spaces are month first (3/23/21), unless the first number
  exceeds 12: then it is the day (23/3/21).
* Numbers joined by dots are day first (23.3.2021), unless the second number exceeds 12: 3.23.2021.
* Eight digits in a row are YYYYMMDD.
* Years of two digits follow POSIX: 00 to 68 are 2000 to 2068, 69 to 99 are 1969 to 1999. They come last.
* Without the month's name, "the 4th of the 3rd" is the fourth of March: the day comes first. A Roman
  month stands between day and year, 23.III.2021, or year and day, 2021.III.23.
* A weekday and a time of day change nothing, and a zone does not move the date.

A part writes one piece of a date, a form joins parts in one order, a dressing adds what surrounds a
date in a text (weekday, time, label), and a slip writes the same less carefully.
"""

import bisect
import datetime
import itertools
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

Part = Callable[[random.Random, datetime.date], str]
Dressing = Callable[[random.Random, datetime.date, str], str]

LONGEST = 64  # characters of a written date
APOSTROPHE = "\u2019"
EN_DASH = "\u2013"

_FIRST = datetime.date(1600, 1, 1).toordinal()
_RECENT = datetime.date(1900, 1, 1).toordinal()
_RECENT_END = datetime.date(2061, 1, 1).toordinal()
_END = datetime.date(2200, 1, 1).toordinal()
_RECENT_SHARE = 0.75

_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_UNITS = (*_SMALL, *_TEENS)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_IRREGULAR = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
_IRREGULAR |= {"twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth"}
_ROMAN_HUNDREDS = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"))
_ROMAN_TENS = ((90, "XC"), (50, "L"), (40, "XL"), (10, "X"))
_ROMAN_UNITS = ((9, "IX"), (5, "V"), (4, "IV"), (1, "I"))


def _cardinal(number: int) -> str:
    if number < 20:
        return _UNITS[number]
    tens, unit = divmod(number, 10)
    return f"{_TENS[tens - 2]}-{_UNITS[unit]}" if unit else _TENS[tens - 2]


def _worded_ordinal(number: int) -> str:
    head, dash, last = _cardinal(number).rpartition("-")
    return head + dash + _IRREGULAR.get(last, f"{last}th")


def _suffixed_ordinal(number: int) -> str:
    suffix = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _roman(number: int) -> str:
    numeral = ""
    for value, letters in (*_ROMAN_HUNDREDS, *_ROMAN_TENS, *_ROMAN_UNITS):
        count, number = divmod(number, value)
        numeral += letters * count
    return numeral


CARDINALS = tuple(_cardinal(number) for number in range(100))
ORDINALS = tuple(_suffixed_ordinal(number) for number in range(32))
WORDED_ORDINALS = tuple(_worded_ordinal(number) for number in range(32))
ROMANS = tuple(_roman(number) for number in range(32))
_FIRST_HALF = ("January", "February", "March", "April", "May", "June")
_SECOND_HALF = ("July", "August", "September", "October", "November", "December")
MONTHS = ("", *_FIRST_HALF, *_SECOND_HALF)  # as datetime counts them, from 1
SHORT_MONTHS = tuple(name[:3] for name in MONTHS)
ABBREVIATED_MONTHS = tuple(
    ("Sep", "Sept", "Sept.", "Sep.") if name == "Sep" else (name, name, f"{name}.") for name in SHORT_MONTHS
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ABBREVIATED_WEEKDAYS = (
    ("Mon", "Mon."),
    ("Tue", "Tue.", "Tues", "Tues."),
    ("Wed", "Wed.", "Weds"),
    ("Thu", "Thu.", "Thur", "Thurs", "Thurs."),
    ("Fri", "Fri."),
    ("Sat", "Sat."),
    ("Sun", "Sun."),
)


# How parts are put together.


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
    return _roman(date.year)


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
    hour, minute = 1 + int(rng.random() * 12), int(rng.random() * 60)
    half = ("am", "pm", " am", " pm", " a.m.", " p.m.")[int(rng.random() * 6)]
    return (f"{hour}:{minute:02d}{half}", f"{hour}{half}", "noon")[int(rng.random() * 2.2)]


CLOCK = either((4, hour_and_minute), (2, full_clock), (3, twelve_hour_clock))
ZONE = either((2, "Z"), (1, ""), (1, "+00:00"), (1, "-05:00"), (1, "+02:00"), (0.5, ".000Z"), (0.5, " UTC"))


# Larger parts, shared by the forms.

NUMBER = either((7, plain_day), (2, padded_day))
MONTH = either((6, full_month), (4, abbreviated_month))
GLUED_MONTH = either((1, full_month), (1, undotted_month))
ORDINAL = either((4, ordinal_day), (1, worded_ordinal_day))
OPTIONAL_THE = either((1, "the "), (1, ""))
OPTIONAL_COMMA = either((3, " "), (2, ", "))
BEFORE_YEAR = (" of ", " in ", " in the year ", ", in the year ", " of the year ", " year ", " of year ")
BEFORE_ERA = ("A.D. ", "AD ", "anno domini ", "in AD ", "in the year of our Lord ", "the year of our Lord ")
ERA = either(
    (1, joined(one_of(*BEFORE_ERA), full_year)),
    (1, joined(full_year, one_of(" AD", " A.D.", " CE", " C.E."))),
)
YEAR_AFTER = either(
    (12, joined(" ", full_year)),
    (6, joined(", ", full_year)),
    (1.5, joined(one_of(*BEFORE_YEAR), full_year)),
    (0.3, joined(" (", full_year, ")")),
    (1, joined(OPTIONAL_COMMA, ERA)),
    (1, joined(OPTIONAL_COMMA, worded_year)),
)
SHORT_YEAR = either((1, joined("'", short_year)), (1, short_year))
SHORT_YEAR_AFTER = joined(OPTIONAL_COMMA, SHORT_YEAR)
WORDED_YEAR_AFTER = joined(either((3, " "), (2, ", "), (0.3, " in "), (0.3, " of the year ")), worded_year)

# A day and a month in either order, before the year.
DAY_MONTH = joined(NUMBER, either((15, " "), (1, ", "), (1, " of ")), MONTH)
ORDINAL_MONTH = joined(OPTIONAL_THE, ordinal_day, either((5, " "), (1, ", ")), MONTH)
ORDINAL_OF_MONTH = joined(OPTIONAL_THE, ordinal_day, " of ", MONTH)
WORDED_OF_MONTH = joined(OPTIONAL_THE, worded_ordinal_day, either((2, " of "), (1, " ")), MONTH)
MONTH_DAY = joined(MONTH, either((12, " "), (0.5, ", ")), NUMBER)
MONTH_ORDINAL = joined(MONTH, " ", ordinal_day)
MONTH_THE_ORDINAL = joined(MONTH, either((3, " the "), (1, ", the ")), ORDINAL)
MONTH_WORDED = joined(MONTH, either((3, " "), (1, " the ")), worded_ordinal_day)

ODD_SEPARATOR = one_of(" - ", " / ", "_", ",", ". ", "--")
NAMED_SEPARATOR = either((8, "-"), (4, "/"), (3, "."), (2, ODD_SEPARATOR))
IN_YEAR = joined(one_of("in ", "in ", "in the year ", "the year "), full_year)
ON_DAY = either((2, joined("on ", MONTH_DAY)), (2, joined("on ", ORDINAL_OF_MONTH)), (1, ORDINAL_OF_MONTH))
NAMED_MONTH = either((3, undotted_month), (2, full_month))
NAMED_DAY = either((6, NUMBER), (1, ordinal_day))
SPACE = literal(" ")
SLASH = either((12, "/"), (1, " / "))
DASH = either((12, "-"), (1, " - "))
DOT = either((12, "."), (1, ". "))
ODD_YEAR_FIRST_SEPARATOR = one_of(" - ", " / ", ". ", "_", ":", "_", ":")
YEAR_FIRST_SEPARATOR = either((4, "/"), (3, "-"), (3, "."), (2, " "), (2, ODD_YEAR_FIRST_SEPARATOR))


def month_first(separator: Part, year: Part) -> Part:
    """Numbers as in 3/23/2021, padded, plain or half of each."""
    return either(
        (5, separated(separator, plain_month, plain_day, year)),
        (5, separated(separator, padded_month, padded_day, year)),
        (1, separated(separator, plain_month, padded_day, year)),
    )


def day_first(separator: Part, year: Part) -> Part:
    """Numbers as in 23/3/2021, padded, plain or half of each."""
    return either(
        (5, separated(separator, plain_day, plain_month, year)),
        (5, separated(separator, padded_day, padded_month, year)),
        (1, separated(separator, plain_day, padded_month, year)),
    )


def year_first(separator: Part) -> Part:
    """Numbers as in 2021/3/23, padded or plain."""
    return either(
        (3, separated(separator, full_year, padded_month, padded_day)),
        (2, separated(separator, full_year, plain_month, plain_day)),
    )


ISO = separated(literal("-"), full_year, padded_month, padded_day)
COMPACT = joined(full_year, padded_month, padded_day)
IN_WORDS = (joined("year ", full_year), joined("month ", plain_month), joined("day ", NUMBER))
AS_FIELDS = (joined("year: ", full_year), joined("month: ", MONTH), joined("day: ", NUMBER))
AS_SETTINGS = (joined("y=", full_year), joined("m=", plain_month), joined("d=", plain_day))
LABELLED = either(
    (2, shuffled(one_of(" ", ", ", "; "), *IN_WORDS)),
    (1, shuffled(one_of(" ", ", "), *AS_FIELDS)),
    (1, shuffled(one_of(" ", ", ", "&"), *AS_SETTINGS)),
    (1, joined('{"year": ', full_year, ', "month": ', plain_month, ', "day": ', plain_day, "}")),
)
THE_ORDINAL = joined(OPTIONAL_THE, ORDINAL)
EITHER_ORDINAL_MONTH = either((1, worded_ordinal_month), (1, ordinal_month))
NUMBERED_MONTH = either(
    (3, joined(THE_ORDINAL, " of the ", EITHER_ORDINAL_MONTH, OPTIONAL_COMMA, full_year)),
    (2, joined(THE_ORDINAL, one_of(" ", " day "), "of the ", EITHER_ORDINAL_MONTH, " month", YEAR_AFTER)),
    (1, joined("day ", plain_day, " of month ", plain_month, one_of(" of ", ", ", " in "), full_year)),
)
ROMAN_SEPARATOR = one_of(".", ".", "-", "/", " ")
SLASH_DASH_OR_DOT = one_of("/", "-", ".")  # a space might get lost and fuse two numerals

# What machines write.
ISO_CLOCK = joined(one_of("T", "T", " "), either((3, full_clock), (1, hour_and_minute)))
ISO_TIMESTAMP = joined(ISO, ISO_CLOCK, ZONE)
COMPACT_TIMESTAMP = joined(COMPACT, "T", compact_clock, one_of("", "Z"))
MAIL_DAY = joined(short_weekday, ", ", NUMBER, " ", short_month, " ", full_year)
MAIL_HEADER = joined(MAIL_DAY, " ", full_clock, one_of(" +0000", " GMT", " -0500", ""))
UNIX_DAY = joined(short_weekday, " ", short_month, " ", NUMBER, " ")
UNIX_DATE = either(
    (2, joined(UNIX_DAY, full_clock, one_of(" ", " UTC "), full_year)),
    (1, joined(UNIX_DAY, full_year, " ", full_clock, one_of("", " GMT+0000", " GMT"))),
)
WEB_LOG = joined(padded_day, "/", short_month, "/", full_year, ":", full_clock, one_of(" +0000", ""))


# What surrounds a date in a text.


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


NOTHING = literal("")
LABEL = one_of(
    *("on ",) * 7,
    *("on the date ", "date: ", "date ", "date:", "Date - ", "dated ", "due on ", "due ", "due: ", "by "),
    *("deadline: ", "born ", "born on ", "DOB: ", "D.O.B. ", "date of birth: ", "b. ", "died ", "since ", "until "),
    *("till ", "before ", "after ", "from ", "as of ", "effective ", "expires ", "exp. ", "valid until ", "when: "),
    *("published ", "posted on ", "updated: ", "last updated ", "created: ", "signed on ", "sent ", "received "),
    *("issued ", "invoice date: ", "meeting on ", "the party is on ", "it happened on ", "today is ", "it was "),
    *("see you on ", "I was born on ", "we met on ", "starting ", "ends ", "arrival: ", "this ", "circa ", "around "),
    *("London, ", "Paris, ", "New York, ", "Berlin, ", "~", "= ", "- ", "* ", "# ", "> "),
)
REMARK = one_of(
    *(" at the latest", " is the deadline", " was a good day", " onwards", " please", " (draft)", " - meeting"),
    *(" edition", " or later", " in London", " we met", " it rained", " if possible", ", Paris"),
)
WEEKDAY_BEFORE = joined(weekday, either((6, ", "), (6, " "), (0.3, " - "), (0.3, ": ")))
WEEKDAY_AFTER = either(
    (2, joined(" (", weekday, ")")),
    (2, joined(", ", weekday)),
    (1, joined(" ", weekday)),
    (0.5, joined(one_of(", a ", " was a "), weekday)),
)
TIME_BEFORE = joined(either((1, "at "), (2, "")), CLOCK, one_of(" on ", ", ", " "))
TIME_AFTER = joined(either((3, " "), (2, ", "), (3, " at "), (0.3, " @ ")), CLOCK)


def bracketed(rng: random.Random, _date: datetime.date, text: str) -> str:
    """Put the text in brackets, quotes or the like."""
    opening, closing = ("()", "[]", '""', "<>", "**", "{}")[int(rng.random() * 6)]
    return f"{opening}{text}{closing}"


END = one_of(".", ".", ".", ",", "!", "?", ";", ":", "...", " .", " !", ").")
IN_A_SENTENCE = in_turn(
    sometimes(0.12, around(LABEL, NOTHING)),
    sometimes(0.02, around(NOTHING, REMARK)),
    sometimes(0.05, around(NOTHING, END)),
    sometimes(0.015, bracketed),
)
SPOKEN = in_turn(
    sometimes(0.2, around(WEEKDAY_BEFORE, NOTHING)),
    sometimes(0.04, around(NOTHING, WEEKDAY_AFTER)),
    sometimes(0.015, around(TIME_BEFORE, NOTHING)),
    sometimes(0.04, around(NOTHING, TIME_AFTER)),
    IN_A_SENTENCE,
)


# Forms.


def any_date(_date: datetime.date) -> bool:
    """Allow every date."""
    return True


def two_digits_suffice(date: datetime.date) -> bool:
    """Allow the hundred years that POSIX gives to two digits."""
    return 1969 <= date.year <= 2068


def day_is_no_month(date: datetime.date) -> bool:
    """Allow days that cannot be read as a month."""
    return date.day > 12


def day_is_no_month_and_two_digits_suffice(date: datetime.date) -> bool:
    """Allow days above 12 in the years of two digits."""
    return day_is_no_month(date) and two_digits_suffice(date)


@dataclass(frozen=True)
class Form:
    """One way to write a date, how often it is drawn, the dates it can express and what may surround it."""

    name: str
    weight: float
    write: Part
    expresses: Callable[[datetime.date], bool] = any_date
    dress: Dressing = SPOKEN


_NAMED_FORMS = (
    Form("day month year", 12, joined(DAY_MONTH, YEAR_AFTER)),
    Form("ordinal month year", 7, joined(ORDINAL_MONTH, YEAR_AFTER)),
    Form("ordinal of month year", 7, joined(ORDINAL_OF_MONTH, YEAR_AFTER)),
    Form("worded ordinal of month year", 4, joined(WORDED_OF_MONTH, YEAR_AFTER)),
    Form("ordinal day of month year", 1.5, joined(THE_ORDINAL, " day of ", MONTH, YEAR_AFTER)),
    Form("month day, year", 9, joined(MONTH_DAY, ", ", full_year)),
    Form("month day year", 6, joined(MONTH_DAY, YEAR_AFTER)),
    Form("month ordinal year", 7, joined(MONTH_ORDINAL, YEAR_AFTER)),
    Form("month the ordinal year", 2.5, joined(MONTH_THE_ORDINAL, YEAR_AFTER)),
    Form("month worded ordinal year", 3, joined(MONTH_WORDED, YEAR_AFTER)),
    Form("month day weekday year", 0.5, joined(MONTH_DAY, WEEKDAY_AFTER, ", ", full_year), dress=IN_A_SENTENCE),
    Form("month year, ordinal", 0.8, joined(MONTH, one_of(" ", " ", " of "), full_year, ", ", THE_ORDINAL)),
    Form("year month day", 3.5, joined(full_year, OPTIONAL_COMMA, either((2, MONTH_DAY), (1, MONTH_ORDINAL)))),
    Form("year month the ordinal", 0.6, joined(full_year, OPTIONAL_COMMA, MONTH_THE_ORDINAL)),
    Form("year day month", 1, joined(full_year, OPTIONAL_COMMA, either((1, DAY_MONTH), (1, ORDINAL_MONTH)))),
    Form("year, ordinal of month", 0.8, joined(full_year, OPTIONAL_COMMA, ORDINAL_OF_MONTH)),
    Form("in year on month day", 0.6, joined(IN_YEAR, one_of(", ", " "), ON_DAY)),
)
_WORDED_FORMS = (
    Form("words, day first", 5, joined(WORDED_OF_MONTH, WORDED_YEAR_AFTER)),
    Form("words, month first", 4.5, joined(MONTH_WORDED, WORDED_YEAR_AFTER)),
    Form("words, cardinal day", 1, joined(full_month, " ", worded_day, WORDED_YEAR_AFTER)),
    Form("words, year first", 0.8, joined(worded_year, OPTIONAL_COMMA, MONTH_WORDED)),
    Form("day month, year in words", 1, joined(DAY_MONTH, WORDED_YEAR_AFTER)),
    Form("ordinal of month, year in words", 1, joined(ORDINAL_OF_MONTH, WORDED_YEAR_AFTER)),
    Form("month day, year in words", 1, joined(MONTH_DAY, WORDED_YEAR_AFTER)),
    Form("month ordinal, year in words", 1, joined(MONTH_ORDINAL, WORDED_YEAR_AFTER)),
    Form("short year in words", 0.7, joined(WORDED_OF_MONTH, OPTIONAL_COMMA, worded_short_year), two_digits_suffice),
)
_JOINED_FORMS = (
    Form("day-month-year", 5, separated(NAMED_SEPARATOR, NAMED_DAY, NAMED_MONTH, full_year)),
    Form("month-day-year", 1.5, separated(NAMED_SEPARATOR, NAMED_MONTH, NAMED_DAY, full_year)),
    Form("year-month-day", 1.5, separated(NAMED_SEPARATOR, full_year, NAMED_MONTH, NAMED_DAY)),
    Form("daymonthyear", 1.5, joined(NAMED_DAY, GLUED_MONTH, full_year)),
    Form("monthday,year", 0.7, joined(GLUED_MONTH, NAMED_DAY, one_of(",", ", ", " "), full_year)),
    Form("yearmonthday", 0.4, joined(full_year, GLUED_MONTH, NUMBER)),
)
_SHORT_YEAR_FORMS = (
    Form("day month yy", 4, joined(DAY_MONTH, SHORT_YEAR_AFTER), two_digits_suffice),
    Form("ordinal month yy", 2, joined(ORDINAL_MONTH, SHORT_YEAR_AFTER), two_digits_suffice),
    Form("ordinal of month yy", 2, joined(ORDINAL_OF_MONTH, SHORT_YEAR_AFTER), two_digits_suffice),
    Form("worded ordinal of month yy", 0.8, joined(WORDED_OF_MONTH, SHORT_YEAR_AFTER), two_digits_suffice),
    Form("month day yy", 4, joined(MONTH_DAY, SHORT_YEAR_AFTER), two_digits_suffice),
    Form("month ordinal yy", 3, joined(MONTH_ORDINAL, SHORT_YEAR_AFTER), two_digits_suffice),
    Form("month the ordinal yy", 0.8, joined(MONTH_THE_ORDINAL, SHORT_YEAR_AFTER), two_digits_suffice),
    Form("day-month-yy", 3, separated(NAMED_SEPARATOR, NAMED_DAY, NAMED_MONTH, short_year), two_digits_suffice),
    Form("month-day-yy", 0.8, separated(NAMED_SEPARATOR, NAMED_MONTH, NAMED_DAY, short_year), two_digits_suffice),
    Form("daymonthyy", 0.8, joined(NUMBER, GLUED_MONTH, SHORT_YEAR), two_digits_suffice),
)
_NUMERIC_FORMS = (
    Form("m/d/yyyy", 7, month_first(SLASH, full_year)),
    Form("m-d-yyyy", 3, month_first(DASH, full_year)),
    Form("m d yyyy", 0.8, month_first(SPACE, full_year)),
    Form("d/m/yyyy", 5, day_first(SLASH, full_year), day_is_no_month),
    Form("d-m-yyyy", 2.5, day_first(DASH, full_year), day_is_no_month),
    Form("d m yyyy", 0.8, day_first(SPACE, full_year), day_is_no_month),
    Form("d.m.yyyy", 5, day_first(DOT, full_year)),
    Form("m.d.yyyy", 1, month_first(DOT, full_year), day_is_no_month),
    Form("m.d.yy", 0.8, month_first(DOT, short_year), day_is_no_month_and_two_digits_suffice),
    Form("m/d/yy", 8, month_first(SLASH, short_year), two_digits_suffice),
    Form("m-d-yy", 3, month_first(DASH, short_year), two_digits_suffice),
    Form("d/m/yy", 4, day_first(SLASH, short_year), day_is_no_month_and_two_digits_suffice),
    Form("d-m-yy", 2, day_first(DASH, short_year), day_is_no_month_and_two_digits_suffice),
    Form("d.m.yy", 3, day_first(DOT, short_year), two_digits_suffice),
    Form("yyyy-mm-dd", 8, ISO),
    Form("yyyy/m/d", 5, year_first(YEAR_FIRST_SEPARATOR)),
    Form("yyyymmdd", 3, COMPACT),
)
_ROMAN_FORMS = (
    Form("day roman month year", 2, separated(ROMAN_SEPARATOR, NUMBER, roman_month, full_year)),
    Form("day roman month yy", 0.7, separated(ROMAN_SEPARATOR, NUMBER, roman_month, short_year), two_digits_suffice),
    Form("year roman month day", 0.4, separated(ROMAN_SEPARATOR, full_year, roman_month, NUMBER)),
    Form("day month roman year", 0.3, joined(DAY_MONTH, OPTIONAL_COMMA, roman_year)),
    Form("month day roman year", 0.3, joined(MONTH_DAY, OPTIONAL_COMMA, roman_year)),
    Form(
        "roman throughout", 0.3, separated(SLASH_DASH_OR_DOT, roman_day, roman_month, roman_year), dress=IN_A_SENTENCE
    ),
)
_LABELLED_FORMS = (
    Form("labelled numbers", 1.2, LABELLED),
    Form("numbered month", 1.2, NUMBERED_MONTH),
)
_STAMPS = (
    Form("ISO timestamp", 2.5, ISO_TIMESTAMP, dress=IN_A_SENTENCE),
    Form("compact timestamp", 0.4, COMPACT_TIMESTAMP, dress=IN_A_SENTENCE),
    Form("mail header", 1, MAIL_HEADER, dress=IN_A_SENTENCE),
    Form("unix date", 0.9, UNIX_DATE, dress=IN_A_SENTENCE),
    Form("web log", 0.4, WEB_LOG, dress=IN_A_SENTENCE),
)
FORMS: tuple[Form, ...] = (
    *_NAMED_FORMS,
    *_WORDED_FORMS,
    *_JOINED_FORMS,
    *_SHORT_YEAR_FORMS,
    *_NUMERIC_FORMS,
    *_ROMAN_FORMS,
    *_LABELLED_FORMS,
    *_STAMPS,
)
_BOUNDS = tuple(itertools.accumulate(form.weight for form in FORMS))


# The same, less carefully written.

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


# Examples.


def sample_date(rng: random.Random) -> datetime.date:
    """Draw a date from 1600 to 2199, three in four from 1900 to 2060."""
    if rng.random() < _RECENT_SHARE:
        return datetime.date.fromordinal(rng.randrange(_RECENT, _RECENT_END))
    ordinal = rng.randrange(_FIRST, _END - (_RECENT_END - _RECENT))
    return datetime.date.fromordinal(ordinal if ordinal < _RECENT else ordinal + _RECENT_END - _RECENT)


def _form_for(rng: random.Random, date: datetime.date) -> Form:
    while True:
        form = FORMS[bisect.bisect(_BOUNDS, rng.random() * _BOUNDS[-1])]
        if form.expresses(date):
            return form


def write(rng: random.Random, date: datetime.date) -> str:
    """Write the date in one of the forms that can express it, dressed, and not always carefully."""
    form = _form_for(rng, date)
    text = form.write(rng, date)
    if len(text) > LONGEST:
        return write(rng, date)
    return SLIPS(rng, date, form.dress(rng, date, text))


def held_out(date: datetime.date) -> bool:
    """Say whether the date belongs to the fixed tenth of all dates that no model is trained on."""
    return zlib.crc32(date.toordinal().to_bytes(4, "big")) % 10 == 0


def example(rng: random.Random, *, held: bool = False) -> tuple[str, str]:
    """Draw a written date and its ISO 8601 reading, from the held-out dates or from all others."""
    date = sample_date(rng)
    while held_out(date) is not held:
        date = sample_date(rng)
    return write(rng, date), date.isoformat()
