"""Texts are as long as the command allows, at most."""

import pytest

from export.errors import CheckpointError
from export.token_limit import USUAL_MAX_TOKENS, with_max_tokens
from model.architectures.gpt import GPTConfig
from tests.samples.export_models import classifier, continuer, translator


def limits(source):
    generation = source.generation
    return source.text.max_tokens, generation.max_new_tokens, source.verified_longest


def test_a_limit_holds_for_texts_for_what_is_generated_and_for_what_is_verified():
    source = translator()
    longest = {"batch": 1, "source": 48, "target": 12, "answered": 8, "capacity": 12}
    assert limits(source) == (48, 12, longest)
    assert limits(with_max_tokens(source, 20)) == (20, 12, {**longest, "source": 20})
    assert limits(with_max_tokens(source, 9)) == (9, 9, {**longest, "source": 9, "target": 9, "capacity": 9})
    assert limits(with_max_tokens(source, 100)) == limits(source), "what the model has is the most"


def test_without_a_limit_texts_have_no_more_than_usual():
    source = continuer(GPTConfig(40, length=3000, width=16, layers=1, heads=2, hidden=16))
    longest = {**dict.fromkeys(("source", "target", "capacity"), USUAL_MAX_TOKENS), "batch": 1, "answered": 8}
    assert limits(with_max_tokens(source, None)) == (USUAL_MAX_TOKENS, USUAL_MAX_TOKENS, longest)
    assert limits(with_max_tokens(source, 2500))[0] == 2500


def test_a_limit_that_leaves_no_room_for_a_text_is_refused():
    with pytest.raises(CheckpointError, match="--max-tokens: must leave room for a text in 1 tokens, given 2 with one"):
        with_max_tokens(translator(), 1)


def test_a_limit_is_refused_for_a_model_that_reads_no_text():
    assert with_max_tokens(classifier(), None).text is None
    with pytest.raises(CheckpointError, match="--max-tokens: is for models that read text"):
        with_max_tokens(classifier(), 9)
