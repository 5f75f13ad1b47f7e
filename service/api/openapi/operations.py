"""What each of our own endpoints takes and answers, as OpenAPI describes it."""

from pydantic import BaseModel

from contract.manifest import PICTURE_TYPES
from service.api.openapi.answers import (
    Attended,
    Classified,
    DetectedObjects,
    Embedded,
    Filled,
    Generated,
    Problem,
    StreamedToken,
    StreamFailed,
)
from service.api.openapi.components import COMPONENTS, Json, any_of, in_json, refusals
from service.api.openapi.models import Example, Live, Model, Models, Ready, Reload
from service.api.openapi.requests import (
    BINARY,
    AttendImages,
    AttendTexts,
    ClassifyImages,
    ClassifyTexts,
    DetectImages,
    EmbedImages,
    EmbedTexts,
    FillMasks,
    GenerateFromImages,
    GenerateFromTexts,
    form,
    images_or,
    parameter,
    query,
    threshold,
)
from service.api.reading.request_parsing import MEDIA_TYPES
from service.options.attention import AttentionOptions
from service.options.base import RequestOptions
from service.options.generation import GenerateOptions
from service.options.predictions import ClassifyOptions, DetectOptions

PROBLEM = "application/problem+json"
_REFUSALS = refusals(
    Problem,
    {
        400: "the body cannot be read",
        404: "no such model, example or id, or the model's task does not serve this endpoint",
        406: "an answer of a type that is not made",
        409: "not while something else goes on",
        413: "larger than a limit",
        415: "a content type that is not read, or no image",
        422: "not to be answered; errors lists why",
        429: "the queue is full; see Retry-After",
        503: "warming up, failing or stopping; see Retry-After",
        504: "the deadline passed",
    },
    PROBLEM,
)
_ONE_PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQAAAAA3bvkkAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="


def _answered(description: str, kind: type[BaseModel], *statuses: int) -> dict[int | str, Json]:
    """Return the description of an answer in JSON, and of refusals."""
    answer: dict[int | str, Json] = {200: {"description": description, "content": in_json(kind)}}
    return answer | {status: _REFUSALS[status] for status in statuses}


def _prediction(answer: type[BaseModel], content: Json, parameters: list[Json]) -> Json:
    refused = [int(status) for status in _REFUSALS if status != 409]
    return {
        "responses": _answered("one result per input, in order", answer, *refused),
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
    }


_EXAMPLE = _answered("the picture, or the texts", Example, 401, 403, 404)
_EXAMPLE[200]["content"] |= {one: {"schema": BINARY} for one in PICTURE_TYPES.values()}
_GENERATE = _prediction(
    Generated,
    images_or(any_of(GenerateFromImages, GenerateFromTexts), form("GenerateForm", GenerateOptions)),
    query(RequestOptions, GenerateOptions, AttentionOptions),
)
_GENERATE["requestBody"]["content"]["application/json"]["examples"] = {
    "a text": {"value": {"inputs": "the 23rd of March 2021", "num_beams": 4}},
    "an image": {"value": {"images": [_ONE_PIXEL_PNG], "attention": {"kind": "cross"}}},
}
_GENERATE["responses"][200]["content"]["text/event-stream"] = {
    "schema": {**any_of(StreamedToken, Generated, StreamFailed), "description": "the data of events token, done, error"}
}
_ATTENTION = _prediction(
    Attended,
    images_or(any_of(AttendImages, AttendTexts), form("AttendForm", DetectOptions, GenerateOptions)),
    [*query(RequestOptions, GenerateOptions, AttentionOptions), threshold()],
)
_ATTENTION["responses"][200]["content"] |= {
    media_type: {"schema": BINARY} for name, media_type in MEDIA_TYPES.items() if name != "json"
}
_ATTENTION_STATUSES = (200, 401, 403, 404, 406, 413, 422, 429, 503, 504)

OPERATIONS: dict[str, Json] = {
    "live": {"responses": _answered("the process answers", Live, 503)},
    "ready": {"responses": _answered("every session has run once", Ready, 503)},
    "metrics": {
        "responses": {
            200: {"description": "metrics", "content": {"text/plain": {"schema": {"type": "string"}}}},
            401: _REFUSALS[401],
            403: _REFUSALS[403],
        }
    },
    "reload": {"responses": _answered("what became of each model", Reload, 401, 403, 409, 422)},
    "list_models": {"responses": _answered("the models", Models, 401, 403)},
    "get_model": {"responses": _answered("the model", Model, 401, 403, 404)},
    "get_example": {"responses": _EXAMPLE},
    "classify": _prediction(
        Classified,
        images_or(any_of(ClassifyImages, ClassifyTexts), form("ClassifyForm", ClassifyOptions)),
        query(RequestOptions, ClassifyOptions, AttentionOptions),
    ),
    "detect": _prediction(
        DetectedObjects,
        images_or(COMPONENTS.schema(DetectImages), form("DetectForm", DetectOptions)),
        query(RequestOptions, DetectOptions, AttentionOptions),
    ),
    "embed": _prediction(
        Embedded,
        images_or(any_of(EmbedImages, EmbedTexts), form("ImageForm")),
        query(RequestOptions, AttentionOptions),
    ),
    "fill_mask": _prediction(Filled, in_json(FillMasks), []),
    "generate": _GENERATE,
    "attention": _ATTENTION,
    "stored_attention": {
        "responses": {status: _ATTENTION["responses"][status] for status in _ATTENTION_STATUSES},
        "parameters": [
            *query(RequestOptions, DetectOptions, AttentionOptions),
            parameter("model", {"type": "string", "description": "that of the earlier request"}),
        ],
    },
}
"""By the name of the operation."""
