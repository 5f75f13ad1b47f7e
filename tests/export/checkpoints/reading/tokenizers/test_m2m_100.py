"""An M2M-100 tokenizer, converted, gives the tokens and the texts of the reference library."""
# ruff: noqa: RUF001 # the texts hold look-alikes on purpose

import random
import unicodedata

import pytest
from tokenizers import Tokenizer
from transformers import M2M100Tokenizer

from export.checkpoints.reading.tokenizers.m2m_100 import LANGUAGES, convert
from export.errors import TokenizerError
from tests.samples.export_m2m_100 import make
from tests.samples.export_marian import ENGLISH, FRENCH, RUSSIAN, sentences

TEXTS = [
    "", " ", "the old house", "The Old House", "  a  b  ", "a\tb", "a\nb", "un élève à l’école, où ?",
    "le château cassé", "дом река на юге", "😀", "a 😀 b", "日本語", "the 日本 house", "1,234.56", "½ ™ ﬁn",
    "Ａｂｃ　１２３", "</s>", "a </s> b", "__fr__ the", "a __fr__", "▁", " ▁ ", "a▁b", "x" * 60, "the " * 30,
    "[a^b] c\\d-e", "cafe\u0301", "soft\u00adhyphen", "Ω≈ç√∫", unicodedata.normalize("NFD", "한국어"),
    "\u3000the\u00a0house", "a—b–c-d", "!?" * 9,
]  # fmt: skip


def mixtures(count, seed):
    draw = random.Random(seed)
    words = [*ENGLISH.replace("|", " ").split(), *FRENCH.replace("|", " ").split(), *RUSSIAN.replace("|", " ").split()]
    parts = [*words, *TEXTS, " ", "x", "é", "ж"]
    return [
        "".join(draw.choice(parts) + draw.choice([" ", ""]) for _ in range(draw.randint(1, 8))) for _ in range(count)
    ]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def folder(request, tmp_path_factory):
    return make(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture
def ours(folder):
    return Tokenizer.from_str(convert(folder))


def test_texts_become_the_same_tokens(folder, ours):
    theirs = M2M100Tokenizer.from_pretrained(folder)
    texts = [*TEXTS, *sentences(ENGLISH, 200, 7), *sentences(FRENCH, 200, 8), *mixtures(600, 9)]
    different = [
        (text, ours.encode(text).tokens, theirs.tokenize(text))
        for text in texts
        if ours.encode(text).ids != theirs.convert_tokens_to_ids(theirs.tokenize(text))
    ]
    assert not different, (len(different), different[:5])


def test_tokens_become_the_same_texts(folder, ours):
    theirs = M2M100Tokenizer.from_pretrained(folder)
    for text in [*sentences(ENGLISH, 50, 7), *sentences(FRENCH, 50, 8), "a  b", "дом река"]:
        tokens = [theirs.get_lang_id("fr"), *ours.encode(text).ids, 2]
        assert ours.decode(tokens) == theirs.decode(tokens, skip_special_tokens=True)


@pytest.mark.parametrize("codes", LANGUAGES)
def test_languages_have_the_tokens_behind_the_vocabulary(folder, codes):
    theirs = M2M100Tokenizer.from_pretrained(folder, language_codes=codes)
    ours = Tokenizer.from_str(convert(folder, codes))
    assert {code: ours.token_to_id(f"__{code}__") for code in LANGUAGES[codes]} == theirs.lang_code_to_id


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "vocab.json").write_text("{}"), "vocab.json: has no <s>"),
        (lambda folder: (folder / "vocab.json").write_text('{"<s>": 5}'), "vocab.json: indices must be 0 to 0"),
        (lambda folder: (folder / "vocab.json").write_text("["), "vocab.json: is no JSON"),
        (lambda folder: (folder / "sentencepiece.bpe.model").write_bytes(b"x"), "is no SentencePiece model"),
        (lambda folder: (folder / "sentencepiece.bpe.model").unlink(), "cannot be read"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, damage, message):
    damage(make(tmp_path, "bpe"))
    with pytest.raises(TokenizerError, match=message):
        convert(tmp_path)


def test_unknown_language_codes_are_refused(folder):
    with pytest.raises(TokenizerError, match="language_codes must be one of m2m100, wmt21"):
        convert(folder, "flores")
