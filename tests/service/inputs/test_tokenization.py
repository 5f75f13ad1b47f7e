"""Texts are cut where the model's tokens are full, however many characters a tokenizer drops or joins."""

from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from service.errors import TooLarge, Unacceptable
from service.inputs import tokenization
from service.inputs.model_input import Pair, Windows
from service.inputs.tokenization import CHARACTERS_PER_TOKEN, MOST_WINDOWS, TextTokenizer

LIMIT = 8
FIRST = LIMIT * CHARACTERS_PER_TOKEN
SENTENCE = "the cat sat on the mat"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Words, between two special tokens; spaces and control characters are dropped."""
    words = ["[UNK]", "[CLS]", "[SEP]", *sorted(set(SENTENCE.split()))]
    made = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(["[CLS]", "[SEP]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(file))
    return file


@pytest.fixture(scope="module")
def tokenizer(file):
    """Of LIMIT tokens."""
    return TextTokenizer(SimpleNamespace(path=lambda name: file, to_load=lambda name: file), file.name, LIMIT)


def texts_of(tokens):
    return [token.text for token in tokens]


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("dropped", [" ", "\u0000", "\n \t"])
@pytest.mark.parametrize("where", ["before", "between", "behind"])
def test_characters_that_a_tokenizer_drops_count_for_nothing(tokenizer, dropped, where, truncate):
    many = dropped * (20 * FIRST)
    given = {
        "before": many + SENTENCE, "between": SENTENCE.replace(" ", f" {many}", 1), "behind": SENTENCE + many,
    }[where]  # fmt: skip
    assert texts_of(tokenizer.encode(given, truncate=truncate)) == texts_of(tokenizer.encode(SENTENCE))


def test_a_text_of_too_many_tokens_is_cut_where_they_are_full_or_refused(tokenizer):
    long = " ".join([SENTENCE] * FIRST)
    assert texts_of(tokenizer.encode(long, truncate=True)) == ["[CLS]", *SENTENCE.split(), "[SEP]"]
    with pytest.raises(TooLarge, match=f"^input: at most {LIMIT} tokens, given {len(long)} characters$"):
        tokenizer.encode(long)
    with pytest.raises(Unacceptable, match=f"^input: at most {LIMIT} tokens, given 9$"):
        tokenizer.encode(f"{SENTENCE} mat")


def test_each_text_of_a_pair_is_cut_as_if_it_were_whole(tokenizer):
    for first, second in ((SENTENCE, f"{SENTENCE} " * 9), ("the", SENTENCE), (f"{SENTENCE} " * 9, "mat")):
        spread = [" " * 30 * FIRST + text.replace(" ", " " * FIRST) for text in (first, second)]
        wanted = tokenizer.encode(Pair(first, second), truncate=True)
        found = tokenizer.encode(Pair(*spread), truncate=True)
        assert [(one.text, one.sequence) for one in found] == [(one.text, one.sequence) for one in wanted]


def test_tokens_are_looked_for_within_a_bound(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenization, "MOST_CHARACTERS", 5 * FIRST)
    given = " " * 5 * FIRST + SENTENCE
    words = f"^input: must have its first {LIMIT} tokens in at most {5 * FIRST} characters, given {len(given)}$"
    for truncate in (True, False):
        with pytest.raises(TooLarge, match=words):
            tokenizer.encode(given, truncate=truncate)
    assert texts_of(tokenizer.encode(" " * 4 * FIRST + SENTENCE)) == texts_of(tokenizer.encode(SENTENCE))


@pytest.mark.parametrize(
    ("prompt", "text", "spans"),
    [
        ("the cat ", "sat on", [None, None, None, (0, 3), (4, 6), None]),
        ("the cat", " sat on", [None, None, None, (1, 4), (5, 7), None]),
        ("the c", "at sat", [None, None, (0, 2), (3, 6), None]),  # a word that is in both is of the text
        ("the ", "", [None, None, None]),
        ("", "the cat", [None, (0, 3), (4, 7), None]),
        ("the ", Pair("cat", "mat sat"), [None, None, (0, 3), None, (0, 3), (4, 7), None]),
    ],
)
def test_spans_are_places_in_what_was_sent_and_a_prompt_has_none(tokenizer, prompt, text, spans):
    found = tokenizer.encode(text, prompt=prompt)
    assert [token.span for token in found] == spans
    together = Pair(prompt + text.text, text.text_pair) if isinstance(text, Pair) else prompt + text
    assert texts_of(found) == texts_of(tokenizer.encode(together))


def test_a_prompt_counts_for_the_limit_and_a_refusal_names_what_was_sent(tokenizer):
    assert len(tokenizer.encode("on the mat", prompt="the cat sat ")) == LIMIT
    with pytest.raises(Unacceptable, match=f"at most {LIMIT} tokens, given {LIMIT + 1}"):
        tokenizer.encode("on the mat", prompt="the cat sat on ")
    cut = tokenizer.encode("on the mat", prompt="the cat sat on ", truncate=True)
    assert [token.span for token in cut] == [None] * 5 + [(0, 2), (3, 6), None]
    text = "the " * FIRST
    with pytest.raises(TooLarge, match=f"given {len(text)} characters"):
        tokenizer.encode(text, prompt="the cat ")


@pytest.mark.parametrize(
    ("query", "text", "most", "wanted"),
    [
        ("the", SENTENCE, 99, "[CLS] the [SEP] the cat sat on [SEP]"),
        ("the", SENTENCE, 2, "[CLS] the [SEP] the cat [SEP]"),
        ("the cat sat on", SENTENCE, 99, "[CLS] the cat sat on [SEP] the [SEP]"),
        ("the cat sat on", "mat", 99, "[CLS] the cat sat on [SEP] mat [SEP]"),
        ("the cat sat on the", "", 99, "[CLS] the cat sat on the [SEP] [SEP]"),
        ("the", f"{SENTENCE} " * FIRST, 99, "[CLS] the [SEP] the cat sat on [SEP]"),
    ],
)
def test_of_a_query_and_a_text_the_text_alone_is_cut_off(tokenizer, query, text, most, wanted):
    assert texts_of(tokenizer.encode(Pair(query, text, most), truncate=True)) == wanted.split()
    if text == SENTENCE:
        with pytest.raises(Unacceptable, match=f"^input: at most {LIMIT} tokens, given "):
            tokenizer.encode(Pair(query, f"{text} mat", most))


@pytest.mark.parametrize(("query", "text", "takes"), [("the cat sat on the", "mat", 8), (SENTENCE, "", 9)])
def test_a_query_that_leaves_no_room_for_a_text_is_refused(tokenizer, query, text, takes):
    with pytest.raises(Unacceptable, match=f"^query: must leave room for a text in {LIMIT} tokens, takes {takes}$"):
        tokenizer.encode(Pair(query, text, 99), truncate=True)


@pytest.mark.parametrize("stride", [0, 1, 3])
@pytest.mark.parametrize("length", [0, 1, 5, 6, 7, 8, 9, 20, 41])
@pytest.mark.parametrize("pair", [True, False])
def test_windows_are_those_of_the_tokenizers_library(tokenizer, file, stride, length, pair):
    text = " ".join((SENTENCE.split() * 9)[:length])
    texts = ("the", text) if pair else (text,)
    library = Tokenizer.from_file(str(file))
    library.enable_truncation(LIMIT, stride=stride, strategy="only_second" if pair else "longest_first")
    whole = library.encode_batch([texts if pair else text])[0]
    wanted = [
        [
            (index, None if special else span, sequence if pair else None)
            for index, span, special, sequence in zip(
                one.ids, one.offsets, one.special_tokens_mask, one.sequence_ids, strict=True
            )
        ]
        for one in (whole, *whole.overflowing)
    ]
    found = tokenizer.windows(Pair(*texts) if pair else text, Windows(stride))
    assert [[(one.index, one.span, one.sequence) for one in window] for window in found] == wanted
    assert len(wanted) > 1 or length < 7


def test_of_a_text_in_windows_a_prompt_stands_before_each_and_a_window_may_be_shorter(tokenizer):
    found = tokenizer.windows(SENTENCE, Windows(1, most=6), prompt="the cat ")
    assert list(map(texts_of, found)) == [
        ["[CLS]", "the", "cat", *SENTENCE.split()[start : start + 2], "[SEP]"] for start in range(5)
    ]
    assert [[one.span for one in window if one.span] for window in found[:2]] == [[(0, 3), (4, 7)], [(4, 7), (8, 11)]]


@pytest.mark.parametrize(
    ("text", "windows", "error", "said"),
    [
        (
            Pair("the", SENTENCE),
            Windows(4),
            Unacceptable,
            "stride: must be less than the 4 tokens of a window, given 4",
        ),
        (
            Pair(SENTENCE, SENTENCE),
            Windows(0),
            Unacceptable,
            "input: the first text must leave room for the second in 8 tokens, takes 9",
        ),
        ("the " * 7, Windows(0, most=2), Unacceptable, "input: must leave room for a text in 2 tokens, takes 2"),
        ("the " * (MOST_WINDOWS + 6), Windows(5), TooLarge, f"input: at most {MOST_WINDOWS} windows, given 257"),
        ("the " * 40_000, Windows(0), TooLarge, "input: at most 131072 characters are read in windows, given 160000"),
    ],
)
def test_windows_that_there_are_not_are_refused(tokenizer, text, windows, error, said):
    with pytest.raises(error, match=f"^{said}"):
        tokenizer.windows(text, windows)
