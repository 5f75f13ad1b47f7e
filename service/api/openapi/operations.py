"""What each of our own endpoints takes and answers, as OpenAPI describes it."""

from contract.example import MEDIA_TYPES as EXAMPLE_TYPES
from service.api.openapi.answers import (
    Attended,
)
from service.api.openapi.attention import Inside
from service.api.openapi.components import Json, any_of
from service.api.openapi.fed import Fed
from service.api.openapi.models import Example, Live, Model, Models, Ready, Reload
from service.api.openapi.predictions import REFUSALS, answered, prediction
from service.api.openapi.requests import (
    BINARY,
    IMAGES,
    SOUNDS,
    AttendGraphs,
    AttendImages,
    AttendMessages,
    AttendTexts,
    attend_form,
    of_inside,
    parameter,
    query,
    raw_or,
    threshold,
)
from service.api.openapi.tasks import BESIDE, TASKS
from service.api.openapi.tasks.transcription import SENT, TranscribeSounds
from service.api.reading.request_parsing import MEDIA_TYPES
from service.options.answers import SpanOptions
from service.options.attention import AttentionOptions
from service.options.base import RequestOptions
from service.options.generation import GenerateOptions
from service.options.predictions import DetectOptions

_EXAMPLE = answered("the picture, or the texts", Example, 401, 403, 404)
_EXAMPLE[200]["content"] |= {one: {"schema": BINARY} for one in EXAMPLE_TYPES.values()}
_ATTENTION = prediction(
    Attended,
    raw_or(
        any_of(AttendImages, AttendGraphs, AttendTexts, AttendMessages, TranscribeSounds),
        {"anyOf": [attend_form(), SENT]},
        (*IMAGES, *SOUNDS),
    ),
    [*query(RequestOptions, GenerateOptions, AttentionOptions), threshold()],
)
_ATTENTION["responses"][200]["content"] |= {
    media_type: {"schema": BINARY} for name, media_type in MEDIA_TYPES.items() if name != "json"
}
_ATTENTION_STATUSES = (200, 401, 403, 404, 406, 413, 422, 429, 503, 504)
_INSIDE_STATUSES = (401, 403, 404, 413, 422, 429, 503, 504)

_MODEL = parameter("model", {"type": "string", "description": "that of the earlier request"})

OPERATIONS: dict[str, Json] = {
    "live": {"responses": answered("the process answers", Live, 503)},
    "ready": {"responses": answered("every session has run once", Ready, 503)},
    "metrics": {
        "responses": {
            200: {"description": "metrics", "content": {"text/plain": {"schema": {"type": "string"}}}},
            401: REFUSALS[401],
            403: REFUSALS[403],
        }
    },
    "reload": {"responses": answered("what became of each model", Reload, 401, 403, 409, 422)},
    "list_models": {"responses": answered("the models", Models, 401, 403)},
    "get_model": {"responses": answered("the model", Model, 401, 403, 404)},
    "get_example": {"responses": _EXAMPLE},
    **{one.NAME: one.OPERATION for one in (*TASKS, *BESIDE)},
    "attention": _ATTENTION,
    "stored_attention": {
        "responses": {status: _ATTENTION["responses"][status] for status in _ATTENTION_STATUSES},
        "parameters": [
            *query(RequestOptions, DetectOptions, SpanOptions, AttentionOptions),
            _MODEL,
        ],
    },
    "kept_input": {
        "responses": answered("what the model was fed", Fed, 401, 403, 404, 413, 422, 429, 503, 504),
        "parameters": [*query(RequestOptions), _MODEL],
    },
    "inside": {
        "responses": answered("what is inside", Inside, *_INSIDE_STATUSES),
        "parameters": [*of_inside(), _MODEL],
    },
}
"""By the name of the operation."""
