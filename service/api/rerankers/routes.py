"""`/v1/rerank` and `/v2/rerank` as Jina and Cohere have them, and `/score` as vLLM has it."""

from collections.abc import Mapping, Sequence

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from contract.manifest import Scores
from service.answering.call import Answered, Call, find_ready
from service.api import responses
from service.api.openai.errors import Errors
from service.api.reading.request_parsing import read_document
from service.api.rerankers.fields import ScoreOptions, model_of, of_documents, of_scores
from service.api.tasks.ranking import Ranked, Write, rank
from service.http.answer_deadline import answer_in_time
from service.http.exchange import exchange_of
from service.http.problems import ErrorForm
from service.inputs.model_input import Pair
from service.options.predictions import RerankOptions
from service.repository.models.predictor import Predictor
from service.state import State, StateDep

router = APIRouter(tags=["Rerankers"])


def error(
    status: int, detail: str, errors: Sequence[Mapping[str, str]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as an answer: clients of Cohere read its `message`, those of Jina its `detail`."""
    body = {"message": detail, "detail": detail}
    return Response(orjson.dumps(body), int(status), dict(headers or {}), "application/json")


ERROR_FORMS: dict[str, ErrorForm] = {
    "/v1/rerank": error,
    "/v2/rerank": error,
    "/score": Errors(ScoreOptions, {"rerank": "model", "query": "text_1"}),
}
"""How errors are written, by path."""


@router.post("/v1/rerank", operation_id="jina_rerank")
@router.post("/v2/rerank", operation_id="cohere_rerank")
async def rerank(request: Request, state: StateDep) -> Response:
    """Return the documents that answer a query, best first, each with a score from 0 to 1."""
    return await answer_in_time(request, _rerank(request, state), state.settings.request_seconds)


@router.post("/score", operation_id="vllm_score")
async def score(request: Request, state: StateDep) -> Response:
    """Return a score for each pair of texts, in order."""
    return await answer_in_time(request, _score(request, state), state.settings.request_seconds)


async def _rerank(request: Request, state: State) -> Response:
    document = await read_document(request, state.settings.max_text_bytes, state.settings)
    served = _find(request, state, document)
    pairs, options = of_documents(document, state.settings)
    version = request.scope["path"].split("/")[1].removeprefix("v")

    def write(answered: Answered[float], best: Sequence[Ranked]) -> Response:
        texts: list[dict[str, object]] = [
            {"document": {"text": one.text}} if options.return_documents else {} for one in best
        ]
        results = [
            {"index": one.index, "relevance_score": one.score, **text} for one, text in zip(best, texts, strict=True)
        ]
        tokens = answered.cost
        return responses.respond(
            {
                "id": answered.id,
                "model": served.manifest.name,
                "results": results,
                "meta": {"api_version": {"version": version}, "tokens": {"input_tokens": tokens}},
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    return await _ranked(request, state, served, pairs, options.asked, "sigmoid", write)


async def _score(request: Request, state: State) -> Response:
    document = await read_document(request, state.settings.max_text_bytes, state.settings)
    served = _find(request, state, document)
    pairs, options = of_scores(document, state.settings)
    scores = served.manifest.scores if options.use_activation else "identity"

    def write(answered: Answered[float], best: Sequence[Ranked]) -> Response:
        tokens = answered.cost
        in_order = sorted(best, key=lambda one: one.index)
        return responses.respond(
            {
                "id": answered.id,
                "object": "list",
                "model": served.manifest.name,
                "data": [{"index": one.index, "object": "score", "score": one.score} for one in in_order],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    return await _ranked(request, state, served, pairs, options.asked, scores, write)


def _find(request: Request, state: State, document: dict[str, object]) -> Predictor:
    """Return the model that a document names. Raises Unacceptable, NotFound and NotReady."""
    served = find_ready(state, model_of(document), "rerank", Predictor)
    exchange_of(request.scope).model = served.manifest.name
    return served


async def _ranked(
    request: Request,
    state: State,
    served: Predictor,
    pairs: Sequence[Pair],
    options: RerankOptions,
    scores: Scores,
    write: Write,
) -> Response:
    with served.uses.used():
        return await rank(Call(state, exchange_of(request.scope), served, pairs), options, scores, write)
