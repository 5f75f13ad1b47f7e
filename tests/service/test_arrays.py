from types import SimpleNamespace

import numpy as np
import pytest

from service.api.tasks.labels import Labels
from service.arrays import padded, probabilities, softmax
from service.options.predictions import ClassifyOptions
from tests.samples.small_manifest import manifest_of


def test_shorter_rows_are_padded_with_zeros_or_false():
    assert padded([np.array([1, 2]), np.array([3])]).tolist() == [[1, 2], [3, 0]]
    assert padded([np.array([True]), np.array([True, True])]).tolist() == [[True, False], [True, True]]


def test_rows_of_one_shape_are_stacked_whatever_their_layout():
    rows = [np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(6, 12, dtype=np.float32).reshape(2, 3).T]
    assert padded(rows).tolist() == np.stack(rows).tolist()
    assert padded([np.zeros((0, 4), np.int64)] * 2).shape == (2, 0, 4)
    assert padded([np.array([True, False])]).dtype == np.bool_


def test_softmax_of_large_logits_is_finite():
    assert softmax(np.array([1000.0, 1000.0], np.float32)).tolist() == [0.5, 0.5]


def test_logits_are_probabilities_of_one_or_of_each_or_answered_as_they_are():
    logits = np.array([-1.5, 7.25], np.float32)
    assert probabilities(logits, "softmax").sum() == 1
    assert probabilities(logits, "sigmoid") == pytest.approx([1 / (1 + np.exp(1.5)), 1 / (1 + np.exp(-7.25))])
    assert probabilities(logits, "identity").tolist() == [-1.5, 7.25]


def test_a_label_whose_logit_is_answered_has_a_score_and_no_probability():
    manifest = manifest_of(task="text-classification", labels=("LABEL_0",), scores="identity")
    shown = Labels().shown(SimpleNamespace(manifest=manifest), ClassifyOptions(top_k=1))(np.array([7.25], np.float32))
    assert shown == {"labels": [{"label": "LABEL_0", "index": 0, "score": 7.25}]}
