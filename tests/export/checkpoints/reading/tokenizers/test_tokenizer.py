"""The tokenizers of bundled models give the indices that training used; those of checkpoints name special tokens."""

import json

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

from export.bundled import SOURCES
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.tokenizer import (
    character_tokenizer,
    label_tokenizer,
    read_tokenizer,
    text_rule,
)
from export.errors import CheckpointError
from model.vocabularies import (
    ALPHABET,
    END,
    LABEL_WORDS,
    MASK,
    MASK_TOKEN,
    SPECIALS,
    START,
    UNKNOWN,
    encode,
    encode_label,
)


def test_the_exported_tokenizer_gives_the_indices_that_training_used():
    tokenizer = Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET))
    texts = [
        "23 March 2021",
        "ÄÖ ß\n\t💥",
        "",
        "[END][PAD]",
        "\u2019\u2013\u2018",
        "\u0130stanbul"[1:],
        ALPHABET.upper(),
    ]
    for text in texts:
        encoding = tokenizer.encode(text)
        assert encoding.ids == encode(text)
        assert encoding.offsets == [(place, place + 1) for place in range(len(text))]


def test_specials_stand_around_a_text_that_cannot_hold_them():
    tokenizer = Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET, around="[START] $A [END]"))
    encoding = tokenizer.encode("[END] 1")
    assert encoding.ids == [START, *encode("[END] 1"), END]
    assert encoding.special_tokens_mask == [1, *[0] * 7, 1]
    assert encoding.offsets[1:-1] == [(place, place + 1) for place in range(7)]


def test_specials_stand_around_each_of_two_texts():
    pair = "[START] $A [END] $B:1 [END]:1"
    tokenizer = Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET, around="[START] $A [END]", pair=pair))
    encoding = tokenizer.encode("3/23/21", "2021-03-23")
    assert encoding.ids == [START, *encode("3/23/21"), END, *encode("2021-03-23"), END]
    assert encoding.type_ids == [0] * 9 + [1] * 11


def test_a_label_is_split_into_words_and_signs_whatever_its_case():
    tokenizer = Tokenizer.from_str(label_tokenizer(SPECIALS, LABEL_WORDS, "[START] $A [END]"))
    for text in ("a red seven and a blue two", "a purple cat", "white digit"):
        assert tokenizer.encode(text).ids == encode_label(text)
    assert tokenizer.encode("A Red\nseven.").ids == encode_label("a red seven .")
    assert tokenizer.encode("[END]").ids == [START, *[UNKNOWN] * 3, END]
    assert tokenizer.encode("a red").special_tokens_mask == [1, 0, 0, 1]
    assert tokenizer.get_vocab_size() == len(SPECIALS) + len(LABEL_WORDS)


def test_a_mask_is_one_token_where_it_is_written_as_it_is():
    tokenizer = Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET, mask=MASK_TOKEN))
    assert tokenizer.encode("1[MASK] 2").ids == [*encode("1"), MASK, *encode(" 2")]
    assert tokenizer.encode("[mask]").ids == encode("[mask]")
    assert Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET)).encode("[MASK]").ids == encode("[MASK]")


@pytest.mark.parametrize(
    ("name", "ends"), [("dates-mlm", (END,)), ("dates-tags", (END,)), ("dates-rank", (END,)), ("dates-clm", ())]
)
def test_a_line_becomes_the_tokens_that_its_model_was_trained_on(name, ends):
    source = SOURCES[name]()
    written = "MARCH 3, 2021 = 2021-03-03"
    assert Tokenizer.from_str(source.tokenizer).encode(written).ids == [START, *encode(written), *ends]
    assert source.text.max_tokens == source.traced.model.embed.positions.weight.shape[0]


def test_decoding_undoes_encoding():
    tokenizer = Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET))
    assert tokenizer.decode(tokenizer.encode("2021-03-23").ids) == "2021-03-23"


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - {"minilm", "whisper-tiny-en"}))
def test_a_bundled_model_s_mask_and_padding_are_those_of_its_tokenizer(name):
    source = SOURCES[name]()
    if source.tokenizer is None:
        return
    tokenizer = Tokenizer.from_str(source.tokenizer)
    if source.text:
        assert source.text.padding == tokenizer.token_to_id("[PAD]")
        assert source.text.mask == tokenizer.token_to_id("[MASK]")
    if source.generation and source.generation.start is not None:
        assert source.generation.padding == tokenizer.token_to_id("[PAD]")


def words(*specials):
    return Tokenizer(models.WordLevel({token: index for index, token in enumerate(("cat", *specials))}, "cat"))


@pytest.mark.parametrize(
    ("specials", "config", "files", "mask", "padding"),
    [
        ((), {}, {}, None, None),
        (("<gap>", "<void>"), {}, {}, None, None),
        (("<gap>", "<void>"), {}, {"tokenizer_config.json": {"mask_token": "<gap>", "pad_token": "<void>"}}, 1, 2),
        (("<gap>", "<void>"), {}, {"special_tokens_map.json": {"mask_token": {"content": "<gap>"}}}, 1, None),
        (("<gap>",), {}, {"tokenizer_config.json": {"mask_token": "<lost>", "pad_token": None}}, None, None),
        (("<gap>", "<void>"), {"mask_token_id": 1, "pad_token_id": 2}, {}, 1, 2),
        (("<gap>", "<void>"), {"pad_token_id": 0}, {"tokenizer_config.json": {"pad_token": "<void>"}}, None, 2),
        (("[PAD]", "<void>"), {"pad_token_id": 2}, {}, None, 2),
        (("<gap>",), {"pad_token_id": 7, "mask_token_id": -1}, {}, None, None),
        (("<gap>",), {"pad_token_id": "1", "mask_token_id": True}, {}, None, None),
        (("[MASK]", "[PAD]"), {}, {}, 1, 2),
        (("<pad>", "<mask>"), {}, {}, 2, 1),
    ],
)
def test_mask_and_padding_are_declared_or_configured_or_have_usual_names(
    tmp_path, specials, config, files, mask, padding
):
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    rule = text_rule(Checkpoint(tmp_path, config, {}), words(*specials), 9, None)
    assert (rule.mask, rule.padding, rule.max_tokens) == (mask, padding, 9)


WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "Hello", "cafe", "Café", "zz")
PIECES = ("<s>", "<pad>", "</s>", "<unk>", "hi", "▁hi", "▁a", "a", "<mask>")


def folder_of(path, tokenizer, settings, **config):
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return Checkpoint(path, config, {})


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", ["BertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"])
@pytest.mark.parametrize(
    "normalizer", [None, normalizers.NFKC(), normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])]
)
def test_a_tokenizer_of_bert_normalizes_as_its_settings_say_whatever_the_file_says(tmp_path, normalizer, kind, lower):
    """As the reference library does."""
    tokenizer = Tokenizer(models.WordPiece({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in WORDS[:5]])
    checkpoint = folder_of(tmp_path, tokenizer, {"tokenizer_class": kind, "do_lower_case": lower}, model_type="bert")
    ours, theirs = read_tokenizer(checkpoint, len(WORDS)), AutoTokenizer.from_pretrained(tmp_path)
    for text in ("Hello Café", "hello zz"):
        assert ours.encode(text, add_special_tokens=False).ids == theirs(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("settings", [{}, {"add_prefix_space": False}, {"add_prefix_space": True}])
@pytest.mark.parametrize("together", [True, False])
def test_a_text_of_pieces_begins_with_a_space_where_the_settings_say_so(tmp_path, settings, together):
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - index) for index, piece in enumerate(PIECES)], 3))
    parts = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts) if together else parts[1]
    specials = [AddedToken(piece, special=True) for piece in PIECES if piece.startswith("<")]
    tokenizer.add_special_tokens(specials)
    given = {"tokenizer_class": "XLMRobertaTokenizer", **settings}
    checkpoint = folder_of(tmp_path, tokenizer, given, model_type="xlm-roberta")
    ours, theirs = read_tokenizer(checkpoint, len(PIECES)), AutoTokenizer.from_pretrained(tmp_path)
    found = ours.encode("hi a", add_special_tokens=False).ids
    assert found == theirs("hi a", add_special_tokens=False)["input_ids"]
    assert found[0] == PIECES.index("▁hi" if settings.get("add_prefix_space", True) else "hi")


@pytest.mark.parametrize("settings", [{}, {"add_prefix_space": None}, {"add_prefix_space": False}])
@pytest.mark.parametrize("declared", [{"tokenizer_class": "T5TokenizerFast"}, {}])
def test_a_text_of_t5_is_split_into_led_words_whatever_the_file_and_the_settings_say(tmp_path, settings, declared):
    pieces = ["<pad>", "</s>", "<unk>", "hi", "▁hi", "▁a", "a"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - index) for index, piece in enumerate(pieces)], 2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in pieces[:3]])
    checkpoint = folder_of(tmp_path, tokenizer, {**declared, **settings}, model_type="t5")
    ours, theirs = read_tokenizer(checkpoint, len(pieces)), AutoTokenizer.from_pretrained(tmp_path, extra_ids=0)
    for text in ("hi a", "hi\ta  hi"):
        found = ours.encode(text, add_special_tokens=False).ids
        assert found == theirs(text, add_special_tokens=False)["input_ids"]
        assert found[:2] == [4, 5]


@pytest.mark.parametrize("file", ["tokenizer_config.json", "added_tokens.json"])
def test_tokens_that_only_other_files_add_are_refused(tmp_path, file):
    """The reference library would add them; without a row in the embedding they are nothing to the model."""
    tokenizer = words("<gap>")
    decoder = {"added_tokens_decoder": {"2": {"content": "zz"}}} if file.startswith("tokenizer") else {}
    checkpoint = folder_of(tmp_path, tokenizer, decoder, model_type="bert")
    if not decoder:
        (tmp_path / file).write_text('{"zz": 2}')
    with pytest.raises(CheckpointError, match=f"^{file}.*'zz' must be an added token of tokenizer.json"):
        read_tokenizer(checkpoint, 3)
    assert read_tokenizer(checkpoint, 2).get_vocab_size() == 2


@pytest.mark.parametrize("given", [[1], {"x": {"content": "zz"}}, {"2": "zz"}, {"2": {}}])
def test_added_tokens_of_another_form_are_refused(tmp_path, given):
    checkpoint = folder_of(tmp_path, words("<gap>"), {"added_tokens_decoder": given}, model_type="bert")
    with pytest.raises(
        CheckpointError, match=r"^tokenizer_config.json: added_tokens_decoder must have tokens by index"
    ):
        read_tokenizer(checkpoint, 3)
