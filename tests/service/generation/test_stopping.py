"""Words that end a text: where they are found, and what of a text that goes on may be shown."""

import itertools

import numpy as np
import pytest

from service.generation.stopping import Stops
from service.generation.token_selection import Beams, Greedy, Walk

WORDS = ("ab", "bca", "ccc")


def text_of(tokens):
    return "".join("abc"[token] for token in tokens)


def first(text):
    return min((text.index(word) for word in WORDS if word in text), default=None)


def test_what_is_shown_of_a_text_as_it_grows_is_what_stands_before_its_first_word():
    stops, more = Stops(WORDS), ["".join(rest) for rest in itertools.product("abc", repeat=2)]
    for text in map("".join, itertools.product("abc", repeat=6)):
        shown, size, ended = "", 0, False
        while not ended:
            size += 1
            written = text[:size]
            ended = size == len(text) or first(written) is not None
            now = written[: stops.shown(written, ended=ended)]
            assert now.startswith(shown)
            # no more is held back than could be a word's
            assert ended or now == written or any(first(written + rest) == len(now) for rest in more)
            shown = now
        assert shown == written[: first(written)]


def test_a_word_is_found_in_the_last_tokens_that_could_have_it():
    asked = []

    def decode(tokens):
        asked.append(len(tokens))
        return text_of(tokens)

    stops = Stops(WORDS, decode)
    assert stops.reached([2] * 50 + [0, 1])
    assert not stops.reached([0, 1] + [2, 0, 2] * 20)
    assert max(asked) == 4 * 3 + 1
    assert not Stops().reached([0, 1])


class Scores:
    """Scores by which the tokens of a text come, each likelier than the others."""

    def __init__(self, text):
        self._text = text

    def __call__(self, length, rows):
        scores = np.full((rows, 3), -2.0)
        scores[:, "abc".index(self._text[length])] = 0.0
        return scores


@pytest.mark.parametrize("beams", [1, 3])
def test_a_search_ends_at_a_word_as_at_an_end(beams):
    text, stopped = "ccacabcc", Stops(WORDS, text_of).reached
    walk, several = (
        Walk((), 8, Greedy(), stopped=stopped),
        Beams(beams, (), 8, 0.0, early_stopping=True, stopped=stopped),
    )
    search = walk if beams == 1 else several
    scores = Scores(text)
    while not search.done:
        search.advance(scores(len(search.live[0].tokens), len(search.live)))
    if beams == 1:
        assert text_of(search.best().tokens) == "ccacab"
    else:
        assert first(text_of(search.best().tokens)) is not None
        assert first(text_of(search.best().tokens[:-1])) is None
