"""Where the sentences of a text begin, by a small rule after Unicode's (UAX 29, sentence boundaries).

A line is the end of a sentence, and so is a mark with the quotes and brackets behind it, if white space follows or the
mark is of a script that writes none. Full stops are none before a small letter, and one is none behind an initial, a
title or the number of an item.
"""

import re

SPACELESS = "。｡\uff01\uff1f"
"""Marks behind which no white space is written: full stops, and wide marks of exclamation and question."""
CLOSING = r"\"'\u2019”»)\]}」』\uff09"
"""Quotes and brackets that end."""
ENDS = re.compile(rf"(?P<mark>[.!?…؟\u06d4।॥።{SPACELESS}]+)[{CLOSING}]*(?P<space>\s*)|\n\s*")
"""What may end a sentence. None of its parts is tried twice at a place, so that it takes linear time."""
ABBREVIATION = re.compile(r"(?:\b(?!I\b)[^\W\d_]|\b(?:Mr|Mrs|Ms|Dr|Prof|St|vs|[ei]\.[ge]))$")
"""What a full stop shortens: a single letter but the word I, and some words."""
SEEN_BEFORE = 8
"""Characters before a full stop that are looked at."""


def sentence_starts(text: str) -> list[int]:
    """Return the first character of each sentence, rising; the first is 0. White space behind a sentence is its own."""
    starts = [0]
    for found in ENDS.finditer(text):
        if found.end() < len(text) and _ends(text, found, starts[-1]):
            starts.append(found.end())
    return starts


def _ends(text: str, found: "re.Match[str]", start: int) -> bool:
    mark, space = found["mark"], found["space"]
    if mark is None or "\n" in space or mark[-1] in SPACELESS:
        return True
    if not space or (set(mark) <= set(".…") and text[found.end()].islower()):
        return False
    before = text[max(start, found.start() - SEEN_BEFORE) : found.start()]
    item = found.start() - start < SEEN_BEFORE and before.isdigit()
    return mark != "." or not (item or ABBREVIATION.search(before))
