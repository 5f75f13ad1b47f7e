"""The OpenAPI description of what Hugging Face's clients post and get."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from service.api.hugging_face.parameters import (
    EmbeddingParameters,
    FillMaskParameters,
    GenerationParameters,
    ImageClassificationParameters,
    TextClassificationParameters,
    TextEmbeddingParameters,
)

Json = dict[str, Any]


class Fault(BaseModel):
    """Why a request is refused, or has failed."""

    error: str = Field(description="subject, limit, given")
    error_type: Literal["validation", "overloaded", "unhealthy", "generation", "backend"]


def refusals(*statuses: int) -> dict[int | str, Json]:
    """Return the refusals of some statuses."""
    said = {
        400: "the body cannot be read",
        404: "no such model, or its task does not serve this endpoint",
        413: "larger than a limit",
        415: "a content type that is not read, or no image",
        422: "not to be answered",
        429: "the queue is full; see Retry-After",
        503: "warming up or stopping; see Retry-After",
        504: "the deadline passed",
    }
    return {status: {"model": Fault, "description": said[status]} for status in statuses or said}


def answered(description: str) -> dict[int | str, Json]:
    """Return the description of an answer in JSON."""
    return {200: {"description": description, "content": {"application/json": {"schema": {}}}}}


def document(name: str, inputs: Json, **more: Json) -> Json:
    """Return the description of a JSON document of inputs, of that name, and what may stand beside them."""
    return {"type": "object", "properties": {name: inputs, **more}, "required": [name]}


TEXT: Json = {"type": "string"}
TEXT_OR_TEXTS: Json = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
_PAIR: Json = {
    "type": "object",
    "properties": {"text": TEXT, "text_pair": TEXT},
    "required": ["text", "text_pair"],
    "additionalProperties": False,
}
_COMPARED: Json = {
    "type": "object",
    "properties": {"source_sentence": TEXT, "sentences": {"type": "array", "items": TEXT}},
    "required": ["source_sentence", "sentences"],
    "additionalProperties": False,
}
_ONE: Json = {"anyOf": [TEXT, _PAIR]}
_INPUTS: Json = {"anyOf": [*_ONE["anyOf"], {"type": "array", "items": _ONE, "minItems": 1}, _COMPARED]}
_BINARY: Json = {"schema": {"type": "string", "format": "binary"}}
_KINDS = (
    TextClassificationParameters,
    ImageClassificationParameters,
    TextEmbeddingParameters,
    EmbeddingParameters,
    FillMaskParameters,
    GenerationParameters,
)
_PARAMETERS: Json = {
    "anyOf": [
        kind.model_json_schema()
        for kind in (
            TextClassificationParameters,
            ImageClassificationParameters,
            TextEmbeddingParameters,
            EmbeddingParameters,
            FillMaskParameters,
            GenerationParameters,
        )
    ],
    "description": "of the model's task; they may stand beside inputs too",
}
_OPTIONS: Json = {"type": "object", "description": "such as wait_for_model, of older clients; without effect"}
_STREAM: Json = {"type": "boolean", "description": "of a model that generates: its tokens come as events"}
PIPELINE: Json = {
    "responses": {
        200: {
            "description": "as the pipeline of the model's task answers",
            "content": {"application/json": {"schema": {"type": "array"}}, "text/event-stream": {}},
        },
        **refusals(),
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "image/png": _BINARY,
                "image/jpeg": _BINARY,
                "image/webp": _BINARY,
                "application/octet-stream": _BINARY,
                "application/json": {
                    "schema": document("inputs", _INPUTS, parameters=_PARAMETERS, options=_OPTIONS, stream=_STREAM)
                },
            },
        }
    },
}
