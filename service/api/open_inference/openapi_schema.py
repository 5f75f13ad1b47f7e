"""The OpenAPI description of the Open Inference Protocol."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.api.open_inference.infer_request import JSON_LENGTH, MOST_ID_BYTES, MOST_OUTPUTS

Json = dict[str, Any]


class OpenInferenceError(BaseModel):
    """An error of the Open Inference Protocol."""

    error: str = Field(description="subject, limit, given")


class TensorMetadata(BaseModel):
    """An input or output of a model."""

    name: str
    datatype: Literal["FP32", "BYTES"]
    shape: list[int] = Field(description="-1 is a size that varies; the first is the number of inputs")


class ServerMetadata(BaseModel):
    """The server, and the extensions of the protocol that it has."""

    name: str
    version: str
    extensions: list[str]


class ModelMetadata(BaseModel):
    """What a model takes and answers."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    attention: list[TensorMetadata] = Field(description="outputs that are computed only when a request names them")


class ResponseOutput(BaseModel):
    """An output: its elements are in `data`, in one flat list, or in the binary data."""

    model_config = ConfigDict(extra="allow")
    name: str
    datatype: Literal["FP32", "BYTES"]
    shape: list[int]
    parameters: Json | None = None
    data: list[Any] | None = None


class InferenceResponse(BaseModel):
    """An answer. With binary data it is the JSON of an octet-stream, as long as a header says."""

    model_name: str
    model_version: str
    id: str
    outputs: list[ResponseOutput]


def _errors(*statuses: int) -> dict[int | str, Json]:
    said = {
        400: "the request cannot be read, or not be answered",
        404: "no such model or version",
        409: "not while something else goes on",
        413: "larger than a limit",
        415: "a compressed body, or no image",
        429: "the queue is full; see Retry-After",
        503: "warming up or stopping; see Retry-After",
        504: "the deadline passed",
    }
    return {status: {"model": OpenInferenceError, "description": said[status]} for status in statuses}


_OBJECT = {"content": {"application/json": {"schema": {"type": "object"}}}}
_PARAMETERS = {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean"]}}
_REQUEST = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "maxLength": MOST_ID_BYTES},
        "parameters": {**_PARAMETERS, "description": "options of predictions and of attention, as in a query string"},
        "inputs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"enum": ["image", "text", "text_pair"]},
                    "shape": {
                        "type": "array",
                        "items": {"type": "integer", "minimum": 0},
                        "description": "[n] or [n, 1]",
                    },
                    "datatype": {"const": "BYTES"},
                    "parameters": {**_PARAMETERS, "description": "binary_data_size, in place of data"},
                    "data": {"type": "array", "description": "strings; an image is one of base64"},
                },
                "required": ["name", "shape", "datatype"],
                "additionalProperties": False,
            },
        },
        "model_name": {"type": "string", "description": "not used; the path names the model"},
        "model_version": {"type": "string", "description": "not used"},
        "outputs": {
            "type": "array",
            "maxItems": MOST_OUTPUTS,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "parameters": {**_PARAMETERS, "description": "binary_data, classification"},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["inputs"],
    "additionalProperties": False,
}
_LENGTH = {
    "name": JSON_LENGTH,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": "^[0-9]{1,10}$"},
    "description": "how many bytes of JSON are before the binary data; 0 if the body is one element of one input",
}

SERVER: dict[int | str, Json] = {200: {"model": ServerMetadata}}
HEALTH: dict[int | str, Json] = {200: {"description": "yes", **_OBJECT}, **_errors(404, 503)}
MODELS: dict[int | str, Json] = {200: {"description": "the names of the models", **_OBJECT}}
METADATA: dict[int | str, Json] = {200: {"model": ModelMetadata}, **_errors(404)}
CONFIG: dict[int | str, Json] = {200: {"description": "the configuration, in Triton's form", **_OBJECT}, **_errors(404)}
INFER: Json = {
    "responses": {
        200: {"model": InferenceResponse, "content": {"application/octet-stream": {}}},
        **_errors(400, 404, 413, 415, 429, 503, 504),
    },
    "openapi_extra": {
        "parameters": [_LENGTH],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _REQUEST},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            },
        },
    },
}
INDEX: Json = {
    "responses": {
        200: {
            "description": "each version of each model, and its state",
            "content": {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}},
        },
        **_errors(400, 413),
    },
    "openapi_extra": {
        "requestBody": {
            "required": False,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {"ready": {"type": "boolean", "description": "only what is served"}},
                        "additionalProperties": False,
                    }
                }
            },
        }
    },
}
LOAD: Json = {"responses": {200: {"description": "done; the body is empty"}, **_errors(400, 404, 409, 413)}}
