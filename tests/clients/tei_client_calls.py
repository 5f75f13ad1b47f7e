"""What the package tei-client asks of Text Embeddings Inference, each model being one."""

import asyncio
import math

from tei_client import HttpClient

QUERY, DATES = "the twenty-third of march 2021", ["2021-03-25", "2021-03-23", "1921-03-23"]
TEXTS = ["A cat sits on the mat.", "Interest rates rose again."]


def client(service, model):
    """Return a client of a model."""
    return HttpClient(f"{service.url}/v1/models/{model}/tei")


def health_and_info(service):
    """HttpClient(...).health(), .info(), .prompt_names()."""
    embeddings, ranker = (client(service, model) for model in (service.embeddings, service.ranker))
    assert embeddings.health()
    assert embeddings.info().server_model_metadata.pooling == "mean"
    assert ranker.info().server_model_type == "reranker"
    assert embeddings.prompt_names() == []


def embed(service):
    """HttpClient(...).embed([...]), and its coroutine: vectors of length one."""
    own = client(service, service.embeddings)
    found = own.embed(TEXTS)
    assert [len(one) for one in found] == [384, 384]
    assert all(abs(math.hypot(*one) - 1) < 1e-5 for one in found)
    (again,) = asyncio.run(own.async_embed(TEXTS[0]))
    assert max(abs(one - other) for one, other in zip(found[0], again, strict=True)) < 1e-5


def tokenize_and_decode(service):
    """HttpClient(...).tokenize(text) and .decode(ids)."""
    own = client(service, service.embeddings)
    (found,) = own.tokenize(TEXTS[0])
    assert [one.special for one in found.tokens] == [True, *[False] * (len(found.tokens) - 2), True]
    assert own.decode(found.get_ids())[0] == "a cat sits on the mat."


def rerank(service):
    """HttpClient(...).rerank(query, [...], return_text=True), and its coroutine."""
    own = client(service, service.ranker)
    found = own.rerank(QUERY, DATES, return_text=True).ranks
    assert (found[0].index, found[0].text) == (1, DATES[1])
    assert found[0].score > 0.9 > 0.5 > found[1].score
    logits = asyncio.run(own.async_rerank(QUERY, DATES, raw_scores=True)).ranks
    assert [one.index for one in logits] == [one.index for one in found]
    assert abs(1 / (1 + math.exp(-logits[0].score)) - found[0].score) < 1e-5
