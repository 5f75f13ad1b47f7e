"""What a classifier of an encoder-decoder adds to a text, and what it reads of its graphs."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from contract.artifact import ArtifactError, read_artifact
from service.inputs.model_input import Pair
from service.repository.models.sequence_classifier import SequenceClassifier
from service.repository.models.tasks import class_of
from service.settings import Settings
from tests.samples.changed_artifacts import edit

PAIRS = [Pair("the old cat", "it is red"), Pair("a dog", "a cat"), Pair("the cat sat on a blue mat", "it is sky")]


def opened(folder):
    artifact = read_artifact(folder)
    assert class_of(artifact.manifest) is SequenceClassifier
    return SequenceClassifier(artifact, "cpu", Settings(threads=1))


@pytest.fixture(scope="module")
def served(families):
    return opened(families("bart-nli") / "1")


@pytest.fixture
def items(served):
    return [served.inputs.text_input(pair) for pair in PAIRS]


def test_the_decoder_is_fed_the_text_behind_a_start_token(served, items):
    start = served.inputs.rule.decoder_start
    for item in items:
        source = item.arrays["source"].tolist()
        assert item.arrays["target"].tolist() == [start, *source[:-1]]
        assert item.arrays["answered"].tolist() == [len(source) - 1]
        assert item.lengths == {axis: len(source) for axis in ("source", "target", "target_input")}
        assert item.special["target"].tolist() == [True, *item.special["source"][:-1].tolist()]
        assert [token.index for token in item.fed] == item.arrays["target"].tolist()


def test_what_it_is_fed_is_derived_anew_of_a_text_whose_tokens_were_taken_away(served, items):
    source = items[0].arrays["source"][:5]
    shorter = replace(items[0], arrays={**items[0].arrays, "source": source}, lengths={**items[0].lengths, "source": 5})
    again = served.inputs.with_decoder(shorter)
    assert again.arrays["target"].tolist() == [served.inputs.rule.decoder_start, *source[:-1]]
    assert again.arrays["answered"].tolist() == [4]
    assert set(again.lengths.values()) == {5}


def test_each_text_of_a_batch_has_the_logits_of_its_own_last_token(served, items):
    out = served.batches.run("predict", items)
    together = [served.prediction_of(out, row, item) for row, item in enumerate(items)]
    for item, found in zip(items, together, strict=True):
        assert found.shape == (3,)
        alone = served.prediction_of(served.batches.run("predict", [item]), 0, item)
        np.testing.assert_allclose(found, alone, atol=1e-6)
    assert np.ptp(together, axis=0).min() > 1e-3


def test_a_start_token_that_the_tokenizer_lacks_is_refused(families, tmp_path):
    folder = shutil.copytree(families("bart-nli") / "1", tmp_path / "bart-nli" / "1")
    edit(folder, lambda manifest: manifest["inputs"][0].update(decoder_start=5000))
    with pytest.raises(ArtifactError, match=r"must name a start token that tokenizer\.json holds, given 5000"):
        opened(folder)
