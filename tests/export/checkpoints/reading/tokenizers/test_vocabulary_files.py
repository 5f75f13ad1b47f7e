"""Tokenizers built of a vocabulary's files are those of the reference library, token by token."""
# ruff: noqa: RUF001, E501 # the texts hold look-alikes on purpose; a table reads by its rows

import itertools
import json
import random
import re

import pytest
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.tokenizer import read_tokenizer
from export.errors import CheckpointError

TEXTS = [
    "The quick brown fox jumps over the lazy dog.", "  Hello,   World!  ", "naïve café Übermaß ÅNGSTRÖM", "e\u0301 cafe\u0301",
    "猫が座った。東京 2021年", "中文abc混合", "한국어 문장입니다", "Привет, мир! ЁЖ", "مرحبا بالعالم", "ไทย", "don't can't I'm we'll",
    "a\tb\nc\r\nd", "x\u00a0y\u200bz\u2028w", "ﬁne № ª ℡ ½", "😀 emoji 👩‍👩‍👧 flag 🇩🇪", "$5.00 (50%) #tag @user _x_ a-b—c…", "", " ",
    "[CLS] a [MASK] b [SEP] [UNK] [PAD]", "a<mask>b <mask> c</s><s> <pad> <unk>", "<|endoftext|> x<|endoftext|>", "İstanbul ıI ß ẞ",
    "Zażółć gęślą jaźń", "unseenwordthatislong" * 8, "\x00\x07control\ufffd", "A" * 120, "...!!!???", "१२३ हिन्दी", "x" + "\u0301" * 5,
]  # fmt: skip
LETTERS = "abcdefgh ABC éÉüñ 漢字 かな 12,.!?'\"- \t\nßİ😀ж"


def drawn(count=60):
    draw = random.Random(3)
    return ["".join(draw.choices(LETTERS, k=draw.randint(1, 40))) for _ in range(count)]


def configured(folder, model_type, **settings):
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return Checkpoint(folder, {"model_type": model_type}, {})


def word_pieces(folder, specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *, lowercase=True):
    tokenizer = Tokenizer(models.WordPiece(unk_token=specials[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=list(specials), show_progress=False)
    tokenizer.train_from_iterator([text for text in TEXTS if not re.search(r"\[|<", text)] * 2, trainer)
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))


def byte_pairs(folder, specials=("<s>", "<pad>", "</s>", "<unk>", "<mask>")):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=list(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator([text for text in TEXTS if not re.search(r"\[|<", text)] * 2, trainer)
    tokenizer.model.save(str(folder))


def byte_pairs_of_words(folder):
    """CLIP's: the last piece of a word is another than the same letters within one."""
    words = re.compile(r"\w+|[^\s\w]+")
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=800, show_progress=False, end_of_word_suffix="</w>", initial_alphabet=alphabet,
        special_tokens=["<|startoftext|>", "<|endoftext|>", *(f"{letter}</w>" for letter in sorted(alphabet))],
    )  # fmt: skip
    tokenizer.train_from_iterator([word.lower() for text in TEXTS for word in words.findall(text)] * 2, trainer)
    tokenizer.model.save(str(folder))


MASK = {
    "content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False, "__type": "AddedToken",
}  # fmt: skip
GPT2 = {"specials": ("<|endoftext|>",)}
CASES = {
    "bert": ("bert", word_pieces, {}, {}),
    "bert of cased text": ("bert", word_pieces, {"lowercase": False}, {"do_lower_case": False}),
    "bert of cased text without accents": ("bert", word_pieces, {"lowercase": False}, {"do_lower_case": False, "strip_accents": True}),
    "bert with accents": ("bert", word_pieces, {}, {"strip_accents": False}),
    "bert without Chinese": ("bert", word_pieces, {}, {"tokenize_chinese_chars": False}),
    "bert of a named class": ("bert", word_pieces, {}, {"tokenizer_class": "BertTokenizerFast", "mask_token": "[MASK]"}),
    "distilbert": ("distilbert", word_pieces, {}, {"tokenizer_class": "DistilBertTokenizer", "do_lower_case": True}),
    "other names of special tokens": (
        "bert", word_pieces, {"specials": ("<pad>", "<unk>", "<s>", "</s>", "<mask>")},
        {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": MASK},
    ),
    "mpnet": ("mpnet", word_pieces, {"specials": ("<s>", "[UNK]", "</s>", "<pad>", "<mask>")}, {"mask_token": MASK}),
    "roberta": ("roberta", byte_pairs, {}, {"mask_token": MASK}),
    "roberta that begins with a space": ("roberta", byte_pairs, {}, {"add_prefix_space": True, "mask_token": MASK}),
    "bart": ("bart", byte_pairs, {}, {"tokenizer_class": "BartTokenizer", "mask_token": MASK}),
    "clip": ("clip", byte_pairs_of_words, {}, {}),
    "gpt2": ("gpt2", byte_pairs, GPT2, {}),
    "gpt2 that begins with a space": ("gpt2", byte_pairs, GPT2, {"add_prefix_space": True}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_tokens_are_those_of_the_reference(tmp_path, case):
    model_type, write, how, settings = CASES[case]
    write(tmp_path, **how)
    ours = read_tokenizer(configured(tmp_path, model_type, **settings), 10**6)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS + drawn():
        found, wanted = ours.encode(text), theirs(text)
        assert found.ids == wanted["input_ids"], text
        assert ours.decode(found.ids) == theirs.decode(
            wanted["input_ids"], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    for one, other in itertools.pairwise(filter(None, TEXTS)):  # an empty second text is none to the reference
        found, wanted = ours.encode(one, other), theirs(one, other)
        assert found.ids == wanted["input_ids"], (one, other)
        if "token_type_ids" in wanted:
            assert found.type_ids == wanted["token_type_ids"]


@pytest.mark.parametrize(
    "settings", [{}, {"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
def test_tokens_are_those_of_the_reference_that_is_written_in_python(tmp_path, settings):
    word_pieces(tmp_path, lowercase=settings.get("do_lower_case", True))
    ours = read_tokenizer(configured(tmp_path, "bert", **settings), 10**6)
    theirs = BertTokenizerLegacy(str(tmp_path / "vocab.txt"), **settings)
    for text in TEXTS + drawn():
        if not re.search(r"[\u200b\u0300-\u036fİ]", text):  # of which the two references differ from each other
            assert ours.encode(text).ids == theirs(text)["input_ids"], text


def test_added_tokens_have_their_indices(tmp_path):
    word_pieces(tmp_path)
    size = len((tmp_path / "vocab.txt").read_text().splitlines())
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[NEW]": size + 1, "[E1]": size}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": ["[E1]"]}))
    tokenizer = read_tokenizer(configured(tmp_path, "bert"), size + 2)
    assert tokenizer.encode("[E1] a [NEW]", add_special_tokens=False).ids[::2] == [size, size + 1]
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[E1]": size + 5}))
    with pytest.raises(CheckpointError, match=r"added_tokens.json: a token is at \d+, where the vocabulary leaves no"):
        read_tokenizer(configured(tmp_path, "bert"), size + 9)


def test_a_mask_of_a_roberta_takes_the_space_before_it_if_nothing_says_otherwise(tmp_path):
    byte_pairs(tmp_path)
    tokenizer = read_tokenizer(configured(tmp_path, "roberta"), 10**6)
    assert tokenizer.encode("a <mask>").ids == tokenizer.encode("a<mask>").ids


@pytest.mark.parametrize(
    ("model_type", "file", "content", "words"),
    [
        ("bert", "vocab.txt", b"\xff\xfe", "vocab.txt: cannot be read as text in UTF-8"),
        ("roberta", "merges.txt", b"#version: 0.2\na b c\n", "merges.txt: a line must hold two pieces"),
        ("roberta", "merges.txt", b"nowhere tobefound\n", "vocab.json: tokenizer cannot be built"),
        ("roberta", "vocab.json", b"[]", "vocab.json: must be a JSON object"),
        ("roberta", "vocab.json", b'{"a": "b"}', "vocab.json: must map pieces to whole numbers"),
        ("bert", "tokenizer_config.json", b'{"tokenizer_class": "BertJapaneseTokenizer"}', "tokenizer_config.json: tokenizer_class must be one of"),
        ("bert", "tokenizer_config.json", b'{"tokenizer_class": "RobertaTokenizer"}', "vocab.json: must be in the checkpoint's folder"),
        ("bert", "tokenizer_config.json", b'{"do_basic_tokenize": false}', "tokenizer_config.json: do_basic_tokenize must be true"),
        ("bert", "tokenizer_config.json", b'{"cls_token": 5}', "tokenizer_config.json: cls_token must be a text"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_file(tmp_path, model_type, file, content, words):
    (word_pieces if model_type == "bert" else byte_pairs)(tmp_path)
    checkpoint = configured(tmp_path, model_type)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(CheckpointError, match=re.escape(words)):
        read_tokenizer(checkpoint, 10**6)


def test_a_folder_without_any_tokenizer_says_what_is_read(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"tokenizer.json: must be in the .* neither are vocab.txt, or vocab.json"
    ):
        read_tokenizer(configured(tmp_path, "bert"), 10**6)
