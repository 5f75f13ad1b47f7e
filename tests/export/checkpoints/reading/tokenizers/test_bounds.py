"""What a tokenizer of a checkpoint may do to a text."""

import time

import pytest

from export.checkpoints.reading.tokenizers import bounds
from export.errors import CheckpointError

GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def replace(content, **pattern):
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def split(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    ("normalizer", "times"),
    [
        (None, 1),
        ({"type": "Lowercase"}, 3),
        ({"type": "Strip"}, 1),
        (replace("▁", String=" "), 1),
        (replace("", String="``"), 1),
        (replace("q" * 1000, String="q"), 1000),
        (replace("q" * 1000, String="qq"), 500),
        (replace(" ", Regex=" {2,}"), 2),
        (sequence(*[replace("q" * 1000, String="q")] * 3), 10**9),
        (sequence({"type": "NFKD"}, {"type": "Lowercase"}, {"type": "Precompiled", "precompiled_charsmap": ""}), 972),
    ],
)
def test_a_normalizer_makes_a_text_so_many_times_as_long(normalizer, times):
    assert bounds._growth(normalizer) == times
    if times <= bounds.MOST_GROWTH:
        bounds.check_bounds("tokenizer.json", {"normalizer": normalizer})
    else:
        with pytest.raises(CheckpointError, match=rf"tokenizer.json: normalizer: .* 2000 .* {times} times"):
            bounds.check_bounds("tokenizer.json", {"normalizer": normalizer})


@pytest.mark.parametrize("expression", [r"(x+x+)+y|([a-z ]+)*\#", r"(\w+\s?)+\!", r"(a|aa)+$b"])
def test_an_expression_that_takes_for_ever_is_refused(expression):
    begun = time.monotonic()
    content = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(GPT_2), split(expression)]}}
    with pytest.raises(
        CheckpointError, match=r"tokenizer.json: the regular expression .* takes more than 0.05 seconds"
    ):
        bounds.check_bounds("tokenizer.json", content)
    assert time.monotonic() - begun < 20


def test_the_expressions_that_models_come_with_are_taken():
    parts = [split(GPT_2), split(LLAMA_3), {"type": "ByteLevel"}, split(r"\d{1,3}")]
    bounds.check_bounds("tokenizer.json", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": parts}})
