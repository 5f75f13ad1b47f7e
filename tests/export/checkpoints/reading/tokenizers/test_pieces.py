"""A SentencePiece model alone becomes the tokenizer that the reference library makes of it, class by class."""
# ruff: noqa: RUF001 # the texts hold look-alikes on purpose

import itertools
import json
import random
import re
import unicodedata

import pytest
from transformers import AutoTokenizer

from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.classes import CLASSES
from export.checkpoints.reading.tokenizers.pieces import PIECE_FILES, PieceClass
from export.checkpoints.reading.tokenizers.tokenizer import read_tokenizer
from export.errors import CheckpointError
from tests.samples.export_marian import ENGLISH, FRENCH, RUSSIAN, message, sentences, train

CLASSES_OF_PIECES = {name: row.build for name, row in CLASSES.items() if isinstance(row.build, PieceClass)}
MANY = 1000
FAIRSEQ = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
GOOGLE = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
BERT = {"bos_id": -1, "eos_id": -1, "pad_id": 0, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]}
TRAINED = {
    "T5Tokenizer": GOOGLE,
    "MT5Tokenizer": GOOGLE | {"byte_fallback": True, "vocab_size": 480},
    "PegasusTokenizer": GOOGLE,
    "SiglipTokenizer": GOOGLE,
    "AlbertTokenizer": BERT | {"unk_id": 1, "user_defined_symbols": ["(", ")", "£"]},
    "BigBirdTokenizer": BERT | {"unk_id": 1, "control_symbols": ["<s>", "</s>", "[CLS]", "[SEP]", "[MASK]"]},
    "DebertaV2Tokenizer": BERT
    | {"unk_id": 3, "unk_piece": "[UNK]", "pad_piece": "[PAD]", "control_symbols": ["[CLS]", "[SEP]"]},
}
"""How models of a class are trained; by default as fairseq's."""
SETTINGS = {
    "AlbertTokenizer": [{"do_lower_case": False}, {"keep_accents": True}],
    "DebertaV2Tokenizer": [{"do_lower_case": True, "split_by_punct": True}, {"mask_token": "[MASK]"}],
    "XLMRobertaTokenizer": [{"add_prefix_space": False}],
    "T5Tokenizer": [{"extra_ids": 7}, {"add_prefix_space": None}, {"add_prefix_space": False}],
    "PegasusTokenizer": [{"mask_token": "<mask_2>", "mask_token_sent": "<mask_1>", "offset": 10}],
}
"""Settings of a class that change its tokens."""
ODD = [
    "", " ", "the old house", "The OLD House", "  a  b  ", "a\tb", "a\nb", "a \r\n b", "un élève à l’école, où ?",
    "``the'' house", "'' ``", "дом река на юге", "😀", "a 😀 b", "日本語", "the 日本 house", "1,234.56", "½ ™ ﬁn",
    "Ａｂｃ　１２３", "</s>", "a </s> b", "<s>", "<pad> a", "<unk>", "a<unk>b", "▁", " ▁ ", "a▁b", "▁▁a", "x" * 60,
    "the " * 30, "[a^b] c\\d-e", "(the) £5", "cafe\u0301", "soft\u00adhyphen", "Ω≈ç√∫", "\u3000the\u00a0house",
    unicodedata.normalize("NFD", "한국어"), "a—b–c-d", "!?" * 9, "<extra_id_0> the <extra_id_99>", "<mask>",
    "the <mask> house", "[MASK]", "the [MASK]house", "[CLS] a [SEP]", "<mask_1> a <mask_2>", "<unk_7> a", "en_XX a",
    "fr_XX", "<0x41>", "a\x00b", "a\u200bb", "İstanbul", "STRASSE ß", "\ufeffthe", "ﷺ", "e\u0323\u0301", "\u2028a",
]  # fmt: skip


def texts_of(seed):
    """Draw 200 texts of words, of odd parts and of both."""
    draw = random.Random(seed)
    words = [*ENGLISH.replace("|", " ").split(), *FRENCH.replace("|", " ").split(), *RUSSIAN.replace("|", " ").split()]
    mixed = ["".join(draw.choice([*words, *ODD, " "]) + draw.choice([" ", ""]) for _ in range(6)) for _ in range(110)]
    texts = [*ODD, *sentences(ENGLISH, 20, 7), *sentences(FRENCH, 20, 8), *mixed]
    assert len(texts) >= 200
    return texts


def make(folder, name, settings=None):
    """Write a folder that has no tokenizer but a SentencePiece model, of a class with some settings."""
    lines = [*sentences(ENGLISH, 300, 1), *sentences(FRENCH, 300, 2), *sentences(RUSSIAN, 200, 3)]
    file = folder / CLASSES_OF_PIECES[name].file
    train(file, lines, model_type="unigram", **TRAINED.get(name, FAIRSEQ))
    named = {} if name == "MT5Tokenizer" else {"tokenizer_class": name}  # which its type of models says alone
    (folder / "tokenizer_config.json").write_text(json.dumps({**named, **(settings or {})}))
    if name == "DebertaV2Tokenizer" and "mask_token" in (settings or {}):  # which stands behind the pieces
        (folder / "added_tokens.json").write_text(json.dumps({"[MASK]": len(message(file).pieces)}))
    (folder / "config.json").write_text(json.dumps({"model_type": CLASSES[name].model_type or "mbart"}))
    return Checkpoint(folder, json.loads((folder / "config.json").read_text()), {})


SLOW = "SiglipTokenizer"
"""The class that is written in Python there: it knows no spans, and what looks like a special token it reads in its own
way."""
FAST = [name for name in CLASSES_OF_PIECES if name != SLOW]


@pytest.mark.parametrize("settings", [{}, {"do_lower_case": False}], ids=["by default", "with capitals"])
def test_texts_become_the_tokens_of_the_reference_that_is_written_in_python(tmp_path, settings):
    ours, theirs = read_tokenizer(make(tmp_path, SLOW, settings), MANY), AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__ == SLOW
    for text in texts_of(5):
        if not re.search(r"<(/s|pad|unk)>|\x00|İ", text):
            assert ours.encode(text).ids == theirs(text, truncation=False)["input_ids"], text


@pytest.mark.parametrize(
    ("name", "settings"),
    [(name, own) for name in FAST for own in ({}, *SETTINGS.get(name, ()))],
    ids=lambda one: one if isinstance(one, str) else ",".join(one) or "by default",
)
def test_200_odd_texts_and_pairs_become_the_tokens_of_the_reference(tmp_path, name, settings):
    ours = read_tokenizer(make(tmp_path, name, settings), MANY)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__ in (name, "T5Tokenizer")
    texts = texts_of(5)
    different = [
        (text, ours.encode(text, pair).tokens, theirs.convert_ids_to_tokens(theirs(text, pair)["input_ids"]))
        for text, pair in [*((text, None) for text in texts), *itertools.pairwise(texts)]
        if ours.encode(text, pair).ids != theirs(text, pair)["input_ids"]
    ]
    assert not different, (len(different), different[:5])


@pytest.mark.parametrize("name", FAST)
def test_tokens_become_the_text_of_the_reference_and_special_ones_are_the_same(tmp_path, name):
    ours = read_tokenizer(make(tmp_path, name), MANY)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in texts_of(6):
        tokens = ours.encode(text).ids
        assert ours.decode(tokens) == theirs.decode(tokens, skip_special_tokens=True)
        wanted = theirs(text, return_special_tokens_mask=True, return_offsets_mapping=True)
        assert ours.encode(text).special_tokens_mask == wanted["special_tokens_mask"]
        assert ours.encode(text).offsets == wanted["offset_mapping"]
    added = theirs._tokenizer.get_added_tokens_decoder()
    flags = {index: (token.content, token.special) for index, token in ours.get_added_tokens_decoder().items()}
    assert flags == {index: (token.content, token.special) for index, token in added.items()}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file.write_bytes(b"x"), "sentencepiece.bpe.model: is no SentencePiece model"),
        (lambda file: file.write_bytes(b""), "sentencepiece.bpe.model: has no normal pieces"),
        (lambda file: bpe(file), "sentencepiece.bpe.model: is a BPE model, which cannot be converted"),
        (lambda file: file.rename(file.with_name("spiece.model")), "sentencepiece.bpe.model: must be in the "),
        (lambda file: settings_of(file, tokenizer_class="XGLMTokenizer"), "tokenizer_class must be one of "),
        (lambda file: settings_of(file, unk_token="<none>", tokenizer_class="T5Tokenizer", to="spiece.model"), "spiece.model: has no piece <none>"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_named(tmp_path, damage, words):
    checkpoint = make(tmp_path, "XLMRobertaTokenizer")
    damage(tmp_path / "sentencepiece.bpe.model")
    with pytest.raises(CheckpointError, match=words):
        read_tokenizer(checkpoint, MANY)


def bpe(file):
    train(file, sentences(ENGLISH, 300, 1), model_type="bpe")


def settings_of(file, *, to=None, **settings):
    (file.parent / "tokenizer_config.json").write_text(json.dumps(settings))
    if to:
        file.rename(file.with_name(to))


def test_every_file_of_pieces_is_that_of_a_class():
    assert {build.file for build in CLASSES_OF_PIECES.values()} == set(PIECE_FILES)
