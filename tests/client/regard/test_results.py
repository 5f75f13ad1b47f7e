import copy
import dataclasses
import pickle

import numpy as np
import pytest
import regard
from regard import results
from regard.inputs import Encoded
from regard.results import Asked, read_result

from tests.client.conftest import described, detected

MAP = {"name": "l", "kind": "encoder", "layer": 0, "heads": "mean", "normalized": True, "shape": [1, 1, 1]}
ATTENTION = {"method": "raw", "tokens": {"source": []}, "maps": [{**MAP, "values": [[[1]]]}]}
LABELS = {"labels": [{"label": "a", "index": 0, "probability": 0.75}]}


def read(kind, json, client=None, **options):
    return read_result(kind, json, Asked(described(), Encoded(text="x"), options, "an-id", client))


def test_each_answer_has_its_own_fields():
    assert read(regard.Classification, LABELS).labels == [regard.Label("a", 0, 0.75)]
    vector = read(regard.Embedding, {"embedding": [0.5, 1]}).vector
    np.testing.assert_array_equal(vector, np.float32([0.5, 1]))
    assert vector.dtype == np.float32
    mask = {"token": 4, "text": "b", "probability": 0.5}
    assert read(regard.Filled, {"candidates": [[mask], []]}).candidates == [[regard.Candidate(4, "b", 0.5)], []]
    words = read(regard.SparseEmbedding, {"words": [{"token": 4, "text": "b", "weight": 0.5}]})
    assert words.words == [regard.Word(4, "b", 0.5)]
    assert results.described(words) == "m: 1 words: b 0.50"
    assert results.described(read(regard.SparseEmbedding, {"words": []})) == "m: no word"
    token = {"index": 0, "token": 4, "text": "b", "log_probability": -0.5}
    written = read(regard.Generation, {"text": "b", "tokens": [token], "finish_reason": "length"})
    assert (written.text, written.score, written.finish_reason) == ("b", None, "length")
    assert written.tokens == [regard.GeneratedToken(0, 4, "b", -0.5)]
    (found,) = read(regard.Detection, {"objects": [detected(3)]}).objects
    assert found == regard.Detected("cat", 2, 0.9, 3, regard.Box(3, 1, 5.5, 6))
    assert read(regard.Look, {}).json == {}


def test_a_model_that_ranks_answers_scores():
    (label,) = read(regard.Classification, {"labels": [{"label": "LABEL_0", "index": 0, "score": -3.25}]}).labels
    assert label.score == -3.25
    assert np.isnan(label.probability)
    found = read(regard.Classification, {"labels": [{"label": "LABEL_0", "index": 0, "score": -3.25}]})
    assert results.described(found) == "m: LABEL_0 -3.250"


@pytest.mark.parametrize(
    "kind",
    [
        regard.Classification,
        regard.Detection,
        regard.Embedding,
        regard.SparseEmbedding,
        regard.Filled,
        regard.Generation,
    ],
)
def test_an_answer_of_another_shape_is_an_error(kind):
    with pytest.raises((KeyError, TypeError, ValueError)):
        read(kind, {"else": 1})


def test_attention_that_came_with_an_answer_is_read_once():
    found = read(regard.Classification, {**LABELS, "attention": ATTENTION})
    assert found.attention.method == "raw"
    assert found.json == LABELS
    assert found.id == "an-id"
    assert "json" not in repr(found)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.labels = []


def test_what_an_answer_cannot_ask_says_who_can():
    found = read(regard.Classification, LABELS)
    with pytest.raises(regard.BadInput, match=r"await model.look\(result"):
        found.look()
    with pytest.raises(regard.BadInput, match=r"await model.image\(result"):
        found.image()


ANSWERS = {
    regard.Classification: LABELS,
    regard.Detection: {"objects": [detected(3)]},
    regard.Embedding: {"embedding": [0.5, 1]},
    regard.SparseEmbedding: {"words": [{"token": 4, "text": "b", "weight": 0.5}]},
    regard.Filled: {"candidates": [[{"token": 4, "text": "b", "probability": 0.5}]]},
    regard.Generation: {"text": "b", "tokens": [], "finish_reason": "length"},
    regard.Look: {},
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_can_be_pickled_and_copied_and_is_then_looked_at_by_its_model(kind):
    model = regard.Model(regard.Service("http://127.0.0.1:1")._transport, described())
    found = read(kind, {**ANSWERS[kind], "attention": ATTENTION}, model)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert (type(other), other.json, other.id) == (kind, found.json, "an-id")
        assert dataclasses.replace(other.asked, client=model) == found.asked
        np.testing.assert_array_equal(other.attention.maps[0].values, found.attention.maps[0].values)
        for ask, word in ((other.look, "look"), (other.image, "image")):
            with pytest.raises(
                regard.BadInput, match=rf"`model\.{word}\(result, ...\)` for an answer that was pickled"
            ):
                ask()
        with pytest.raises(regard.NoService):
            model.look(other, "raw")
    assert dataclasses.asdict(found)["json"] == found.json
    assert copy.copy(found).asked.client is model


class Service:
    """Notes what an answer asks, and answers attention without curves."""

    def __init__(self):
        self.asked = []

    def look(self, result, method, **options):
        self.asked.append((method, options))
        return regard.reading.read_attention(ATTENTION)


def test_shorter_ways_ask_for_what_they_need():
    service = Service()
    found = read(regard.Classification, LABELS, service)
    assert found.maps(layers="all")[0].values.shape == (1, 1, 1)
    with pytest.raises(regard.BadInput, match="curves: this service answered none"):
        found.curves("libra", target=3)
    with pytest.raises(regard.BadInput, match="heat: must be of an image"):
        found.heat("rollout", head=1, layers=[0])
    assert service.asked == [
        ("raw", {"layers": "all"}),
        ("libra", {"target": 3, "evaluate": ["deletion", "insertion"]}),
        ("rollout", {"layers": [0]}),
    ]


def test_vectors_are_compared_by_their_cosine():
    one, other = (read(regard.Embedding, {"embedding": vector}) for vector in ([3, 4], [4, 3]))
    assert one.similarity(other) == pytest.approx(24 / 25)
    assert one.similarity(np.array([-6, -8])) == pytest.approx(-1)
    assert repr(one) == "<embedding (2,) by m>"
    assert np.asarray(one, np.float64).tolist() == [3, 4]
    with pytest.raises(regard.BadInput, match=r"other: must be a vector of 2 numbers, given \(3,\)"):
        one.similarity(np.zeros(3))


def test_what_is_said_is_without_numbers_and_places():
    entity = {"label": "DAY", "probability": 0.5, "start": 0, "end": 1, "text": "4", "tokens": [0]}
    assert read(regard.Classification, LABELS).said == "a"
    assert read(regard.Detection, {"objects": [detected(3, "b"), detected(1, "a")]}).said == "a, b"
    assert read(regard.Tagged, {"entities": [entity]}).said == "4 DAY"
    assert read(regard.Generation, {"text": "b", "tokens": [], "finish_reason": "length"}).said == "b"
    found = {"text": "x", "start": 0, "end": 1, "score": 0.5}
    assert read(regard.Answered, {"answers": [found]}).said == "x"
