"""Where sentences begin, and the tokens of one that are summed."""

import time

import numpy as np
import pytest

from service.explanations.sentences import sentence_starts
from service.explanations.token_merging import group_tokens, merge_tokens, sum_columns
from service.inputs.model_input import Token

TEXTS = [
    "Hello there. |How are you? |Fine!",
    'Dr. Smith met J. Doe at 3.14 p.m. today. |He said "Go." |Then he left.',
    "1. An item. |2. Another\n|A line\n\n|The last",
    "これは文。|次の文\uff01|終わり",
    "So am I. |You are.",
    "Wait... what? |Well… no.  |Yes",
    "يا؟ |نعم\u06d4 |لا",
    "version 1.2 of a.b.c",
    "",
    " \n|x",
]


@pytest.mark.parametrize("marked", TEXTS)
def test_a_sentence_begins_behind_the_mark_that_ends_another(marked):
    parts = marked.split("|")
    assert sentence_starts("".join(parts)) == [sum(map(len, parts[:count])) for count in range(len(parts))]


@pytest.mark.parametrize("text", ["." * 100_000, "\n" * 100_000, " " * 100_000, '."' * 50_000, "a" * 100_000 + "."])
def test_a_text_of_marks_alone_takes_no_time(text):
    begun = time.process_time()
    sentence_starts(text)
    assert time.process_time() - begun < 2


def tokens_of(*pieces, sequence=None):
    """Tokens whose texts, joined, are a text; None stands for a special one."""
    found, place = [], 0
    for piece in pieces:
        if piece is None:
            found.append(Token(0, "[S]", None))
            continue
        found.append(Token(1, piece, (place, place + len(piece)), sequence=sequence))
        place += len(piece)
    return found


def test_tokens_are_of_the_sentence_that_they_end_in_and_special_ones_stay_alone():
    pieces = ["A", " cat", ".", " A", " dog", ".\n", "B"]
    tokens = [Token(0, "[S]", None), *tokens_of(*pieces), Token(0, "[E]", None)]
    groups = group_tokens(tokens, ["".join(pieces)], "sentences")
    assert groups == [[0], [1, 2, 3], [4, 5, 6], [7], [8]]
    merged = merge_tokens(tokens, groups, ["".join(pieces)])
    assert [one.text for one in merged] == ["[S]", "A cat.", " A dog.\n", "B", "[E]"]
    values = np.random.default_rng(0).normal(size=(1, 2, 9)).astype(np.float32)
    wanted = np.stack([values[..., group].sum(-1) for group in groups], -1)
    assert np.allclose(sum_columns(values, groups), wanted)


def test_an_answer_that_continues_a_sentence_is_one_of_its_own():
    pieces = ["It", " is", " so", " good", ". ", "Yes"]
    tokens, text = tokens_of(*pieces), "".join(pieces)
    assert group_tokens(tokens, [text], "sentences") == [[0, 1, 2, 3, 4], [5]]
    assert group_tokens(tokens, [text], "sentences", 5) == [[0, 1], [2, 3, 4], [5]]
    assert group_tokens(tokens, [text], "words", 5) == [[0], [1], [2], [3, 4], [5]]


def test_texts_of_several_sequences_have_sentences_of_their_own():
    first, second = tokens_of("an", " ox", sequence=0), tokens_of("an", " ox.", " So", sequence=1)
    assert group_tokens([*first, *second], ["an ox", "an ox. So"], "sentences", 3) == [[0, 1], [2], [3], [4]]
    assert group_tokens([*first, *second], ["an ox", "an ox. So"], "sentences") == [[0, 1], [2, 3], [4]]
