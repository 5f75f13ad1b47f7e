"""Answering an attention query: which predictions it needs first, and whose choice a target is."""

from types import SimpleNamespace

import numpy as np
import pytest

from service.batching.fair_queue import NOBODY
from service.inputs.model_input import ModelInput, Token
from service.repository.explaining.explain import Other, explain
from service.repository.models.predictor import Predictor
from tests.samples.attention_queries import LAYERS, TOKENS, embedder, query_of, vit

pytestmark = pytest.mark.anyio


def predictor(manifest, predictions):
    """A predictor without sessions: its graphs return random shares, and `predict` what is given for each input."""
    served = object.__new__(Predictor)
    served.artifact = SimpleNamespace(manifest=manifest)
    served.predicted, served.jobs = [], []
    random = np.random.default_rng(0)

    async def predict(item, caller):
        served.predicted.append(item)
        return np.array(predictions[id(item)])

    async def explain_scores(method, jobs, caller):
        served.jobs += jobs
        length = [next(iter(job.item.lengths.values())) for job in jobs]
        return [
            {
                "logits": np.array([3.0, 2.0, 1.0]),
                "embeddings": np.array([9.0, 9, 9, 9]),
                "encoder": random.normal(size=(LAYERS, count) if method == "libra" else count),
                "biases": np.zeros(LAYERS),
                "score": np.float32(1),
            }
            for count in length
        ]

    served.predict, served.explain_scores = predict, explain_scores
    return served


def picture():
    return ModelInput({"pixels": np.ones((4, 4, 1), np.uint8)}, {"image": TOKENS}, {})


def sentence(count, letter):
    tokens = [Token(index, letter, (index, index + 1)) for index in range(count)]
    arrays = {"source": np.arange(count)}
    return ModelInput(arrays, {"source": count}, {"source": np.zeros(count, bool)}, tokens)


async def test_libra_chooses_its_target_itself_and_brings_the_prediction():
    item = picture()
    served = predictor(vit(), {id(item): [0.0, 1, 2]})
    prediction, answer = await explain(served, item, query_of(method="libra"), "", NOBODY)
    assert (served.predicted, prediction.tolist()) == ([], [3, 2, 1])
    assert served.jobs[0].controls["explained"] == -1
    assert answer.maps[0].entry["target"] == {"index": 0, "label": "cat"}


async def test_the_target_of_a_path_is_the_prediction_that_comes_first():
    item = picture()
    served = predictor(vit(), {id(item): [0.0, 1, 2]})
    prediction, answer = await explain(served, item, query_of(method="integrated", steps=2), "", NOBODY)
    assert prediction.tolist() == [0, 1, 2]
    assert [int(job.controls["explained"]) for job in served.jobs] == [2] * 4
    assert answer.maps[0].entry["target"] == {"index": 2, "label": "3"}


@pytest.mark.parametrize(("asked", "chosen"), [({}, 2), ({"target": "cow"}, 1)])
async def test_eight_bit_answers_choose_the_target_that_the_graph_in_floats_explains(asked, chosen):
    item = picture()
    model = vit().model_copy(update={"precision": "int8", "explained": "fp32"})
    served = predictor(model, {id(item): [0.0, 1, 2]})
    prediction, answer = await explain(served, item, query_of(model, method="libra", **asked), "", NOBODY)
    assert prediction.tolist() == [0, 1, 2]
    assert [int(job.controls["explained"]) for job in served.jobs] == [chosen]
    assert answer.maps[0].entry["target"]["index"] == chosen
    assert answer.maps[0].entry["conserved"]["precision"] == "fp32"


@pytest.mark.parametrize("sides", ["own", "both"])
async def test_an_embedding_is_explained_by_that_of_the_other_and_the_other_by_it(sides):
    one, other = sentence(3, "a"), sentence(5, "b")
    vectors = {id(one): [1.0, 0, 0, 0], id(other): [0.0, 1, 0, 0]}
    served = predictor(embedder(), vectors)
    query = query_of(embedder(), method="libra", against={"text": "bbbbb"}, sides=sides)
    compared = Other(other, "bbbbb", np.float32(vectors[id(other)]), "text")
    prediction, answer = await explain(served, one, query, "aaa", NOBODY, compared)
    assert prediction.tolist() == [9, 9, 9, 9]
    assert served.jobs[0].item is one
    assert served.jobs[0].controls["other"].tolist() == vectors[id(other)]
    assert "target" not in answer.maps[0].entry
    shown = answer.json()
    assert served.predicted == []
    if sides == "own":
        assert (answer.opposite, len(served.jobs)) == (None, 1)
        assert shown["against"] == {"kind": "text"}
        return
    assert served.jobs[1].item is other
    assert served.jobs[1].controls["other"] is prediction
    assert shown["against"].pop("kind") == "text"
    assert [token["text"] for token in shown["against"]["tokens"]["source"]] == ["b"] * 5
    assert shown["against"]["maps"][0]["shape"] == [1, 1, 5]
    assert "against" not in shown["against"]
