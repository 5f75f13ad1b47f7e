"""Texts as inputs: the tokens that a rule names are those of its tokenizer."""

import types

import pytest
from tokenizers import Tokenizer, decoders, models

from contract.artifact import ArtifactError, find_artifacts, read_artifact
from contract.input_rules import TextRule
from service.inputs.text_inputs import TextInputs
from service.inputs.tokenization import TextTokenizer


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


def test_bytes_that_are_no_character_fail_no_text(tmp_path):
    """A newline is shown as soon as it comes, and would not be with the byte of a cut character behind it."""
    tokens = {"<0x0A>": 0, "<0xF0>": 1, "a": 2, "▁b": 3, "<unk>": 4, "</s>": 5}
    tokenizer = Tokenizer(models.BPE(tokens, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    artifact = types.SimpleNamespace(path=lambda name: tmp_path / name, to_load=lambda name: tmp_path / name)
    found = TextTokenizer(artifact, "tokenizer.json", 64).generated([2, 0, 1, 3], ends=(5,))
    assert [token.text for token in found] == ["a", "\n", "", " b"]


def test_the_tokens_make_up_a_text_that_ends_inside_a_character(tmp_path):
    tokenizer = Tokenizer(models.BPE({"ð": 0, "a": 1, "</s>": 2}, []))  # the first is the byte F0 of four
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    artifact = types.SimpleNamespace(path=lambda name: tmp_path / name, to_load=lambda name: tmp_path / name)
    text = TextTokenizer(artifact, "tokenizer.json", 64)
    found = text.generated([1, 0], ends=(2,))
    assert [(token.text, token.span) for token in found] == [("a", (0, 1)), ("\ufffd", (1, 2))]
    assert "".join(token.text for token in found) == text.decode([1, 0])


def test_a_text_that_is_cut_off_teaches_no_number_of_tokens(minilm):
    tokenizer = TextTokenizer(read_artifact(find_artifacts(minilm)[0]), "tokenizer.json", 256)
    text = "The quick brown fox jumps over the lazy dog. "
    tokens = sum(one.span is not None for one in tokenizer.encode(text))
    for _ in range(20):
        tokenizer.encode("word " * 20_000, truncate=True)
    assert tokenizer.estimated_tokens(text) == pytest.approx(tokens, abs=1)
