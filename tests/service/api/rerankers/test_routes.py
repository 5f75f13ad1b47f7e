"""What clients of Jina's, Cohere's and vLLM's rerankers expect, with the numbers of our own endpoint."""

import numpy as np
import pytest

from service.api.rerankers.fields import DocumentsOptions, ScoreOptions
from tests.samples.documented import Documented
from tests.samples.in_process import in_process

QUERY, TEXTS = "the cat", ["a bird sat", "the red house", "good"]


@pytest.fixture(scope="module")
def client(families, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rerankers")
    for name in ("bert", "bert-rank", "roberta-rank"):
        (folder / name).symlink_to(families(name))
    with in_process(folder) as client:
        yield client


def post(client, path, body, status=200):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def native(client, model, **options):
    return post(client, f"/v1/models/{model}/rerank", {"query": QUERY, "texts": TEXTS, **options})["results"]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_documents_are_ranked_as_by_our_own_endpoint(client, path):
    wanted = [(one["index"], one["score"]) for one in native(client, "bert-rank")]
    body = {"model": "bert-rank", "query": QUERY, "documents": TEXTS}
    found = post(client, path, body)
    assert [(one["index"], one["relevance_score"]) for one in found["results"]] == wanted
    assert found["results"][0].keys() == {"index", "relevance_score"}
    assert found["meta"]["api_version"] == {"version": path[2]}
    tokens = found["usage"]["total_tokens"]
    assert tokens == found["usage"]["prompt_tokens"] == found["meta"]["tokens"]["input_tokens"] > len(TEXTS) * 5
    again = {**body, "documents": [{"text": TEXTS[0]}, *TEXTS[1:]], "top_n": 2, "return_documents": True, "priority": 9}
    assert post(client, path, {**again, "max_tokens_per_doc": None})["results"] == [
        {"index": index, "relevance_score": score, "document": {"text": TEXTS[index]}} for index, score in wanted[:2]
    ]
    index = wanted[0][0]
    (kept,) = client.get(f"/v1/attention/{found['id']}.{index}").json()["results"]
    text = "".join(one["text"] for one in kept["attention"]["tokens"]["source"] if one.get("sequence") == 1)
    assert text.replace("##", "") == TEXTS[index].replace(" ", "")


def test_scores_are_from_0_to_1_whatever_the_model_answers(client):
    logits = {one["index"]: one["score"] for one in native(client, "roberta-rank")}
    found = post(client, "/v1/rerank", {"model": "roberta-rank", "query": QUERY, "documents": TEXTS})["results"]
    assert min(logits.values()) < 0
    wanted = [1 / (1 + np.exp(-logits[one["index"]])) for one in found]
    assert [one["relevance_score"] for one in found] == pytest.approx(wanted)


def test_a_document_that_is_too_long_is_cut_off_as_these_services_do_or_earlier(client):
    long = {"model": "bert-rank", "query": QUERY, "documents": ["good " * 90]}
    assert post(client, "/v2/rerank", long)["usage"]["total_tokens"] == 40
    cut = post(client, "/v2/rerank", {**long, "max_tokens_per_doc": 4})
    whole = post(client, "/v2/rerank", {**long, "documents": ["good " * 4]})
    assert cut["results"] == whole["results"]
    assert cut["usage"] == whole["usage"]
    (kept,) = client.get(f"/v1/attention/{cut['id']}").json()["results"]
    assert [one.get("sequence") for one in kept["attention"]["tokens"]["source"]].count(1) == 4


@pytest.mark.parametrize("names", [("text_1", "text_2"), ("queries", "documents")])
def test_pairs_have_scores_in_order(client, names):
    wanted = {one["index"]: one["score"] for one in native(client, "roberta-rank")}
    in_order = [wanted[index] for index in range(3)]

    def scores(first, second, **more):
        found = post(client, "/score", {"model": "roberta-rank", names[0]: first, names[1]: second, **more})
        assert (found["object"], found["model"]) == ("list", "roberta-rank")
        assert found["usage"]["total_tokens"] == found["usage"]["prompt_tokens"] > 0
        assert [one["index"] for one in found["data"]] == list(range(len(found["data"])))
        assert {one["object"] for one in found["data"]} == {"score"}
        return [one["score"] for one in found["data"]]

    for first in (QUERY, [QUERY], [QUERY] * 3):
        assert scores(first, TEXTS) == pytest.approx(in_order, abs=1e-6)
    assert scores(QUERY, TEXTS[1]) == pytest.approx([in_order[1]], abs=1e-6)
    assert len(scores(QUERY, "good " * 90, truncate_prompt_tokens=-1)) == 1


def test_a_score_is_a_logit_where_that_is_asked_for(client):
    body = {"model": "bert-rank", "text_1": QUERY, "text_2": TEXTS[0]}
    (score,), (logit,) = (
        [one["score"] for one in post(client, "/score", {**body, "use_activation": how})["data"]]
        for how in (True, False)
    )
    assert score == pytest.approx(1 / (1 + np.exp(-logit)))


REFUSED = [
    ({"model": None}, 422, "model: must be the name of a model; "),
    ({"model": "none"}, 404, "model: must be one of "),
    ({"model": "bert"}, 404, "rerank: this model's task is text-classification; it serves classify, attention"),
    ({"query": 3}, 422, "query: must be a string"),
    ({"documents": "a"}, 422, "documents: must be a list of strings, or of objects of a text"),
    ({"documents": []}, 422, "documents: must be 1 to 1000, given 0"),
    ({"documents": ["a", 3]}, 422, "documents: must be a list of strings, or of objects of a text"),
    (
        {"documents": [{"text": "a", "title": "b"}]},
        422,
        "documents: must be a list of strings, or of objects of a text",
    ),
    ({"documents": [{"text": 3}]}, 422, "documents: must be a list of strings, or of objects of a text"),
    ({"top_n": 0}, 422, "top_n: Input should be greater"),
    ({"max_tokens_per_doc": 0}, 422, "max_tokens_per_doc: Input should be greater"),
    ({"priority": "batch"}, 422, "priority: Input should be a valid integer"),
    ({"rank_fields": ["a"]}, 422, "options: unknown option; known are documents, max_tokens_per_doc, model, "),
    ({"query": "good " * 90}, 422, "query: must leave room for a text in 40 tokens, takes "),
]


@pytest.mark.parametrize(("change", "status", "said"), REFUSED)
def test_what_cannot_be_ranked_is_refused_as_clients_read_it(client, change, status, said):
    body = {"model": "bert-rank", "query": QUERY, "documents": TEXTS[:1], **change}
    found = post(client, "/v2/rerank", body, status)
    assert found.keys() == {"message", "detail"}
    assert found["message"] == found["detail"]
    assert found["message"].startswith(said)


@pytest.mark.parametrize(
    ("change", "status", "parameter", "said"),
    [
        ({"model": "bert"}, 404, "model", "model: this model's task is text-classification; it serves classify, "),
        ({"text_1": [QUERY] * 2}, 400, None, "text_1: must be one text or 3, as text_2, given 2"),
        ({"text_2": []}, 400, None, "text_2: must be a string or a list of strings"),
        ({"text_2": ["a"] * 1001}, 400, None, "text_2: must be 1 to 1000, given 1001"),
        ({"text_1": "good " * 90, "truncate_prompt_tokens": -1}, 400, None, "text_1: must leave room for a text in "),
        ({"truncate_prompt_tokens": 5}, 400, "truncate_prompt_tokens", "truncate_prompt_tokens: Input should be -1"),
        ({"queries": "a"}, 400, None, "options: unknown option"),
    ],
)
def test_pairs_that_cannot_be_scored_are_refused_in_openais_form(client, change, status, parameter, said):
    found = post(client, "/score", {"model": "bert-rank", "text_1": QUERY, "text_2": TEXTS, **change}, status)["error"]
    assert found["message"].startswith(said)
    assert found["param"] == parameter


def test_faults_of_bodies_have_the_manner_of_the_protocol(client):
    for path in ("/v1/rerank", "/v2/rerank"):
        answer = client.post(path, content=b"{", headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json().keys()) == (400, {"message", "detail"})
        assert client.get(path).status_code == 405
    assert client.post("/score", content=b"a").json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "options", "forms"),
    [
        ("/v1/rerank", DocumentsOptions, [{"query", "documents"}]),
        ("/v2/rerank", DocumentsOptions, [{"query", "documents"}]),
        ("/score", ScoreOptions, [{"text_1", "text_2"}, {"queries", "documents"}]),
    ],
)
def test_openapi_describes_what_is_posted(client, path, options, forms):
    documented = Documented(client)
    operation = documented.operation("POST", path)
    assert operation["tags"] == ["Rerankers"]
    described = operation["requestBody"]["content"]["application/json"]["schema"]
    schemas = [documented.resolved(one) for one in described.get("anyOf", [described])]
    for schema, texts in zip(schemas, forms, strict=True):
        assert schema["properties"].keys() == {"model", *texts, *options.model_fields}
        assert set(schema["required"]) == {"model", *texts}
        assert schema["additionalProperties"] is False
