"""How alike pictures and texts are: the cosines of the vectors of two models that are compared."""

from collections.abc import Sequence

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from service.answering.call import Answered, Call, narrowed
from service.answering.earlier import id_of_input
from service.answering.predictions import Then, predict
from service.answering.vectors import vectors_of_files, vectors_of_texts
from service.api import responses
from service.api.reading.call import attention_query, call_of
from service.api.reading.request_parsing import ParsedRequest, check_count, read_document, read_either
from service.api.tasks.explained import as_options, rules_of, with_attention
from service.arrays import Array
from service.errors import Unacceptable
from service.explanations.answer import AttentionAnswer
from service.inputs.encoded_files import IMAGE, decode_files
from service.options.base import RequestOptions
from service.repository.models.known_vectors import unit
from service.repository.models.predictor import Embedder, Predictor
from service.repository.models.served_model import Prediction
from service.state import State

MOST_SOURCES = 32
"""The columns of a matrix, which has a row for each input."""


async def ask(request: Request, state: State, served: Predictor) -> Response:
    """Compare pictures, or texts, with a source, or with several: texts, or `{"image": base64}`."""
    document = await read_document(request, state.settings.max_body_bytes, state.settings)
    given = document.pop("source", None)
    parsed = await read_either(IMAGE, document, state.settings)
    sources = given if isinstance(given, list) else [given]
    check_count("source", len(sources), MOST_SOURCES)
    options = parsed.options(RequestOptions)
    asked = dict(parsed.given)
    if asked.get("attention") is not None:
        if len(sources) > 1:
            raise Unacceptable(f"attention: explains the likeness to one source, given {len(sources)}")
        asked["attention"] = _against(asked["attention"], sources[0], served)
    own = narrowed(served.taking(parsed.inputs), Predictor)
    call = call_of(request, state, own, ParsedRequest(parsed.inputs, {}))
    query = attention_query(request, own, ParsedRequest(parsed.inputs, asked), required=False)
    vectors = await _vectors(call, sources, options)
    places = range(len(parsed.inputs))

    async def respond(answered: Answered[Prediction]) -> Response | Then:
        cosines = np.array([vectors @ unit(one) for one in answered.shown])

        def write(attention: Sequence[AttentionAnswer | None]) -> Response:
            results = [
                responses.result(
                    {
                        "id": id_of_input(answered.id, place, len(places)),
                        "similarity": row if isinstance(given, list) else row[0],
                    },
                    one,
                )
                for place, row, one in zip(places, cosines.tolist(), attention, strict=True)
            ]
            return responses.respond(responses.answer(answered.id, own, results))

        return await with_attention(call, options, query, answered, places, write)

    return await predict(call, options, lambda vector: vector, respond)


async def _vectors(call: Call[Predictor], sources: Sequence[object], options: RequestOptions) -> Array:
    """Return the vectors of sources (source, width), of length one. Raises Unacceptable for sources of two sorts."""
    state, served, caller = call.state, call.served, call.caller(options)
    texts = [one for one in sources if isinstance(one, str)]
    if len(texts) == len(sources):
        return await vectors_of_texts(state, narrowed(served.taking(texts), Embedder), texts, caller, "source")
    encoded = [one["image"] for one in sources if isinstance(one, dict) and one.keys() == {"image"}]
    if len(encoded) < len(sources) or not all(isinstance(one, str) for one in encoded):
        raise Unacceptable('source: must be a text or {"image": base64}, or a list of one sort of these')
    files = await decode_files(IMAGE, "source: each", encoded, state.settings)
    return await vectors_of_files(state, narrowed(served.taking(files), Predictor), files, caller)


def _against(asked: object, source: object, served: Predictor) -> object:
    """Return options of attention with the source as what inputs are explained against, where that is not given."""
    options = as_options(asked)
    if options is None or options.get("against") is not None:
        return asked
    rules = rules_of(options, served.manifest)
    compares = rules and (rules.by_gradient or options.get("evaluate"))
    return {**options, "against": source if isinstance(source, dict) else {"text": source}} if compares else asked
