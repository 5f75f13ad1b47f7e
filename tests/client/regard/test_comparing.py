"""Texts compared with a query or a source: what is sent, and how answers are read."""

import json

import numpy as np
import pytest
import regard
from regard import comparing
from regard.calls import Reply

from tests.client.conftest import described
from tests.samples.in_process import in_process

RANKER = described("text-classification", endpoints=["classify", "rerank", "attention"])
EMBEDDER = described("feature-extraction", endpoints=["embed", "similarity", "attention"])


def replied(call, results):
    return call.read(Reply(200, json.dumps({"id": "a", "results": results}).encode()))


def test_a_ranking_is_asked_for_and_read_with_the_texts_that_were_sent():
    call = comparing.ranking(RANKER, "q", ("x", "y"), {"top_k": 1, "truncate": True, "attention": "libra"})
    assert (call.method, call.path) == ("POST", "/v1/models/m/rerank")
    attention = {"encoding": "base64", "method": "libra"}
    assert call.body == {"query": "q", "texts": ["x", "y"], "top_k": 1, "truncate": True, "attention": attention}
    (found,) = replied(call, [{"id": "a.1", "index": 1, "score": 0.5}])
    assert (found.index, found.score, found.text, found.id) == (1, 0.5, "y", "a.1")
    assert found.asked.given.text == ("q", "y")
    assert found.asked.options == {"truncate": True}
    windows = {"overflow": "window", "stride": 9}
    call = comparing.ranking(RANKER, "q", ["x"], {**windows, "top_k": 1})
    assert call.body == {"query": "q", "texts": ["x"], "top_k": 1, **windows}
    assert replied(call, [{"id": "a", "index": 0, "score": 0.5}])[0].asked.options == windows
    assert repr(found) == "Ranked(attention=None, index=1, score=0.5, text='y')"
    assert found._repr_mimebundle_()["text/plain"] == "m: 0.500 y"


def test_a_likeness_to_one_source_is_a_number_and_to_several_an_array():
    call = comparing.similarity(EMBEDDER, "s", ["x"], {})
    assert call.path == "/v1/models/m/similarity"
    assert call.body == {"source": "s", "inputs": ["x"]}
    (found,) = replied(call, [{"id": "a.0", "similarity": 0.5}])
    assert (found.similarity, found.id) == (0.5, "a.0")
    assert found._repr_mimebundle_()["text/plain"] == "m: 0.5"
    call = comparing.similarity(EMBEDDER, ("s", "t"), ["x"], {})
    assert call.body["source"] == ["s", "t"]
    (found,) = replied(call, [{"id": "a.0", "similarity": [0.5, 1]}])
    np.testing.assert_array_equal(found.similarity, [0.5, 1])


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: comparing.ranking(RANKER, "q", "x", {}), "texts: must be a list of strings, given one"),
        (lambda: comparing.ranking(RANKER, 3, ["x"], {}), "text: must be a string or a pair of strings"),
        (lambda: comparing.ranking(RANKER, "q", ["x", 3], {}), "text: must be a string or a pair of strings"),
        (lambda: comparing.similarity(EMBEDDER, "s", "x", {}), "inputs: must be a list of strings, given one"),
        (lambda: comparing.similarity(EMBEDDER, [3], ["x"], {}), "text: must be a string or a pair of strings"),
        (lambda: comparing.similarity(EMBEDDER, "s", ["\ud800"], {}), "text: must be Unicode"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is(ask, said):
    with pytest.raises(regard.BadInput, match=f"^{said}"):
        ask()


def test_a_likeness_is_answered_and_looked_at_again(minilm):
    with in_process(minilm) as client, regard.connect(str(client.base_url)) as service:
        model = service["minilm"]
        found = model.similarity("a hammer", ["the hammer", "it rains"], attention="libra")
        assert found[0].similarity > found[1].similarity
        again = found[0].look("libra", against={"text": "a hammer"})
        np.testing.assert_allclose(again.maps[0].values, found[0].attention.maps[0].values, atol=1e-6)
        with pytest.raises(regard.NotFound, match="it serves embed, similarity, attention"):
            model.rerank("a", ["b"])
