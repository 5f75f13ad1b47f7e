"""Calls as other clients of Text Embeddings Inference send them; no package of theirs is needed to do so.

The bodies are those of LlamaIndex's TextEmbeddingsInference, Haystack's HuggingFaceAPITextEmbedder, Chroma's
HuggingFaceEmbeddingServer, Weaviate's text2vec-huggingface, and LangChain's HuggingFaceEndpointEmbeddings. A service is
what `hugging_face_calls` has.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Service(Protocol):
    """A running service and the names of its models."""

    url: str
    embeddings: str | None
    images: str | None
    classifier: str | None
    ranker: str | None
    sparse: str | None


TEXTS = ["A cat sits on the mat.", "Interest rates rose again."]


def post(service: Service, model: str, path: str, body: object) -> Any:  # a JSON document
    """Post a document beneath a model's `/tei`, and return the answer."""
    request = urllib.request.Request(
        f"{service.url}/v1/models/{model}/tei{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def refusal(service: Service, model: str, path: str, body: object) -> tuple[int, dict[str, str]]:
    """Post a document, and return the status and the document of a refusal."""
    try:
        post(service, model, path, body)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)
    raise AssertionError(f"{path} was answered")


def check_vectors(found: list[list[float]]) -> None:
    """Check vectors of two texts: of length one, and not alike."""
    vectors = np.array(found)
    assert len(vectors) == len(TEXTS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] < 0.9


def llama_index(service: Service) -> None:
    """TextEmbeddingsInference(base_url=...).get_text_embedding_batch([...]): POST /embed with truncate."""
    check_vectors(post(service, service.embeddings, "/embed", {"inputs": TEXTS, "truncate": True}))


def haystack(service: Service) -> None:
    """HuggingFaceAPITextEmbedder(api_params={"url": ...}).run(text): POST / with truncate, without normalize."""
    body = {"inputs": TEXTS[0], "truncate": True, "normalize": False}
    (vector,) = post(service, service.embeddings, "", body)
    (unit,) = post(service, service.embeddings, "/embed", {"inputs": TEXTS[0]})
    assert np.allclose(np.array(vector) / np.linalg.norm(vector), unit, atol=1e-6)


def chroma(service: Service) -> None:
    """HuggingFaceEmbeddingServer(url=".../embed")([...]): POST /embed of a list."""
    check_vectors(post(service, service.embeddings, "/embed", {"inputs": TEXTS}))


def weaviate(service: Service) -> None:
    """text2vec-huggingface with endpointURL: POST / with options."""
    options = {"wait_for_model": True, "use_gpu": False, "use_cache": True}
    check_vectors(post(service, service.embeddings, "", {"inputs": TEXTS, "options": options}))


def langchain(service: Service) -> None:
    """HuggingFaceEndpointEmbeddings(endpoint_url=..., model_kwargs={"truncate": True}).embed_documents([...])."""
    check_vectors(post(service, service.embeddings, "", {"inputs": TEXTS, "truncate": True}))


def tokens_of_the_text(service: Service) -> None:
    """POST /tokenize, then POST /decode of its ids."""
    (tokens,) = post(service, service.embeddings, "/tokenize", {"inputs": TEXTS[0]})
    assert all(TEXTS[0][one["start"] : one["stop"]] == one["text"] for one in tokens if not one["special"])
    (text,) = post(service, service.embeddings, "/decode", {"ids": [one["id"] for one in tokens]})
    assert text.replace(" ", "").lower() == TEXTS[0].replace(" ", "").lower()


def haystack_ranker(service: Service) -> None:
    """HuggingFaceTEIRanker(url=...).run(query, documents): POST /rerank; a model of embeddings refuses it."""
    body = {"query": TEXTS[0], "texts": TEXTS, "raw_scores": False, "truncation_direction": "Right"}
    if service.ranker is None:
        status, document = refusal(service, service.embeddings, "/rerank", body)
        assert (status, document["error_type"]) == (404, "validation")
        assert document["error"].startswith("rerank: this model's task is feature-extraction")
        return
    found = post(service, service.ranker, "/rerank", body)
    assert sorted(one["index"] for one in found) == [0, 1]
    assert 1 >= found[0]["score"] >= found[1]["score"] >= 0


def similarity(service: Service) -> None:
    """POST /similarity of a sentence and others."""
    inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS}
    same, other = post(service, service.embeddings, "/similarity", {"inputs": inputs})
    assert same > 0.9999
    assert other < 0.9


def sparse_vectors(service: Service) -> None:
    """POST /embed_sparse of texts, as LlamaIndex's and Qdrant's users do; a model of embeddings refuses it."""
    if service.sparse is None:
        status, document = refusal(service, service.embeddings, "/embed_sparse", {"inputs": TEXTS})
        assert status == 404
        assert document["error"].startswith("embed_sparse: Model is not an embedding model with SPLADE pooling")
        return
    found = post(service, service.sparse, "/embed_sparse", {"inputs": TEXTS, "truncate": True})
    assert len(found) == len(TEXTS)
    for words in found:
        assert [one["index"] for one in words] == sorted({one["index"] for one in words})
        assert all(one["value"] > 0 and one.keys() == {"index", "value"} for one in words)
    status, document = refusal(service, service.sparse, "/embed", {"inputs": TEXTS})
    assert (status, document["error"].partition(",")[0]) == (404, "embed: is not available for SPLADE models")


def prediction(service: Service) -> None:
    """POST /predict of a text, of a pair and of a batch; a model of embeddings refuses it."""
    if service.classifier is None:
        status, document = refusal(service, service.embeddings, "/predict", {"inputs": TEXTS[0]})
        assert (status, document["error_type"]) == (404, "validation")
        return
    one = post(service, service.classifier, "/predict", {"inputs": TEXTS[0]})
    assert [label["score"] for label in one] == sorted((label["score"] for label in one), reverse=True)
    pair = post(service, service.classifier, "/predict", {"inputs": TEXTS})
    assert post(service, service.classifier, "/predict", {"inputs": [TEXTS[:1], TEXTS]}) == [one, pair]


CALLS: list[Callable[[Service], None]] = [
    one for one in list(vars().values()) if getattr(one, "__annotations__", 0) == {"service": Service, "return": None}
]
"""All of the above that take a service and return nothing."""
