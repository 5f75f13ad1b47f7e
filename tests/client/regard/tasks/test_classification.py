"""Labels of a request: what is sent, and how answers are read and looked at again."""

import json

import numpy as np
import pytest
import regard
from regard.calls import Reply, batches, predictions
from regard.inputs import encode
from regard.results import described as words
from regard.tasks.classification import CLASSIFY

from tests.client.conftest import described
from tests.samples.in_process import in_process

MODEL = described("text-classification", inputs={"max_tokens": 8})
ANSWER = {
    "id": "a",
    "results": [
        {"id": "a.1", "labels": [{"label": "y", "index": 1, "probability": 0.75}], "hypothesis": "It is y."},
        {"id": "a.2", "labels": [{"label": "x", "index": 0, "probability": 1.0}], "hypothesis": "It is x."},
    ],
}


def test_a_result_is_of_the_pair_of_a_text_and_the_sentence_of_a_label():
    asked = {"labels": ["x", "y"], "template": "It is {}."}
    call = predictions(CLASSIFY, MODEL, [encode(text, "text") for text in ("s", "t")], asked)
    assert call.body == {"inputs": ["s", "t"], **asked}
    first, second = call.read(Reply(200, json.dumps(ANSWER).encode()))
    assert (first.id, first.hypothesis, first.asked.given.text) == ("a.1", "It is y.", ("s", "It is y."))
    assert (second.id, second.asked.given.text) == ("a.2", ("t", "It is x."))
    assert not first.asked.is_repeatable
    assert words(first) == "m: y 75.0%"


def test_a_request_of_many_labels_has_fewer_texts():
    texts = list("abcdefg")
    one, two = ([len(some) for _, some in batches(MODEL, texts, each)] for each in (1, MODEL.max_inputs))
    assert max(one) == MODEL.max_inputs
    assert set(two) == {1}


def test_labels_are_chosen_and_looked_at_again(families, tmp_path):
    (tmp_path / "bert-nli").symlink_to(families("bert-nli"))
    with in_process(tmp_path) as client, regard.connect(str(client.base_url)) as service:
        model = service["bert-nli"]
        one, two = model.classify_batch(["the old cat", "a dog"], labels=["red", "a cat"], attention="libra")
        alone = model.classify("the old cat", labels=["red", "a cat"], attention="libra")
        assert [one.labels, one.hypothesis] == [alone.labels, alone.hypothesis]
        assert sum(label.probability for label in two.labels) == pytest.approx(1)
        again = one.look("libra")
        np.testing.assert_allclose(again.maps[0].values, one.attention.maps[0].values, atol=1e-6)
        assert again.json["maps"][0]["target"]["label"] == "ENTAILMENT"
        with pytest.raises(regard.Refused, match="target: must be one of the labels of this request"):
            model.classify("a", labels=["x"], attention={"method": "libra", "target": "y"})
