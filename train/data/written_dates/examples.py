"""Examples: written dates with their ISO 8601 reading, from held-out dates or from all others."""

import bisect
import datetime
import itertools
import random
import zlib

from train.data.written_dates.combinators import LONGEST
from train.data.written_dates.forms import FORMS, Form
from train.data.written_dates.slips import SLIPS

_FIRST = datetime.date(1600, 1, 1).toordinal()
_FIRST_RECENT = datetime.date(1900, 1, 1).toordinal()
_AFTER_RECENT = datetime.date(2061, 1, 1).toordinal()
_AFTER_LAST = datetime.date(2200, 1, 1).toordinal()
_RECENT_SHARE = 0.75

_WEIGHT_BOUNDS = tuple(itertools.accumulate(form.weight for form in FORMS))


def sample_date(rng: random.Random) -> datetime.date:
    """Draw a date from 1600 to 2199, three in four from 1900 to 2060."""
    if rng.random() < _RECENT_SHARE:
        return datetime.date.fromordinal(rng.randrange(_FIRST_RECENT, _AFTER_RECENT))
    ordinal = rng.randrange(_FIRST, _AFTER_LAST - (_AFTER_RECENT - _FIRST_RECENT))
    return datetime.date.fromordinal(ordinal if ordinal < _FIRST_RECENT else ordinal + _AFTER_RECENT - _FIRST_RECENT)


def _form_for(rng: random.Random, date: datetime.date) -> Form:
    while True:
        form = FORMS[bisect.bisect(_WEIGHT_BOUNDS, rng.random() * _WEIGHT_BOUNDS[-1])]
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
    """Return whether the date belongs to the fixed tenth of all dates that no model is trained on."""
    return zlib.crc32(date.toordinal().to_bytes(4, "big")) % 10 == 0


def draw_date(rng: random.Random, *, held: bool = False) -> datetime.date:
    """Draw one of the held-out dates, or of all others."""
    date = sample_date(rng)
    while held_out(date) is not held:
        date = sample_date(rng)
    return date


def example(rng: random.Random, *, held: bool = False) -> tuple[str, str]:
    """Draw a written date and its ISO 8601 reading, from the held-out dates or from all others."""
    date = draw_date(rng, held=held)
    return write(rng, date), date.isoformat()
