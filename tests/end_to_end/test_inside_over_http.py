"""One step inside attention: numbers that add up, of every kind of attention, and what is refused."""

import numpy as np
import pytest

from tests.samples.http_requests import PNG, SEVEN
from tests.samples.in_process import in_process

TEXT = "the 23rd of March 2021"


@pytest.fixture(scope="module")
def client(complete):
    with in_process(complete) as client:
        yield client


@pytest.fixture(scope="module")
def digit(client):
    return client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG).json()["id"]


@pytest.fixture(scope="module")
def date(client):
    return client.post("/v1/models/dates/generate", json={"inputs": TEXT}).json()["id"]


def look(client, earlier, **asked):
    answer = client.get(f"/v1/attention/{earlier}/inside", params={"digits": 9, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def raw(client, earlier, kind, layer, query):
    """The weights (head, key) of one row, and what the axes stand for, as attention is answered."""
    asked = {"kind": kind, "layers": layer, "queries": query, "heads": "all", "digits": 9}
    attention = client.get(f"/v1/attention/{earlier}", params=asked).json()["results"][0]["attention"]
    (one,) = attention["maps"]
    return np.array(one["values"])[:, 0], attention["tokens"]


def check(found, weights):
    """Hold the numbers of every head against one another, and against the weights of its row."""
    key, scale = found["key"]["position"], found["scale"]
    assert len(found["heads"]) == len(weights)
    for head, row in zip(found["heads"], weights, strict=True):
        scores = np.array([-np.inf if score is None else score for score in head["scores"]])
        shares = np.exp(scores - scores.max())
        assert shares / shares.sum() == pytest.approx(row, abs=1e-5)
        assert head["weight"] == pytest.approx(row[key], abs=1e-6)
        assert head["score"] == head["scores"][key]
        if head["score"] is not None:
            product = scale * np.dot(head["query"], head["key"])
            assert head["score"] == pytest.approx(product + head["bias"], abs=1e-5)
        assert scale == pytest.approx(len(head["query"]) ** -0.5)


@pytest.mark.parametrize("layer", [0, 2, -1])
def test_the_numbers_of_an_image_add_up(client, digit, layer):
    weights, _ = raw(client, digit, "encoder", layer, 8)
    every = [look(client, digit, layer=layer, query=8, key=key) for key in range(weights.shape[1])]
    check(every[3], weights)
    assert every[3]["layer"] == layer % 4
    assert (every[3]["query"], every[3]["key"]) == ({"position": 8}, {"position": 3})
    for head, own in enumerate(every[0]["heads"]):  # what every key gives makes up what the head returns
        parts = [one["heads"][head]["weight"] * np.array(one["heads"][head]["value"]) for one in every]
        assert np.sum(parts, axis=0) == pytest.approx(np.array(own["sum"]), abs=1e-5)
    assert len({tuple(one["heads"][0]["key"]) for one in every}) == len(every)
    assert every[0]["heads"][0]["query"] == every[5]["heads"][0]["query"]


@pytest.mark.parametrize(("kind", "query", "key"), [("encoder", 4, 9), ("decoder", 5, 2), ("cross", 3, 10)])
def test_the_numbers_of_a_generated_text_add_up(client, date, kind, query, key):
    for layer in (0, -1):
        weights, tokens = raw(client, date, kind, layer, query)
        found = look(client, date, kind=kind, layer=layer, query=query, key=key)
        check(found, weights)
        rows = {"encoder": "source"}.get(kind, "target")
        columns = {"decoder": "target_input"}.get(kind, "source")
        assert found["query"] == {"position": query, "text": tokens[rows][query]["text"]}
        assert found["key"] == {"position": key, "text": tokens[columns][key]["text"]}


def test_a_later_token_is_hidden_from_an_earlier_one(client, date):
    found = look(client, date, kind="decoder", query=2, key=3)
    for head in found["heads"]:
        assert (head["bias"], head["score"], head["weight"]) == (None, None, 0)
        assert [score is None for score in head["scores"]] == [False] * 3 + [True] * (len(head["scores"]) - 3)
    check(found, raw(client, date, "decoder", -1, 2)[0])


def test_one_input_of_several_is_looked_into_by_its_own_id(client):
    sent = client.post("/v1/models/dates/generate", json={"inputs": [TEXT, "3/4/1999"]}).json()
    refused = client.get(f"/v1/attention/{sent['id']}/inside", params={"kind": "encoder", "query": 0, "key": 0})
    assert (refused.status_code, refused.json()["detail"][:40]) == (422, "id: must be of one input, given that of ")
    found = look(client, sent["results"][1]["id"], kind="encoder", query=0, key=-1)
    assert found["id"] == sent["results"][1]["id"]
    assert found["key"] == {"position": 7, "text": "9"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"key": 0}, "query: Field required"),
        ({"query": 0}, "key: Field required"),
        ({"query": 50, "key": 0}, "query: must be from -50 to 49, given 50"),
        ({"query": 0, "key": -51}, "key: must be from -50 to 49, given -51"),
        ({"query": 0, "key": 0, "layer": 4}, "layer: must be from -4 to 3, given 4"),
        ({"query": 0, "key": 0, "kind": "cross"}, "kind: this model has encoder, given another"),
        ({"query": 0, "key": 0, "digits": 10}, "digits: Input should be less than or equal to 9, given 10"),
        ({"query": 0, "key": 0, "heads": "all"}, "options: unknown option; known are digits, key, kind, layer, prior"),
    ],
)
def test_what_is_not_there_is_refused(client, digit, asked, words):
    refused = client.get(f"/v1/attention/{digit}/inside", params=asked)
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
    assert refused.json()["detail"].startswith(words)


def test_an_unknown_id_and_one_of_another_model_are_not_found(client, digit):
    asked = {"query": 0, "key": 0}
    for path, model in (("never", {}), (digit, {"model": "dates"})):
        assert client.get(f"/v1/attention/{path}/inside", params=asked | model).status_code == 404
    assert client.get(f"/v1/attention/{digit}/inside", params=asked | {"model": "digits"}).status_code == 200


def test_an_artifact_without_the_graph_is_served_and_says_so(light):
    with in_process(light, max_answer_bytes=10_000) as client:
        sent = client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG).json()
        refused = client.get(f"/v1/attention/{sent['id']}/inside", params={"query": 0, "key": 0})
        assert refused.status_code == 422
        assert refused.json()["detail"].startswith("inside: this model's artifact has no graph of it; ")
        assert client.get("/v1/models/digits").json()["attention"]["kinds"]["encoder"]["inside"] is False


def test_an_answer_and_its_memory_are_limited(complete):
    with in_process(complete, max_answer_bytes=2000) as client:
        sent = client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG).json()
        assert client.get("/v1/models/digits").json()["attention"]["kinds"]["encoder"]["inside"] is True
        refused = client.get(f"/v1/attention/{sent['id']}/inside", params={"query": 0, "key": 0})
        assert (refused.status_code, refused.json()["detail"][:41]) == (
            413,
            "inside: at most 2000 bytes an answer, thi",
        )
    with in_process(complete, run_bytes=1) as client:
        sent = client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG).json()
        refused = client.get(f"/v1/attention/{sent['id']}/inside", params={"query": 0, "key": 0})
        assert (refused.status_code, refused.json()["detail"][:30]) == (413, "attention: at most 1 bytes of ")
