import datetime
import itertools
import random
import re

import pytest

from train.data.tagged_dates import FIELDS, LONGEST, tagged
from train.data.written_dates.examples import held_out
from train.data.written_dates.spelling import CARDINALS, MONTHS, WEEKDAYS, WORDED_ORDINALS

WORDS = {
    "WEEKDAY": {name[:3].lower() for name in WEEKDAYS},
    "MONTH": {name[:3].lower() for name in MONTHS if name},
    "words": {word.lower() for word in CARDINALS} | {"hundred", "thousand", "and", "oh", "o"},
}


@pytest.fixture(scope="module")
def drawn():
    rng = random.Random(0)
    return [tagged(rng) for _ in range(3000)]


def test_the_characters_of_a_part_are_what_writes_it(drawn):
    for text, spans in drawn:
        for span in spans:
            written = text[span.start : span.stop]
            assert FIELDS[span.field][0] == span.tag
            if span.field == "weekday":
                assert written[:3].lower() in WORDS["WEEKDAY"]
            elif span.field == "month":
                assert written[:3].lower() in WORDS["MONTH"]
            elif span.field in ("m", "mm", "d", "dd", "day", "year", "yy"):
                assert written.isdigit()
            elif span.field == "first":
                assert written.replace(" ", "-") in WORDED_ORDINALS
            elif span.field == "words":
                assert set(re.split("[ -]", written)) <= WORDS["words"]
            elif span.field == "III":
                assert set(written) <= set("IVX")
            elif span.field == "'yy":
                assert re.fullmatch(r"'?\d\d", written)


def test_parts_do_not_overlap_and_no_two_of_one_sort_adjoin(drawn):
    for text, spans in drawn:
        assert len(text) <= LONGEST
        for one, following in itertools.pairwise(spans):
            assert one.start < one.stop <= following.start
            assert one.stop < following.start or one.tag != following.tag


def test_slashes_are_month_first_unless_the_first_exceeds_twelve_and_dots_day_first(drawn):
    seen = 0
    for text, spans in drawn:
        for one, following in itertools.pairwise(spans):
            between, number = text[one.stop : following.start], text[one.start : one.stop]
            if {one.field, following.field} <= {"m", "mm", "d", "dd"} and between in ("/", "-", " ", "."):
                behind_year = spans[0].tag == "YEAR" or (
                    one.start > 4 and text[one.start - 5 : one.start - 1].isdigit()
                )
                if behind_year:
                    continue
                seen += 1
                day_first = between == "." or int(number) > 12
                assert one.tag == ("DAY" if day_first else "MONTH"), text
    assert seen > 500


def test_every_field_is_drawn_and_some_texts_have_no_date_or_two(drawn):
    assert {span.field for _, spans in drawn for span in spans} == FIELDS.keys()
    assert 0.02 < sum(not spans for _, spans in drawn) / len(drawn) < 0.08
    assert sum(sum(span.tag == "YEAR" for span in spans) > 1 for _, spans in drawn) > 100


def test_days_that_are_held_out_are_in_no_other_text():
    def days(*, held):
        rng, found = random.Random(1), []
        for _ in range(400):
            text, _ = tagged(rng, held=held)
            found += [datetime.date(*map(int, one)) for one in re.findall(r"\b(\d{4})-(\d\d)-(\d\d)\b", text)]
        return found

    for held in (True, False):
        found = days(held=held)
        assert len(found) > 10
        assert all(held_out(date) is held for date in found)
