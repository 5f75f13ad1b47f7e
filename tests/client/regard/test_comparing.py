"""Texts compared with a query or a source: what is sent, and how answers are read."""

import asyncio
import html
import json
import pickle

import numpy as np
import pytest
import regard
from regard import comparing
from regard.calls import Reply

from tests.client.conftest import described
from tests.samples.in_process import in_process

RANKER = described("text-classification", endpoints=["classify", "rerank", "attention"], inputs={"max_tokens": 9})
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
    assert repr(found) == "Ranked(attention=None, index=1, score=0.5, text='y', against=None)"
    assert found._repr_mimebundle_()["text/plain"] == "m: 0.500 y"


def test_the_text_that_others_are_explained_against_is_read_with_them():
    asked = {"method": "libra", "against": "z"}
    call = comparing.ranking(RANKER, "q", ["x", "y"], {"attention": asked})
    assert call.body["attention"] == {"encoding": "base64", "method": "libra", "against": {"text": "z"}}
    results = [{"id": "a.1", "index": 1, "score": 0.5}, {"id": "a.0", "index": 0, "score": 0.25}]
    reply = {"id": "a", "results": results, "against": {"score": 0.125}}
    first, second = call.read(Reply(200, json.dumps(reply).encode()))
    assert first.against is second.against
    assert (first.against.text, first.against.score, first.against.attention) == ("z", 0.125, None)
    assert repr(first).endswith("against=RankedAgainst(text='z', score=0.125, attention=None))")
    assert first.json == {**results[0], "text": "y", "against": {"text": "z", "score": 0.125}}
    assert first._repr_mimebundle_()["text/plain"] == "m: 0.500 y, against 0.125 z"
    again = pickle.loads(pickle.dumps(first))
    assert again.against.score == 0.125


QUERY, TEXTS = "the 3rd of march 2021", ["2021-03-03", "2021-05-03"]


def columns(look, sequence):
    """Return the places of the tokens of the first or second text of a pair."""
    return [place for place, token in enumerate(look.tokens["source"]) if token.sequence == sequence]


def test_a_text_is_explained_against_another_by_either_client(language_models):
    """The query's words by the difference of their values in both pairs, those of the passage by their own."""
    against = {"method": "libra", "against": {"text": TEXTS[1]}}
    with in_process(language_models) as client, regard.connect(str(client.base_url)) as service:
        (found,) = service["dates-rank"].rerank(QUERY, TEXTS[:1], attention=against)
        alone = service["dates-rank"].rerank(QUERY, TEXTS, attention="libra")

        async def asked():
            async with regard.AsyncService(str(client.base_url)) as service:
                return await (await service.model("dates-rank")).rerank(QUERY, TEXTS[:1], attention=against)

        (awaited,) = asyncio.run(asked())
        page = found._repr_mimebundle_()["text/html"]
    other = found.against
    assert (other.text, other.score) == (TEXTS[1], pytest.approx(alone[1].score, abs=1e-6))
    own, theirs, mixed = (one.maps[0].values[0, 0] for one in (alone[0].attention, alone[1].attention, found.attention))
    query = columns(found.attention, 0)
    passage = columns(found.attention, 1)
    assert len(query) > 5
    assert len(passage) > 5
    np.testing.assert_allclose(mixed[query], own[query] - theirs[query], atol=1e-6)
    np.testing.assert_allclose(mixed[passage], own[passage], atol=1e-6)
    np.testing.assert_allclose(other.attention.maps[0].values[0, 0], theirs, atol=1e-6)
    np.testing.assert_array_equal(awaited.attention.maps[0].values, found.attention.maps[0].values)
    assert awaited.against.score == other.score
    assert TEXTS[1] in html.unescape(page)


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
