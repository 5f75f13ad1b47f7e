"""Dressings: what surrounds a date in a text."""

import datetime
import random

from train.data.written_dates.combinators import around, either, in_turn, joined, literal, one_of, sometimes
from train.data.written_dates.parts import CLOCK, weekday

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
