"""Forms: the ways to write a whole date, and how often each is drawn."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from train.data.written_dates.combinators import Dressing, Part, either, joined, literal, one_of, separated, shuffled
from train.data.written_dates.dressings import IN_A_SENTENCE, SPOKEN, WEEKDAY_AFTER
from train.data.written_dates.parts import (
    ZONE,
    abbreviated_month,
    compact_clock,
    full_clock,
    full_month,
    full_year,
    hour_and_minute,
    ordinal_day,
    ordinal_month,
    padded_day,
    padded_month,
    plain_day,
    plain_month,
    roman_day,
    roman_month,
    roman_year,
    short_month,
    short_weekday,
    short_year,
    undotted_month,
    worded_day,
    worded_ordinal_day,
    worded_ordinal_month,
    worded_short_year,
    worded_year,
)

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
