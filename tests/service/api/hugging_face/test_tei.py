"""What clients of Text Embeddings Inference expect, with the numbers of our own endpoints."""

import types

import numpy as np
import pytest

from service import VERSION
from tests.clients.tei_calls import CALLS
from tests.samples.http_requests import JSON
from tests.samples.in_process import in_process
from tests.service.api.hugging_face.conftest import native

LONG = "good " * 100


def post(client, name, path, body, status=200):
    answer = client.post(f"/v1/models/{name}/tei{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def refusal(client, name, path, body, status=422, kind="validation"):
    """Return why a body is refused."""
    document = post(client, name, path, body, status)
    assert document.keys() == {"error", "error_type"}
    assert document["error_type"] == kind
    return document["error"]


def test_vectors_are_those_of_our_own_endpoint_brought_to_length_one(texts):
    inputs = ["good", "the old cat sat"]
    vectors = np.array([one["embedding"] for one in native(texts, "roberta-features", "embed", inputs=inputs)])
    lengths = np.linalg.norm(vectors, axis=1)[:, None]
    assert not np.allclose(lengths, 1, atol=0.1)
    np.testing.assert_array_equal(
        post(texts, "roberta-features", "/embed", {"inputs": inputs, "normalize": False}), vectors
    )
    for body in ({"inputs": inputs}, {"inputs": inputs, "normalize": True, "truncation_direction": "Right"}):
        found = post(texts, "roberta-features", "/embed", body)
        np.testing.assert_allclose(found, vectors / lengths, atol=1e-6)
        assert post(texts, "roberta-features", "", body) == found
    (one,) = post(texts, "roberta-features", "/embed", {"inputs": inputs[1]})
    np.testing.assert_allclose(one, (vectors / lengths)[1], atol=1e-6)


def test_the_address_may_end_in_a_slash(texts):
    found = [post(texts, "minilm", path, {"inputs": "a"}) for path in ("", "/", "/embed")]
    assert found[0] == found[1] == found[2]


def test_a_text_is_cut_off_where_that_is_asked_for(texts):
    (result,) = native(texts, "roberta-features", "embed", inputs=LONG, truncate=True)
    body = {"inputs": LONG, "normalize": False}
    assert post(texts, "roberta-features", "/embed", {**body, "truncate": True}) == [result["embedding"]]
    for not_cut in ({}, {"truncate": False}, {"truncate": None}):
        said = refusal(texts, "roberta-features", "/embed", body | not_cut)
        assert said.startswith("input: at most ")


def test_a_text_is_classified_with_all_labels_and_a_batch_has_a_list_each(texts):
    for name in ("bert", "roberta"):
        inputs = ["good", {"text": "the cat", "text_pair": "a bird"}]
        results = native(texts, name, "classify", inputs=inputs, top_k=1000)
        one, both = (
            [{"label": label["label"], "score": label["probability"]} for label in result["labels"]]
            for result in results
        )
        assert post(texts, name, "/predict", {"inputs": "good"}) == one
        assert post(texts, name, "", {"inputs": ["good"]}) == one
        assert post(texts, name, "/predict", {"inputs": ["the cat", "a bird"]}) == both
        assert post(texts, name, "/predict", {"inputs": [["good"], ["the cat", "a bird"]]}) == [one, both]


def test_raw_scores_are_the_logits(texts):
    logits = {one["label"]: one["score"] for one in post(texts, "bert", "", {"inputs": "good", "raw_scores": True})}
    found = {one["label"]: one["score"] for one in post(texts, "bert", "/predict", {"inputs": "good"})}
    total = sum(map(np.exp, logits.values()))
    assert found == pytest.approx({label: np.exp(logit) / total for label, logit in logits.items()})
    assert sum(logits.values()) != pytest.approx(1)


def test_texts_are_ranked_by_probabilities_or_logits(texts):
    body = {"query": "the cat", "texts": ["a bird sat", "the red house", "good"]}
    for name, raw in (("bert-rank", False), ("roberta-rank", True)):
        results = native(texts, name, "rerank", **body)
        wanted = [{"index": one["index"], "score": one["score"]} for one in results]
        assert post(texts, name, "/rerank", {**body, "raw_scores": raw}) == wanted
        with_texts = [{**one, "text": body["texts"][one["index"]]} for one in wanted]
        assert post(texts, name, "/rerank", {**body, "raw_scores": raw, "return_text": True}) == with_texts
    probabilities = post(texts, "roberta-rank", "/rerank", body)
    assert [one["score"] for one in probabilities] == pytest.approx([1 / (1 + np.exp(-one["score"])) for one in wanted])


def test_sentences_are_compared_with_one(texts):
    inputs = {"source_sentence": "a good cat", "sentences": ["the cat was good", "a blue house"]}
    results = native(texts, "minilm", "similarity", source=inputs["source_sentence"], inputs=inputs["sentences"])
    for more in ({}, {"parameters": {"truncate": True, "truncation_direction": "Right"}}):
        found = post(texts, "minilm", "/similarity", {"inputs": inputs, **more})
        assert found == pytest.approx([one["similarity"] for one in results], abs=1e-6)


def test_tokens_are_those_that_attention_is_shown_of(texts):
    text = "Ünï good  cat"
    (result,) = native(texts, "bert", "attention", inputs=text)
    (tokens,) = post(texts, "bert", "/tokenize", {"inputs": text})
    (axis,) = result["attention"]["tokens"].values()
    assert [one["special"] for one in tokens] == [one["special"] for one in axis]
    for one, shown in zip(tokens, axis, strict=True):
        span = shown["span"] or [None, None]
        assert [one["start"], one["stop"]] == span
        assert one["text"] == (text[slice(*span)] if shown["span"] else shown["text"])
    plain = [[one for one in tokens if not one["special"]]] * 2
    assert post(texts, "bert", "/tokenize", {"inputs": [text] * 2, "add_special_tokens": False}) == plain


def test_a_text_that_is_too_long_for_the_model_is_tokenized_so_that_it_can_be_split(texts):
    (tokens,) = post(texts, "bert", "/tokenize", {"inputs": LONG, "add_special_tokens": False})
    assert [LONG[one["start"] : one["stop"]] for one in tokens] == ["good"] * 100
    assert refusal(texts, "bert", "/tokenize", {"inputs": LONG * 9}, 413).startswith(
        "input: at most 40 tokens, given 4500"
    )


def test_an_answer_of_too_many_tokens_is_refused(families, tmp_path):
    (tmp_path / "bert").symlink_to(families("bert"))
    with in_process(tmp_path, max_answer_bytes=64 * 205) as client:
        assert len(post(client, "bert", "/tokenize", {"inputs": [LONG, LONG]})) == 2
        said = "tokens: at most 13120 bytes an answer, this one would have 19584; send fewer texts"
        assert refusal(client, "bert", "/tokenize", {"inputs": [LONG, LONG, LONG]}, 413) == said


def test_tokens_become_text(texts):
    rows = post(texts, "bert", "/tokenize", {"inputs": ["good cat", "a bird"]})
    ids = [[one["id"] for one in row] for row in rows]
    assert post(texts, "bert", "/decode", {"ids": ids}) == ["good cat", "a bird"]
    assert post(texts, "bert", "/decode", {"ids": ids[0], "skip_special_tokens": True}) == ["good cat"]


@pytest.mark.parametrize(
    ("name", "path", "body", "said"),
    [
        ("minilm", "/embed", {"inputs": [3]}, "inputs: must be texts; tokens of another tokenizer mean nothing here"),
        ("minilm", "/embed", {"inputs": [101, 102]}, "inputs: must be texts; "),
        ("minilm", "/embed", {"inputs": ["a", [101]]}, "inputs: must be texts; "),
        ("minilm", "/embed", {"inputs": []}, "inputs: must be 1 to 2048, given 0"),
        ("minilm", "/embed", {"inputs": ["a"] * 2049}, "inputs: must be 1 to 2048, given 2049"),
        ("minilm", "/embed", {"inputs": 3}, "inputs: must be a string or a list of strings"),
        ("minilm", "/embed", {}, "inputs: must be a string or a list of strings"),
        ("minilm", "/embed", {"inputs": {"text": "a", "text_pair": "b"}}, "text_pair: is for text-classification"),
        ("minilm", "/embed", {"inputs": "a", "dimensions": 385}, "dimensions: must be from 1 to 384, given 385"),
        (
            "minilm",
            "/embed",
            {"inputs": "a", "prompt_name": "query"},
            "prompt_name: this model has none by name, given another",
        ),
        ("minilm", "/embed", {"inputs": "a", "truncation_direction": "Left"}, "truncation_direction: must be right "),
        ("minilm", "/embed", {"inputs": "a", "normalize": "yes"}, "normalize: Input should be a valid boolean"),
        ("minilm", "/embed", {"inputs": "a", "speed": 9}, "parameters: this model's task is feature-extraction, "),
        ("minilm", "/embed", {"inputs": "a", "attention": "raw"}, "attention: is an option of attention, which /v1/"),
        ("minilm", "/embed", {"inputs": "a", "options": {"speed": 9}}, "options: known are dont_load_model, "),
        ("bert", "/predict", {"inputs": ["a", "b", "c"]}, "inputs: must be a string, a pair of strings, or a batch"),
        ("bert", "/predict", {"inputs": [["a"], "b"]}, "inputs: must be a string, a pair of strings, or a batch: "),
        ("bert", "/predict", {"inputs": [["a", 3]]}, "inputs: must be a string, a pair of strings, or a batch: "),
        ("bert", "/predict", {"inputs": []}, "inputs: must be a string, a pair of strings, or a batch: "),
        ("bert", "/predict", {"inputs": [["a"]] * 2049}, "inputs: must be 1 to 2048, given 2049"),
        ("bert", "/predict", {"inputs": "a", "top_k": 2}, "parameters: this model's task is text-classification, "),
        ("bert", "/predict", {"inputs": LONG}, "input: at most 40 tokens, given "),
        ("minilm", "/similarity", {"inputs": ["a", "b"]}, "inputs: must be an object of source_sentence, a string, "),
        ("minilm", "/similarity", {"inputs": {"source_sentence": 3, "sentences": []}}, "inputs: must be a string or "),
        ("bert-rank", "/rerank", {"query": "a"}, "texts: must be a list of strings"),
        ("bert-rank", "/rerank", {"texts": ["a"]}, "query: must be a string"),
        ("bert-rank", "/rerank", {"query": "a", "texts": ["b"] * 1001}, "texts: must be 1 to 1000, given 1001"),
        ("bert-rank", "/rerank", {"query": "a", "texts": [LONG]}, "input: at most 40 tokens, given "),
        (
            "bert-rank",
            "/rerank",
            {"query": "a", "texts": ["b"], "truncation_direction": "left"},
            "truncation_direction: ",
        ),
        ("bert-rank", "/rerank", {"query": "a", "texts": ["b"], "top_k": 1}, "parameters: this model's task is text-"),
        ("bert", "/tokenize", {"inputs": [["a"]]}, "inputs: must be a string or a list of strings"),
        ("bert", "/tokenize", {"inputs": {"text": "a", "text_pair": "b"}}, "inputs: must be a string or a list"),
        ("bert", "/tokenize", {"inputs": "a", "prompt_name": "query"}, "prompt_name: is not served; "),
        ("bert", "/decode", {"ids": "a"}, "ids: must be a list of tokens, or a list of such lists"),
        ("bert", "/decode", {"ids": [True]}, "ids: must be a list of tokens, or a list of such lists"),
        ("bert", "/decode", {"ids": [-1]}, "ids: must be a list of tokens, or a list of such lists"),
        ("bert", "/decode", {"ids": [1 << 40]}, "ids: must be a list of tokens, or a list of such lists"),
        ("bert", "/decode", {"ids": [1 << 30]}, "ids: each must be a token of the model's vocabulary, given another"),
        ("bert", "/decode", {"ids": [1], "skip_special_tokens": False}, "skip_special_tokens: must be true; "),
    ],
)
def test_what_cannot_be_answered_is_refused_with_the_reason(texts, name, path, body, said):
    assert refusal(texts, name, path, body).startswith(said)


@pytest.mark.parametrize(
    ("name", "path", "said"),
    [
        ("minilm", "/rerank", "rerank: this model's task is feature-extraction; it serves embed, similarity, "),
        ("bert", "/rerank", "rerank: this model's task is text-classification; it serves classify, attention"),
        ("bert", "/similarity", "similarity: is for feature-extraction, this model's task is text-classification"),
        ("minilm", "/embed_sparse", "embed_sparse: Model is not an embedding model with SPLADE pooling, this model's"),
        ("minilm", "/embed_all", "embed_all: is not served, "),
        ("minilm", "/predict", "predict: is for text-classification, this model's task is feature-extraction"),
        ("bert", "/embed", "embed: is for feature-extraction, this model's task is text-classification"),
        ("dates", "", "embed: is for feature-extraction, this model's task is text2text-generation"),
        ("digits", "/predict", "predict: takes texts, this model takes images; post them to /v1/models/digits"),
        ("digits", "/tokenize", "tokenize: takes texts, this model takes images; "),
        ("digits", "/decode", "decode: takes texts, this model takes images; "),
        ("none", "/embed", "model: must be one of "),
        ("none", "/rerank", "model: must be one of "),
        ("minilm", "/nothing", "path: no such endpoint"),
    ],
)
def test_what_no_model_serves_is_refused_with_what_the_model_is_for(texts, name, path, said):
    assert refusal(texts, name, path, {"inputs": "a"}, 404).startswith(said)


def test_faults_of_bodies_have_the_manner_of_the_protocol(texts):
    for content, headers, status in [(b"{", JSON, 400), (b"a", {}, 415), (b'{"inputs": 1, "inputs": 2}', JSON, 422)]:
        answer = texts.post("/v1/models/minilm/tei/embed", content=content, headers=headers)
        assert answer.status_code == status
        assert answer.json().keys() == {"error", "error_type"}
    assert texts.get("/v1/models/minilm/tei/embed").status_code == 405


def test_info_says_what_a_model_is_and_what_bounds_its_requests(texts):
    described = texts.get("/v1/models/minilm/tei/info").json()
    limits = texts.get("/v1/models/minilm").json()
    assert described["model_type"] == {"embedding": {"pooling": "mean"}}
    assert described["max_input_length"] == limits["inputs"]["max_tokens"]
    assert described["max_client_batch_size"] == limits["limits"]["inputs"]
    assert (described["model_id"], described["model_dtype"], described["version"]) == ("minilm", "float32", VERSION)
    assert texts.get("/v1/models/minilm/info").json() == described
    assert texts.get("/v1/models/roberta-features/tei/info").json()["model_type"]["embedding"]["pooling"] in (
        "cls",
        "mean",
    )
    (kind,) = texts.get("/v1/models/bert-rank/tei/info").json()["model_type"]
    assert kind == "reranker"
    kind = texts.get("/v1/models/bert/tei/info").json()["model_type"]["classifier"]
    labels = [one["label"] for one in post(texts, "bert", "/predict", {"inputs": "a"})]
    assert sorted(kind["id2label"].values()) == sorted(kind["label2id"]) == sorted(labels)
    assert all(kind["id2label"][str(index)] == label for label, index in kind["label2id"].items())
    assert "model_type" not in texts.get("/v1/models/digits/info").json()


def test_health_is_empty_and_known_for_every_model(texts):
    for path in ("/v1/models/minilm/tei/health", "/v1/models/digits/health"):
        answer = texts.get(path)
        assert (answer.status_code, answer.content) == (200, b"")
    for path in ("/v1/models/none/tei/health", "/v1/models/none/health"):
        answer = texts.get(path)
        assert answer.status_code == 404
        assert answer.json()["error_type"] == "validation"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize(("classifier", "ranker", "sparse"), [("bert", "bert-rank", "bert-sparse"), (None,) * 3])
def test_clients_get_what_they_ask_for(texts, call, classifier, ranker, sparse):
    models = {"embeddings": "minilm", "images": "digits", "classifier": classifier, "ranker": ranker, "sparse": sparse}
    call(types.SimpleNamespace(url=str(texts.base_url), **models))
