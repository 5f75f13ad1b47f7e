"""How alike texts are: the cosines of their embeddings."""

from collections.abc import Sequence

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from contract.manifest import Manifest
from service.answering.call import Answered, Call
from service.answering.earlier import id_of_input
from service.answering.predictions import Then, predict
from service.api import responses
from service.api.reading.call import attention_query
from service.api.reading.request_parsing import ParsedRequest, check_count, read_document
from service.api.tasks import contrast_similarity
from service.api.tasks.explained import as_options, rules_of, with_attention
from service.api.tasks.task import Endpoint
from service.arrays import Array
from service.errors import Unacceptable
from service.explanations.answer import AttentionAnswer
from service.http.exchange import exchange_of
from service.options.predictions import PromptOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction
from service.state import State

MOST_SOURCES = 32
"""The columns of a matrix, which has a row for each text."""


class Similarity(Endpoint[Predictor]):
    """The cosine of each text's embedding with that of a source, or with those of several."""

    endpoint = "similarity"
    model = Predictor
    about = "Return how alike each text is to a source: the cosine of their embeddings."

    async def ask(self, request: Request, state: State, served: Predictor) -> Response:
        """Read sources and texts, and compare them. The sources are predicted behind the texts.

        Of two models that are compared, either may be asked, and sources and inputs may be pictures too.
        """
        if served.partner:
            return await contrast_similarity.ask(request, state, served)
        document = await read_document(request, state.settings.max_text_bytes, state.settings)
        given = document.pop("source", None)
        sources = _texts("source", given, MOST_SOURCES)
        inputs = _texts("inputs", document.pop("inputs", None), state.settings.max_inputs)
        if document.get("attention") is not None:
            if len(sources) > 1:
                raise Unacceptable(f"attention: explains the likeness to one source, given {len(sources)}")
            document["attention"] = _against(document["attention"], sources[0], served.manifest)
        parsed = ParsedRequest([*inputs, *sources], document)
        options = parsed.options(PromptOptions)
        query = attention_query(request, served, parsed, required=False)
        call = Call(state, exchange_of(request.scope), served, parsed.inputs, ranked=len(inputs))
        places = range(len(inputs))

        async def respond(answered: Answered[Prediction]) -> Response | Then:
            units = _units(answered.shown)
            cosines = units[: len(inputs)] @ units[len(inputs) :].T

            def write(attention: Sequence[AttentionAnswer | None]) -> Response:
                results = [
                    responses.result(
                        {
                            "id": id_of_input(answered.id, place, len(parsed.inputs)),
                            "similarity": row if isinstance(given, list) else row[0],
                        },
                        one,
                    )
                    for place, row, one in zip(places, cosines.tolist(), attention, strict=True)
                ]
                return responses.respond(responses.answer(answered.id, served, results))

            return await with_attention(call, options, query, answered, places, write)

        return await predict(call, options, lambda vector: vector[: options.dimensions], respond)


def _texts(subject: str, given: object, most: int) -> list[str]:
    texts = given if isinstance(given, list) else [given]
    check_count(subject, len(texts), most)
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) < len(texts):
        raise Unacceptable(f"{subject}: must be a string or a list of strings")
    return strings


def _against(asked: object, source: str, manifest: Manifest) -> object:
    """Return options of attention with the source as what texts are explained against, where that is not given.

    Methods of weights alone explain no likeness.
    """
    options = as_options(asked)
    if options is None or options.get("against") is not None:
        return asked
    rules = rules_of(options, manifest)
    compares = rules and (not rules.of_weights or options.get("evaluate"))
    return {**options, "against": {"text": source}} if compares else asked


def _units(vectors: Sequence[Prediction]) -> Array:
    """Return vectors (text, width) in float64, each divided by its length; zeros as they are."""
    exact = np.array(vectors, np.float64)
    units: Array = exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)
    return units
