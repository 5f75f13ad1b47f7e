"""What Cohere's client asks to rank, and LangChain's, which is made of it."""

import asyncio

import cohere
from cohere.errors import UnprocessableEntityError
from langchain_cohere import CohereRerank
from langchain_core.documents import Document

QUERY, DATES = "the twenty-third of march 2021", ["2021-03-25", "2021-03-23", "1921-03-23"]


def client(service):
    """Return Cohere's client of a service without keys."""
    return cohere.ClientV2(api_key="none", base_url=service.url)


def rerank(service):
    """ClientV2(base_url=...).rerank(model=..., query=..., documents=[...]): best first."""
    found = client(service).rerank(model=service.ranker, query=QUERY, documents=DATES).results
    assert found[0].index == 1
    assert sorted(one.index for one in found) == [0, 1, 2]
    scores = [one.relevance_score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0.9 > 0.5 > scores[1] >= 0


def rerank_some(service):
    """ClientV2(base_url=...).rerank(..., top_n=1, max_tokens_per_doc=4): documents are cut off."""
    found = client(service).rerank(model=service.ranker, query=QUERY, documents=DATES, top_n=1, max_tokens_per_doc=4)
    assert len(found.results) == 1
    assert found.meta.billed_units.search_units == 1 if found.meta and found.meta.billed_units else True


def rerank_at_once(service):
    """AsyncClientV2(base_url=...).rerank(...)."""

    async def asked():
        client = cohere.AsyncClientV2(api_key="none", base_url=service.url)
        return await client.rerank(model=service.ranker, query=QUERY, documents=DATES)

    assert asyncio.run(asked()).results[0].index == 1


def refused(service):
    """ClientV2(base_url=...).rerank(model=...) of a model that ranks nothing: the client's own error."""
    try:
        client(service).rerank(model=service.images, query=QUERY, documents=DATES)
    except (cohere.core.ApiError, UnprocessableEntityError) as error:
        assert error.status_code in (404, 422)
        assert error.body["message"]
    else:
        raise AssertionError("it was answered")


def langchain(service):
    """LangChain: CohereRerank(base_url=..., model=...).compress_documents([...], query)."""
    ranker = CohereRerank(cohere_api_key="none", base_url=service.url, model=service.ranker, top_n=2)
    found = ranker.compress_documents([Document(date) for date in DATES], QUERY)
    assert found[0].page_content == DATES[1]
    assert len(found) == 2
    assert found[0].metadata["relevance_score"] > 0.9
