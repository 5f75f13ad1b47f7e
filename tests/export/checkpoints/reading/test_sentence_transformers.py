"""What a folder of sentence-transformers declares is read, or refused by name."""

import json
import re

import pytest

from export.checkpoints.reading.checkpoint import open_checkpoint
from export.checkpoints.reading.sentence_transformers import (
    SETTINGS_FILES,
    Dense,
    SpladePooling,
    check_declaration,
    declared_task,
    read_sentence_settings,
    read_sparse_settings,
)
from export.errors import CheckpointError
from tests.samples.export_folders import edit

DECLARATION = "config_sentence_transformers.json"
SETTINGS = SETTINGS_FILES[0]
SPLADE, MODULES = "1_SpladePooling/config.json", "modules.json"
SPARSE = [{"type": "x.Transformer"}, {"type": "x.SpladePooling", "path": "1_SpladePooling"}]
DENSE = {"in_features": 16, "out_features": 8}


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
    assert (found.max_tokens, found.lower_case, found.behind) == (12, True, ("unit",))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (DECLARATION, {"truncate_dim": 0}, "truncate_dim must be a number above 0, given '0'"),
        (DECLARATION, {"truncate_dim": True}, "truncate_dim must be a number above 0, given 'True'"),
        (DECLARATION, {"default_prompt_name": "query"}, "default_prompt_name must be the name of one of the "),
        (DECLARATION, {"default_prompt_name": "a", "prompts": {"a": None}}, "default_prompt_name must be the name of"),
        (DECLARATION, {"prompts": {"query": 1}}, "prompts must be texts by name, given "),
        (DECLARATION, {"prompts": ["query: "]}, "prompts must be texts by name, given "),
        (SETTINGS, {"processing_kwargs": {"text": {"add_special_tokens": False}}}, "processing_kwargs is not "),
        (SETTINGS, {"tokenizer_args": {"do_lower_case": True}}, "tokenizer_args is not supported, given {'do_lower"),
        (SETTINGS, {"config_args": {"hidden_act": "relu"}}, "config_args is not supported"),
        (SETTINGS, {"max_seq_length": "9"}, "max_seq_length must be a number above 0, given '9'"),
        ("2_Normalize/config.json", {"module_input_name": "token_embeddings"}, "must be sentence_embedding, given"),
        ("3_Dense/config.json", {**DENSE, "in_features": None}, "in_features and out_features must be numbers above 0"),
        ("3_Dense/config.json", {**DENSE, "activation_function": "mine.Cube"}, "activation_function must be one"),
        ("3_Dense/config.json", {**DENSE, "activation_function": "torch.nn.ELU"}, "activation_function must be one"),
        ("3_Dense/config.json", {**DENSE, "module_output_name": "x"}, "must be sentence_embedding, given 'x'"),
        ("3_Dense/config.json", {**DENSE, "scale": 2}, "scale is not supported, given 2"),
    ],
)  # fmt: skip
def test_what_would_change_an_embedding_and_is_not_done_is_refused_by_name(folder, file, content, words):
    write(folder, file, content)
    if file.startswith("3_"):
        edit(folder, "modules.json", lambda it: it.append({"type": "x.Dense", "path": "3_Dense"}))
    with pytest.raises(CheckpointError, match=re.escape(words)) as refused:
        read_sentence_settings(open_checkpoint(str(folder), None))
    assert str(refused.value).startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (DECLARATION, {"max_active_dims": 64}, "max_active_dims must be null, given '64'"),
        (DECLARATION, {"truncate_dim": 64}, "truncate_dim must be null, given '64'"),
        (DECLARATION, {"default_prompt_name": "query"}, "default_prompt_name must be the name of one of the prompts"),
        (SETTINGS, {"transformer_task": "feature-extraction"}, "for fill-mask and SpladePooling, given Transformer, "),
        (SETTINGS, {"transformer_task": "fill-mask", "config_args": {"hidden_act": "relu"}}, "config_args is not "),
        (SPLADE, {"pooling_strategy": "mean"}, "pooling_strategy must be one of max, sum, given 'mean'"),
        (SPLADE, {"pooling_strategy": ["max"]}, "pooling_strategy must be one of max, sum, given "),
        (SPLADE, {"activation_function": "gelu"}, "activation_function must be one of relu, log1p_relu, given 'gelu'"),
        (SPLADE, {"embedding_dimension": 64}, "embedding_dimension must be 130, the size of the vocabulary"),
        (SPLADE, {"top_k": 64}, "top_k is not supported, given 64"),
        (MODULES, [{"type": "x.Router"}, {"type": "x.SpladePooling"}], "for fill-mask and SpladePooling, given Router"),
        (MODULES, [*SPARSE, {"type": "x.Normalize"}], "given Transformer, SpladePooling, Normalize for fill-mask"),
    ],
)  # fmt: skip
def test_what_would_change_the_weights_of_words_is_refused_by_name(saved, file, content, words):
    folder = saved("distilbert-sparse")
    assert declared_task(open_checkpoint(str(folder), None)) == "sparse-embedding"
    assert read_sparse_settings(open_checkpoint(str(folder), None), 130).words == SpladePooling("sum", logs=2)
    write(folder, file, content)
    with pytest.raises(CheckpointError, match=re.escape(words)) as refused:
        read_sparse_settings(open_checkpoint(str(folder), None), 130)
    assert str(refused.value).startswith(f"{MODULES if file == SETTINGS and 'args' not in words else file}: ")


def test_options_of_words_that_change_nothing_are_accepted(saved):
    folder = saved("distilbert-sparse")
    write(folder, SPLADE, {"pooling_strategy": "max", "chunk_size": 8, "embedding_dimension": 130})
    assert read_sparse_settings(open_checkpoint(str(folder), None), 130).words == SpladePooling()


def test_states_are_not_pooled_where_a_transformer_answers_with_logits(folder):
    write(folder, SETTINGS, {"transformer_task": "fill-mask"})
    with pytest.raises(CheckpointError, match=r"modules.json: must be a Transformer for feature-extraction, given fil"):
        read_sentence_settings(open_checkpoint(str(folder), None))


@pytest.mark.parametrize("named", ["Tanh", "activation.Tanh", None])
def test_a_layer_is_read_with_the_defaults_of_the_library(folder, named):
    path = {} if named is None else {"activation_function": f"torch.nn.modules.{named}"}
    write(folder, "3_Dense/config.json", DENSE | path)
    edit(folder, "modules.json", lambda it: it.append({"type": "x.Dense", "path": "3_Dense"}))
    found = read_sentence_settings(open_checkpoint(str(folder), None))
    assert found.behind == ("unit", Dense("3_Dense", 16, 8, "tanh", bias=True, residual=False))
    assert found.layers == [found.behind[1]]


def test_a_default_prompt_is_a_part_of_what_is_pooled(folder):
    write(folder, DECLARATION, {"prompts": {"query": "q: "}, "default_prompt_name": "query"})
    assert read_sentence_settings(open_checkpoint(str(folder), None)).default_prompt == "query"
    edit(folder, "1_Pooling/config.json", lambda it: it.update(include_prompt=False))
    with pytest.raises(CheckpointError, match=r"1_Pooling/config.json: include_prompt must be true where there is a "):
        read_sentence_settings(open_checkpoint(str(folder), None))
    write(folder, DECLARATION, {"prompts": {"query": "q: "}})
    assert read_sentence_settings(open_checkpoint(str(folder), None)).prompts is None
    edit(folder, "1_Pooling/config.json", lambda it: it.update(include_prompt=True))
    assert read_sentence_settings(open_checkpoint(str(folder), None)).prompts == {"query": "q: "}


def test_what_changes_nothing_is_accepted(folder):
    write(folder, DECLARATION, {"prompts": {"query": "q: "}, "default_prompt_name": None, "truncate_dim": None})
    write(folder, SETTINGS, {"max_seq_length": 9, "transformer_task": "feature-extraction", "processing_kwargs": {}})
    write(folder, "2_Normalize/config.json", {"module_input_name": "sentence_embedding"})
    assert read_sentence_settings(open_checkpoint(str(folder), None)).max_tokens == 9


def test_a_cross_encoder_has_no_prompt_either(folder):
    write(folder, DECLARATION, {"model_type": "CrossEncoder", "default_prompt_name": "query"})
    with pytest.raises(CheckpointError, match="default_prompt_name must be null"):
        check_declaration(open_checkpoint(str(folder), None))
