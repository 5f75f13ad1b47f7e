"""Texts as inputs: the tokens that a rule names are those of its tokenizer."""

import types

import pytest
from tokenizers import Tokenizer, models

from contract.artifact import ArtifactError
from contract.manifest import TextRule
from service.inputs.text_inputs import TextInputs


@pytest.fixture
def artifact(tmp_path):
    """An artifact whose tokenizer has the tokens 0, 1 and 2."""
    Tokenizer(models.WordLevel({"cat": 0, "[PAD]": 1, "[MASK]": 2}, "cat")).save(str(tmp_path / "tokenizer.json"))
    return types.SimpleNamespace(path=tmp_path.joinpath, to_load=tmp_path.joinpath)


@pytest.mark.parametrize(("name", "token"), [("mask", 3), ("mask", -1), ("padding", 3), ("padding", -1)])
def test_mask_and_padding_must_be_tokens_of_the_tokenizer(artifact, name, token):
    rule = TextRule(tokenizer="tokenizer.json", max_tokens=9, mask=2, padding=1)
    assert TextInputs(artifact, rule).rule == rule
    words = f"must name a {name} token that tokenizer.json holds, given {token}"
    with pytest.raises(ArtifactError, match=words):
        TextInputs(artifact, rule.model_copy(update={name: token}))
