"""The words of a target that was heard, each with the time at which it was, of tokens with times."""

import string
from collections.abc import Sequence
from dataclasses import dataclass

from service.inputs.model_input import Token

BEFORE, BEHIND = "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 # Chinese and Japanese ones too
"""Punctuation that belongs to the word behind it, and to the word before it (openai-whisper)."""
UNSPACED = {"zh", "ja", "th", "lo", "my", "yue"}
"""Languages that write no spaces between words: each character is one."""


@dataclass(frozen=True)
class Word:
    """A word, with the spaces before it."""

    text: str
    start: float
    end: float
    """In seconds."""
    probability: float
    """The mean of its tokens."""
    places: tuple[int, ...] = ()
    """Which tokens of its target it is."""
    heard: float | None = None
    """The share of the sound in what its tokens rest on, where they are explained; the rest is what was written."""

    def json(self) -> dict[str, object]:
        """Return the word as an answer holds it."""
        shown: dict[str, object] = {
            "word": self.text.strip(),
            "start": round(self.start, 2),
            "end": round(self.end, 2),
            "probability": round(self.probability, 4),
        }
        return shown if self.heard is None else {**shown, "heard": round(self.heard, 4)}


def words_of(
    tokens: Sequence[Token],
    times: Sequence[float],
    chances: Sequence[float],
    language: str | None,
    places: Sequence[int] = (),
) -> list[Word]:
    """Return the words of tokens. A token begins at a time, and ends at the next of `times`, which are one more."""
    groups: list[list[int]] = []
    texts: list[str] = []
    within: list[int] = []
    for place, token in enumerate(tokens):
        within.append(place)
        if not token.text and place < len(tokens) - 1:
            continue  # its character goes on
        text = token.text
        spaced = language not in UNSPACED
        if not groups or not spaced or text.startswith(" ") or text.strip() in string.punctuation:
            groups.append(within)
            texts.append(text)
        else:
            groups[-1] += within
            texts[-1] += text
        within = []
    joined = _with_punctuation(groups, texts)
    return [
        Word(
            text,
            times[group[0]],
            times[group[-1] + 1],
            sum(chances[place] for place in group) / len(group),
            tuple(places[place] for place in group) if places else (),
        )
        for text, group in joined
        if text.strip()
    ]


def _with_punctuation(groups: Sequence[list[int]], texts: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return groups with their texts, of which punctuation is joined to the word that it belongs to."""
    found = list(zip(texts, groups, strict=True))
    for place in range(len(found) - 2, -1, -1):  # to the word behind it
        text, group = found[place]
        if text.startswith(" ") and text.strip() and text.strip() in BEFORE:
            behind, others = found[place + 1]
            found[place : place + 2] = [(text + behind, [*group, *others])]
    place = 0
    while place + 1 < len(found):  # to the word before it
        (text, group), (behind, others) = found[place], found[place + 1]
        if not text.endswith(" ") and behind in BEHIND:
            found[place : place + 2] = [(text + behind, [*group, *others])]
        else:
            place += 1
    return found
