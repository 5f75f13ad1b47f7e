"""What a folder of sentence-transformers declares is read, or refused by name."""

import json
import re

import pytest

from export.checkpoints.reading.checkpoint import open_checkpoint
from export.checkpoints.reading.sentence_transformers import SETTINGS_FILES, check_declaration, read_sentence_settings
from export.errors import CheckpointError

DECLARATION = "config_sentence_transformers.json"
SETTINGS = SETTINGS_FILES[0]


@pytest.fixture
def folder(saved):
    return saved("bert-features")


def write(folder, file, content):
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(json.dumps(content))


@pytest.mark.parametrize("file", SETTINGS_FILES)
def test_settings_are_read_under_each_name_that_the_library_knows(folder, file):
    (folder / SETTINGS).unlink()
    write(folder, file, {"max_seq_length": 12, "do_lower_case": True})
    found = read_sentence_settings(open_checkpoint(str(folder), None))
    assert (found.max_tokens, found.lower_case, found.unit) == (12, True, True)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (DECLARATION, {"truncate_dim": 8}, "truncate_dim must be null, given 8; vectors are not cut"),
        (DECLARATION, {"default_prompt_name": "query"}, "default_prompt_name must be null, given 'query'"),
        (SETTINGS, {"processing_kwargs": {"text": {"add_special_tokens": False}}}, "processing_kwargs is not "),
        (SETTINGS, {"tokenizer_args": {"do_lower_case": True}}, "tokenizer_args is not supported, given {'do_lower"),
        (SETTINGS, {"config_args": {"hidden_act": "relu"}}, "config_args is not supported"),
        (SETTINGS, {"max_seq_length": "9"}, "max_seq_length must be a number above 0, given '9'"),
        ("2_Normalize/config.json", {"module_input_name": "token_embeddings"}, "must be sentence_embedding, given"),
    ],
)  # fmt: skip
def test_what_would_change_an_embedding_and_is_not_done_is_refused_by_name(folder, file, content, words):
    write(folder, file, content)
    with pytest.raises(CheckpointError, match=re.escape(words)) as refused:
        read_sentence_settings(open_checkpoint(str(folder), None))
    assert str(refused.value).startswith(f"{file}: ")


def test_what_changes_nothing_is_accepted(folder):
    write(folder, DECLARATION, {"prompts": {"query": "q: "}, "default_prompt_name": None, "truncate_dim": None})
    write(folder, SETTINGS, {"max_seq_length": 9, "transformer_task": "feature-extraction", "processing_kwargs": {}})
    write(folder, "2_Normalize/config.json", {"module_input_name": "sentence_embedding"})
    assert read_sentence_settings(open_checkpoint(str(folder), None)).max_tokens == 9


def test_a_cross_encoder_has_no_prompt_either(folder):
    write(folder, DECLARATION, {"model_type": "CrossEncoder", "default_prompt_name": "query"})
    with pytest.raises(CheckpointError, match="default_prompt_name must be null"):
        check_declaration(open_checkpoint(str(folder), None))
