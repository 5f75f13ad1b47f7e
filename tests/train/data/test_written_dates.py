import datetime
import os
import random
import re
import subprocess
import sys

import pytest

from model.vocabularies import ALPHABET
from train.data.written_dates.combinators import LONGEST
from train.data.written_dates.examples import example, held_out, sample_date, write
from train.data.written_dates.forms import FORMS
from train.data.written_dates.slips import APOSTROPHE, EN_DASH, drop_space, mistype_name

SAMPLES = 20_000
MONTHS = [
    *["january", "february", "march", "april", "may", "june"],
    *["july", "august", "september", "october", "november", "december"],
]
MONTH_NUMBERS = {name: number for number, month in enumerate(MONTHS, 1) for name in (month, month[:3])} | {"sept": 9}
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
SHORT_WEEKDAY = r"\b(mon|tues?|weds?|thu(?:rs?)?|fri|sat|sun)\b"
SMALL = [
    *["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"],
    *["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"],
]
TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ORDINALS = [
    *["zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"],
    *["eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth"],
    *["nineteenth", "twentieth"],
]
ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}
NUMBER_WORDS = {*SMALL, *TENS, *ORDINALS, "thirtieth", "hundred", "thousand", "and", "oh", "o"}
FILLERS = {"the", "of", "in", "on", "day", "year", "our", "lord", "anno", "domini", "ad", "ce", "a", "was"}
CLOCK = r"[t: ]\d\d:\d\d(:\d\d)?(\.000)?z?([+-]\d\d:\d\d)?( ?(gmt|utc))?( ?[+-]\d{4})?|t\d{6}z?"


# A second, slower reader of the forms, which shares no table with the writer: every date a text could mean.


def below_hundred(words):
    if len(words) == 1 and words[0] in SMALL:
        return SMALL.index(words[0])
    if len(words) == 1 and words[0] in TENS:
        return 10 * TENS.index(words[0])
    if len(words) == 2 and words[0] in TENS[2:] and words[1] in SMALL[1:10]:
        return 10 * TENS.index(words[0]) + SMALL.index(words[1])
    return None


def days(words):
    if len(words) == 1 and words[0] in ORDINALS:
        return {ORDINALS.index(words[0])}
    if words == ["thirtieth"]:
        return {30}
    if len(words) == 2 and words[0] in ("twenty", "thirty") and words[1] in ORDINALS[1:10]:
        return {10 * TENS.index(words[0]) + ORDINALS.index(words[1])}
    return {below_hundred(words)} - {None}


def added(base, words):
    rest = words[1:] if words[:1] == ["and"] else words
    if not rest:
        return {base}
    return {base + value for value in [below_hundred(rest)] if value is not None}


def long_years(words):
    if "thousand" in words:
        place = words.index("thousand")
        thousands, rest = below_hundred(words[:place]), words[place + 1 :]
        if thousands is None or thousands > 2:
            return set()
        return {1000 * thousands + below for below in (long_years(rest) if "hundred" in rest else added(0, rest))}
    if "hundred" in words:
        place = words.index("hundred")
        hundreds = below_hundred(words[:place])
        return set() if hundreds is None else added(100 * hundreds, words[place + 1 :])
    pairs = [(below_hundred(words[:cut]), short_years(words[cut:])) for cut in range(1, len(words))]
    return {100 * high + low for high, lows in pairs if high is not None for low in lows}


def short_years(words):
    if words in (["oh", "oh"], ["o", "o"]):
        return {0}
    if len(words) == 2 and words[0] in ("oh", "o") and words[1] in SMALL[1:10]:
        return {SMALL.index(words[1])}
    return {value for value in [below_hundred(words)] if value is not None and value >= 10}


def posix(year):
    return year + (1900 if year > 68 else 2000)


def years(words):
    return {year for year in long_years(words) if 1600 <= year < 2200} | {posix(year) for year in short_years(words)}


def roman(numeral):
    values = [ROMAN[letter] for letter in numeral]
    return sum(-value if value < max(values[place:]) else value for place, value in enumerate(values))


def possible_dates(year_options, month_options, day_options):
    for year in year_options:
        for month in month_options:
            for day in day_options:
                try:
                    yield datetime.date(year, month, day)
                except ValueError:
                    continue


def read_numbers(text):
    """Apply the documented rules to a text without letters."""
    text = re.sub(r" \d\d:\d\d(:\d\d)?.*", "", text)
    if re.fullmatch(r"\d{8}", text):
        return {datetime.date(int(text[:4]), int(text[4:6]), int(text[6:]))}
    first, second, third = re.findall(r"\d+", text)
    (separator,) = {found.strip() for found in re.findall(r"\D+", text)}
    if len(first) == 4:
        return {datetime.date(int(first), int(second), int(third))}
    year = int(third) if len(third) == 4 else posix(int(third))
    assert len(third) in (2, 4)
    assert separator in (".", "/", "-", "")
    if int(first) > 12 or (separator == "." and int(second) <= 12):
        return {datetime.date(year, int(second), int(first))}
    return {datetime.date(year, int(first), int(second))}


def read_labels(text):
    """Read year, month and day that are labelled."""
    found = [re.search(rf"\b{label}\W+(\w+)", text) for label in ("y(?:ear)?", "m(?:onth)?", "d(?:ay)?")]
    if not found[0]:
        found[0] = re.search(r"(\d{4})$", text)
    year, month, day = (match[1] for match in found)
    return {datetime.date(int(year), int(month) if month.isdigit() else MONTH_NUMBERS[month], int(day))}


def read_words(text):
    """Read a date in which the month is a word, an ordinal or a Roman numeral."""
    text = re.sub("|".join([*WEEKDAYS, SHORT_WEEKDAY]), "", re.sub(CLOCK, " ", text))
    text = re.sub(r"\ba\.d\.|\bc\.e\.", " ", text)
    text, months = without_numbered_month(text)
    items = []  # what may be a day or a year: a run of number words, digits, or the value of a Roman numeral
    running = False
    for word in re.findall(r"\d+(?:st|nd|rd|th)|\d+|[a-z]+", text):
        if word in NUMBER_WORDS and running:
            items[-1].append(word)
        elif word in NUMBER_WORDS:
            items.append([word])
        elif word[0].isdigit():
            items.append(word)
        elif word in MONTH_NUMBERS:
            months.add(MONTH_NUMBERS[word])
        elif set(word) <= set(ROMAN):
            items.append(roman(word))
        else:
            assert word in FILLERS, (word, text)
        running = word in NUMBER_WORDS
    return assigned(items, months)


def without_numbered_month(text):
    """Take "of the 3rd" and "of the third month" out of the text."""
    match = re.search(r" of the (\d+(?:st|nd|rd|th)|[a-z]+)( month)?(?=[ ,(])", text)
    if not match or match[1] == "year":
        return text, set()
    number = ORDINALS.index(match[1]) if match[1] in ORDINALS else int(re.match(r"\d+", match[1])[0])
    return text.replace(match[0], " the"), {number}


def assigned(items, months):
    """Give every item the roles that it can have: day and year, and month where that is a numeral."""
    numerals = [item for item in items if isinstance(item, int)]
    if len(numerals) == 3:
        return set(possible_dates(numerals[2:], numerals[1:2], numerals[:1]))
    if not months:
        (month,) = numerals
        months, items = {month}, [item for item in items if item != month or not isinstance(item, int)]
    if len(items) == 1:
        words = items[0]
        cuts = [(words[:cut], words[cut:]) for cut in range(1, len(words))]
        return {date for day, year in cuts for date in possible_dates(years(year), months, days(day))}
    first, second = items
    orders = [(second, first)] if is_long(first) else [(first, second)]
    return {date for day, year in orders for date in possible_dates(as_years(year), months, as_days(day))}


def is_long(item):
    if isinstance(item, list):
        return bool(long_years(item)) and not days(item)
    return isinstance(item, int) or bool(re.fullmatch(r"\d{4}", item))


def as_days(item):
    return days(item) if isinstance(item, list) else {int(re.match(r"\d+", item)[0])}


def as_years(item):
    if isinstance(item, list):
        return years(item)
    if isinstance(item, int):
        return {item}
    assert item.isdigit()
    assert len(item) in (2, 4)
    return {int(item) if len(item) == 4 else posix(int(item))}


def readings(text):
    text = text.lower()
    if re.search(r"\bm(onth)?\b\W*(\d|[a-z]+\b.*year:)|month:", text) and re.search(r"\bd(ay)?\b\W+\d", text):
        return read_labels(text)
    plain = re.sub(CLOCK, "", text) if re.match(r"\d{4}-\d\d-\d\d[t ]|\d{8}t", text) else text
    return read_words(text) if re.search("[a-z]", plain) else read_numbers(plain)


def expressible_dates(form, count, seed):
    rng = random.Random(seed)
    dates = (sample_date(rng) for _ in range(100 * count))
    return [date for date in dates if form.expresses(date)][:count]


def test_there_are_many_forms_and_their_names_differ():
    assert len(FORMS) >= 35
    assert len({form.name for form in FORMS}) == len(FORMS)
    assert all(form.weight > 0 for form in FORMS)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_says_its_date_and_can_be_read_in_no_other_way(form):
    rng = random.Random(1)
    for date in expressible_dates(form, 400, seed=2):
        text = form.write(rng, date)
        assert readings(text) == {date}, text


JOINED_NUMBERS = r"(?<!\d)\d{1,4} *([-/. _]) *\d{1,2} *\1 *\d{2,4}(?!\d)"
NUMBERS = re.compile(rf"{JOINED_NUMBERS}|(?<![\d:/])\d{{4}}:\d\d?:\d\d?(?!\d)|(?<!\d)\d{{8}}(?!\d)")
TIME_OF_DAY = re.compile(r"(?<![\d:])\d{1,2}:\d\d(:\d\d)?|(?<!\d)\d{1,2} *[ap]\.?m")


def test_dates_in_numbers_mean_their_date_by_the_documented_rules_after_all_slips():
    rng = random.Random(3)
    seen = 0
    for _ in range(SAMPLES):
        written, iso = example(rng)
        text = TIME_OF_DAY.sub("at", written.lower().replace(EN_DASH, "-"))
        if match := NUMBERS.search(text):
            seen += 1
            assert {iso} == {date.isoformat() for date in read_numbers(match[0])}, written
    assert seen > SAMPLES // 4


def test_texts_are_short_printable_and_inside_the_alphabet():
    rng = random.Random(4)
    for _ in range(SAMPLES):
        written, iso = example(rng)
        assert 0 < len(written) <= LONGEST == 64
        assert set(written.lower()) <= set(ALPHABET), written
        assert datetime.date.fromisoformat(iso).isoformat() == iso


def test_the_alphabet_is_sorted_and_without_duplicates():
    assert list(ALPHABET) == sorted(set(ALPHABET))
    assert ALPHABET.lower() == ALPHABET
    assert {"a", "z", "0", "9", " ", "/", "~", APOSTROPHE, EN_DASH} <= set(ALPHABET)


def test_every_weekday_that_is_named_is_the_right_one():
    rng = random.Random(5)
    names = re.compile(rf"\b({'|'.join(WEEKDAYS)})\b|{SHORT_WEEKDAY}")
    seen = 0
    for _ in range(SAMPLES):
        written, iso = example(rng)
        for match in names.finditer(written.lower()):
            seen += 1
            assert WEEKDAYS[datetime.date.fromisoformat(iso).weekday()].startswith(match[0][:3]), written
    assert seen > SAMPLES // 10


def test_one_date_is_written_in_thousands_of_ways_and_the_familiar_ones_are_among_them():
    rng = random.Random(6)
    texts = {write(rng, datetime.date(2021, 3, 23)) for _ in range(5 * SAMPLES)}
    assert len(texts) > SAMPLES
    assert texts >= {
        *["the twenty-third of March 2021", "3/23/21", "Tue 23 Mar 2021", "23.III.2021", "March the 23rd, 2021"],
        *["23rd day of March 2021", "2021 March 23", "20210323", "23-Mar-2021", "23/mar/2021", "March 23rd '21"],
        *["23march2021", "3-23-2021", "23.3.2021", "2021-03-23", "2021/03/23", "MARCH 23, 2021", "march 23,2021"],
    }


def test_a_dropped_space_never_runs_two_numbers_together():
    rng = random.Random(11)
    for _ in range(SAMPLES):
        written, iso = example(rng)
        date = datetime.date.fromisoformat(iso)
        assert re.findall(r"\d+", drop_space(rng, date, written)) == re.findall(r"\d+", written)


def test_no_mistyped_month_could_be_another_month():
    rng = random.Random(12)
    typed = {month: {mistype_name(rng, datetime.date.min, month.title()) for _ in range(300)} for month in MONTHS}
    assert all(len(variants) > 1 for month, variants in typed.items() if len(month) > 4)
    assert sum(map(len, typed.values())) == len(set.union(*typed.values()))
    assert not {word.lower() for word in set.union(*typed.values())} & ({*MONTH_NUMBERS} - {*MONTHS})


def test_two_digit_years_are_written_from_1969_to_2068_only():
    short = [form for form in FORMS if not form.expresses(datetime.date(1968, 12, 31))]
    assert {form.name for form in short} == {form.name for form in FORMS if re.search(r"yy$|short", form.name)} - {
        form.name for form in FORMS if form.name.endswith("yyyy")
    }
    for form in short:
        assert form.expresses(datetime.date(1969, 1, 31))
        assert form.expresses(datetime.date(2068, 12, 31))
        assert not form.expresses(datetime.date(2069, 1, 31))


def test_a_tenth_of_all_dates_is_held_out():
    dates = [datetime.date.fromordinal(day) for day in range(*span())]
    held = [held_out(date) for date in dates]
    assert sum(held) / len(held) == pytest.approx(0.1, abs=0.01)
    for month in range(1, 13):
        of_month = [out for date, out in zip(dates, held, strict=True) if date.month == month]
        assert sum(of_month) / len(of_month) == pytest.approx(0.1, abs=0.01)


def span():
    return datetime.date(1600, 1, 1).toordinal(), datetime.date(2200, 1, 1).toordinal()


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_dates_are_held_out_in_every_process(hash_seed):
    code = (
        "import datetime; from train.data.written_dates.examples import held_out; "
        f"print([day for day in range(*{span()}) if held_out(datetime.date.fromordinal(day))])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    here = [day for day in range(*span()) if held_out(datetime.date.fromordinal(day))]
    assert done.stdout.strip() == str(here)


@pytest.mark.parametrize("held", [True, False])
def test_examples_come_from_the_asked_side_of_the_split(held):
    rng = random.Random(7)
    for _ in range(1000):
        _, iso = example(rng, held=held)
        assert held_out(datetime.date.fromisoformat(iso)) is held


def test_the_same_seed_gives_the_same_examples():
    one, other = random.Random(8), random.Random(8)
    assert [example(one) for _ in range(500)] == [example(other) for _ in range(500)]
    assert [example(one) for _ in range(5)] != [example(random.Random(9)) for _ in range(5)]


def test_dates_span_six_centuries_and_three_quarters_are_recent():
    rng = random.Random(10)
    dates = [sample_date(rng) for _ in range(SAMPLES)]
    assert all(1600 <= date.year <= 2199 for date in dates)
    assert sum(1900 <= date.year <= 2060 for date in dates) / SAMPLES == pytest.approx(0.75, abs=0.02)
    assert {(date.month, date.day) for date in dates} >= {
        (month, day) for month in range(1, 13) for day in range(1, 29)
    }
