import json

import pytest

from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.characters import read_characters
from export.errors import TokenizerError

VOCABULARY = {"<pad>": 0, "<unk>": 1, "|": 2, "A": 3, "B": 4}
SETTINGS = "tokenizer_config.json"


def checkpoint(folder, files):
    for name, content in ({"vocab.json": VOCABULARY} | files).items():
        (folder / name).write_text(json.dumps(content))
    return Checkpoint(folder, {}, {})


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, ("", "<unk>", " ", "A", "B")),
        ({SETTINGS: {"do_lower_case": True, "pad_token": {"content": "<pad>"}}}, ("", "<unk>", " ", "a", "b")),
        ({SETTINGS: {"word_delimiter_token": "A", "pad_token": "|"}}, ("<pad>", "<unk>", "", " ", "B")),
        ({"special_tokens_map.json": {"pad_token": "B"}}, ("<pad>", "<unk>", " ", "A", "")),
        ({"vocab.json": {"[PAD]": 3, "a": 1}, SETTINGS: {"pad_token": "[PAD]"}}, ("<unk>", "a", "<unk>", "", "<unk>")),
        (
            {
                "vocab.json": {"|": 0, "a": 1},
                SETTINGS: {"added_tokens_decoder": {"4": {"content": "<pad>"}, "1": {"content": "<b>"}}},
                "added_tokens.json": {"<s>": 2, "</s>": 3},
            },
            (" ", "a", "<s>", "</s>", ""),
        ),
    ],
)
def test_each_class_writes_what_the_files_of_a_folder_say(tmp_path, files, wanted):
    assert read_characters(checkpoint(tmp_path, files), 5) == wanted


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {SETTINGS: {"tokenizer_class": "Wav2Vec2PhonemeCTCTokenizer"}},
            "tokenizer_class must be Wav2Vec2CTCTokenizer",
        ),
        ({SETTINGS: {"replace_word_delimiter_char": "_"}}, "replace_word_delimiter_char must be a space, given '_'"),
        ({SETTINGS: {"pad_token": "[PAD]"}}, "must hold the padding token once"),
        ({"vocab.json": {"eng": {"<pad>": 0}}}, "each token must have an index from 0 to 4, given {'<pad>': 0}"),
        ({"vocab.json": {**VOCABULARY, "C": 5}}, "each token must have an index from 0 to 4, given 5"),
        ({"vocab.json": {**VOCABULARY, "C": -1}}, "given -1"),
        ({"vocab.json": {**VOCABULARY, "": 3}}, "no empty one"),
        ({"vocab.json": {}}, "must hold the padding token once"),
        ({SETTINGS: {"added_tokens_decoder": {"four": {"content": "a"}}}}, "given four"),
    ],
)
def test_a_tokenizer_of_no_characters_or_without_a_blank_is_refused(tmp_path, files, words):
    with pytest.raises(TokenizerError) as refusal:
        read_characters(checkpoint(tmp_path, files), 5)
    assert words in str(refusal.value)
