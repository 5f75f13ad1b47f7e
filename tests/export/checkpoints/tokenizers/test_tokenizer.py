"""The tokenizers of bundled models give the indices that training used; those of checkpoints name special tokens."""

import json

import pytest
from tokenizers import Tokenizer, models

from export.bundled import SOURCES
from export.checkpoints.checkpoint import Checkpoint
from export.checkpoints.tokenizers.tokenizer import character_tokenizer, text_rule
from model.vocabularies import ALPHABET, END, MASK, MASK_TOKEN, SPECIALS, START, encode


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


def test_a_mask_is_one_token_where_it_is_written_as_it_is():
    tokenizer = Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET, mask=MASK_TOKEN))
    assert tokenizer.encode("1[MASK] 2").ids == [*encode("1"), MASK, *encode(" 2")]
    assert tokenizer.encode("[mask]").ids == encode("[mask]")
    assert Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET)).encode("[MASK]").ids == encode("[MASK]")


@pytest.mark.parametrize(("name", "ends"), [("dates-mlm", (END,)), ("dates-clm", ())])
def test_a_line_becomes_the_tokens_that_its_model_was_trained_on(name, ends):
    source = SOURCES[name]()
    written = "MARCH 3, 2021 = 2021-03-03"
    assert Tokenizer.from_str(source.tokenizer).encode(written).ids == [START, *encode(written), *ends]
    assert source.text.max_tokens == source.traced.model.embed.positions.weight.shape[0]


def test_decoding_undoes_encoding():
    tokenizer = Tokenizer.from_str(character_tokenizer(SPECIALS, ALPHABET))
    assert tokenizer.decode(tokenizer.encode("2021-03-23").ids) == "2021-03-23"


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - {"minilm"}))
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
