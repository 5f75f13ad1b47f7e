"""A decoder that says yes or no of a query and a document, exported as a ranker and asked over HTTP."""

import json

import numpy as np
import pytest

from tests.samples import rankers
from tests.samples.exports import export, once
from tests.samples.in_process import in_process

pytestmark = pytest.mark.slow
READ = ("tests/samples/checkpoints.py", "tests/samples/rankers.py")


@pytest.fixture(scope="module")
def folder():
    return once("checkpoint-ranker", rankers.save, *READ)


@pytest.fixture(scope="module")
def client(folder):
    given = export(folder, "--name", "ranker", "--task", "text-classification", "--methods", "raw,rollout,libra")
    with in_process(once("artifacts-ranker", given, *READ)) as client:
        yield client


def asked(client, path, document):
    answer = client.post(path, json=document)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_scores_are_those_of_the_card_in_every_protocol(client, folder):
    for query, document in rankers.PAIRS:
        others = [document, *(text for _, text in rankers.PAIRS[:2])]
        wanted = rankers.by_the_card(folder, [(query, text) for text in others])
        own = asked(client, "/v1/models/ranker/rerank", {"query": query, "texts": others})["results"]
        given = {"model": "ranker", "query": query, "documents": others}
        jina = asked(client, "/v1/rerank", given)["results"]
        for found, name in ((own, "score"), (jina, "relevance_score")):
            scores = {one["index"]: one[name] for one in found}
            assert np.abs([scores[place] - one for place, one in enumerate(wanted)]).max() < 1e-5
    pair = {"text": query, "text_pair": document}
    (result,) = asked(client, "/v1/models/ranker/classify", {"inputs": pair})["results"]
    assert result["labels"][0] == {"label": "yes", "index": 0, "probability": pytest.approx(wanted[0], abs=1e-5)}


def test_a_score_is_shared_among_the_tokens_of_both_texts_and_of_the_form(client):
    query, document = rankers.PAIRS[0]
    given = {"query": query, "texts": [document], "attention": {"method": "libra"}, "raw_scores": True}
    (result,) = asked(client, "/v1/models/ranker/rerank", given)["results"]
    (shown,) = result["attention"]["maps"]
    assert np.sum(shown["values"]) == pytest.approx(result["score"], abs=1e-3)
    tokens = result["attention"]["tokens"]["source"]
    for number, text in enumerate((query, document)):
        own = [one["span"] for one in tokens if one.get("sequence") == number]
        assert {place for span in own for place in range(*span)} == set(range(len(text)))
    assert any(one["span"] is None for one in tokens)
    given["attention"] = {"method": "rollout"}
    (result,) = asked(client, "/v1/models/ranker/rerank", given)["results"]
    assert result["attention"]["maps"][0]["rows"] == [len(tokens) - 1]


def test_a_document_that_is_too_long_is_cut_off_read_in_windows_or_refused(client):
    given = {"query": "good cat?", "texts": ["the old cat sat. " * 60]}
    refused = client.post("/v1/models/ranker/rerank", json=given)
    assert (refused.status_code, "at most 320 tokens" in refused.text) == (422, True)
    for more in ({"truncate": True}, {"overflow": "window", "stride": 8}):
        (result,) = asked(client, "/v1/models/ranker/rerank", given | more)["results"]
        assert 0 <= result["score"] <= 1
    given = {"query": "the old cat sat. " * 60, "texts": ["good"], "truncate": True}
    refused = client.post("/v1/models/ranker/rerank", json=given)
    assert refused.status_code == 422
    assert json.loads(refused.text)["detail"].startswith("query: must leave room for a text in 320 tokens, takes ")
