"""Numbers, months and weekdays as words, abbreviations and numerals."""

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


def roman(number: int) -> str:
    """Return a number as a Roman numeral."""
    numeral = ""
    for value, letters in (*_ROMAN_HUNDREDS, *_ROMAN_TENS, *_ROMAN_UNITS):
        count, number = divmod(number, value)
        numeral += letters * count
    return numeral


CARDINALS = tuple(_cardinal(number) for number in range(100))
ORDINALS = tuple(_suffixed_ordinal(number) for number in range(32))
WORDED_ORDINALS = tuple(_worded_ordinal(number) for number in range(32))
ROMANS = tuple(roman(number) for number in range(32))
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
