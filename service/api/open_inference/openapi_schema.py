"""The OpenAPI description of the Open Inference Protocol."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.api.open_inference.infer_request import JSON_LENGTH, MOST_ID_BYTES, MOST_OUTPUTS
from service.api.openapi.components import COMPONENTS, Json, Part, in_json, refusals

Parameters = dict[str, str | float | bool]


class OpenInferenceError(Part):
    """An error of the Open Inference Protocol."""

    error: str = Field(description="subject, limit, given")


class TensorMetadata(Part):
    """An input or output of a model."""

    name: str
    datatype: Literal["FP32", "BYTES"]
    shape: list[int] = Field(description="-1 is a size that varies; the first is the number of inputs")


class ServerMetadata(Part):
    """The server, and the extensions of the protocol that it has."""

    name: str
    version: str
    extensions: list[str]


class ModelMetadata(Part):
    """What a model takes and answers."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    attention: list[TensorMetadata] = Field(description="outputs that are computed only when a request names them")


class ResponseOutput(Part):
    """An output: its elements are in `data`, in one flat list, or in the binary data."""

    name: str
    datatype: Literal["FP32", "BYTES"]
    shape: list[int]
    parameters: Parameters | None = None
    data: list[float | str] | None = None


class InferenceResponse(Part):
    """An answer. With binary data it is the JSON of an octet-stream, as long as a header says."""

    model_name: str
    model_version: str
    id: str
    outputs: list[ResponseOutput]


class ModelNames(Part):
    """The names of the models."""

    models: list[str]


class Alive(Part):
    """The server answers, or can run its models."""

    live: bool | None = None
    ready: bool | None = None
    name: str | None = Field(None, description="of the model")


class TritonTensor(Part):
    """An input or output in Triton's form."""

    name: str
    data_type: Literal["TYPE_FP32", "TYPE_STRING"]
    dims: list[int]
    optional: bool | None = None


class TritonConfig(Part):
    """The configuration of a model, in Triton's form."""

    name: str
    platform: str
    backend: str
    version_policy: dict[str, dict[str, int]]
    max_batch_size: int
    input: list[TritonTensor]
    output: list[TritonTensor]
    dynamic_batching: dict[str, Any]


class RepositoryEntry(Part):
    """A version of a model, and its state."""

    name: str
    version: str
    state: Literal["READY", "LOADING", "UNAVAILABLE"]
    reason: str


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RequestInput(_Sent):
    """An input: its elements are in `data`, or in the binary data."""

    name: Literal["image", "text", "text_pair"]
    shape: list[Annotated[int, Field(ge=0)]] = Field(description="[n] or [n, 1]")
    datatype: Literal["BYTES"]
    parameters: Parameters | None = Field(None, description="binary_data_size, in place of data")
    data: list[Any] = Field([], description="strings; an image is one of base64")


class RequestOutput(_Sent):
    """An output that is asked for."""

    name: str
    parameters: Parameters | None = Field(None, description="binary_data, classification")


class InferenceRequest(_Sent):
    """What infer takes."""

    id: str = Field("", max_length=MOST_ID_BYTES)
    parameters: Parameters | None = Field(
        None, description="options of predictions and of attention, as in a query string"
    )
    inputs: list[RequestInput]
    model_name: str = Field("", description="not used; the path names the model")
    model_version: str = Field("", description="not used")
    outputs: list[RequestOutput] = Field([], max_length=MOST_OUTPUTS)


class RepositoryQuestion(_Sent):
    """Which versions are asked for."""

    ready: bool = Field(False, description="only what is served")


_ERRORS = refusals(
    OpenInferenceError,
    {
        400: "the request cannot be read, or not be answered",
        404: "no such model or version",
        409: "not while something else goes on",
        413: "larger than a limit",
        415: "a compressed body, or no image",
        429: "the queue is full; see Retry-After",
        503: "warming up, failing or stopping; see Retry-After",
        504: "the deadline passed",
    },
)


def _errors(*statuses: int) -> dict[int | str, Json]:
    return {status: _ERRORS[status] for status in statuses}


def _answered(description: str, kind: type[BaseModel], *statuses: int) -> dict[int | str, Json]:
    return {200: {"description": description, "content": in_json(kind)}, **_errors(*statuses)}


_LENGTH = {
    "name": JSON_LENGTH,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": "^[0-9]{1,10}$"},
    "description": "how many bytes of JSON are before the binary data; 0 if the body is one element of one input",
}

_BINARY: Json = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_METADATA = {"responses": _answered("the model", ModelMetadata, 401, 403, 404)}
_CONFIG = {"responses": _answered("the configuration, in Triton's form", TritonConfig, 401, 403, 404)}
_HEALTH = {"responses": _answered("yes", Alive, 404, 503)}
_MODEL_READY = {"responses": _answered("yes", Alive, 401, 403, 404, 503)}
_INFER: Json = {
    "responses": {
        200: {"description": "the outputs", "content": {**in_json(InferenceResponse), **_BINARY}},
        **_errors(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
    },
    "parameters": [_LENGTH],
    "requestBody": {"required": True, "content": {**in_json(InferenceRequest), **_BINARY}},
}
_LOAD: Json = {
    "responses": {200: {"description": "done; the body is empty"}, **_errors(400, 401, 403, 404, 408, 409, 413)}
}

OPERATIONS: dict[str, Json] = {
    "open_inference_server_metadata": {"responses": _answered("the server", ServerMetadata, 401, 403)},
    "open_inference_server_live": _HEALTH,
    "open_inference_server_ready": _HEALTH,
    "open_inference_list_models": {"responses": _answered("the names of the models", ModelNames, 401, 403)},
    "open_inference_model_metadata": _METADATA,
    "open_inference_model_ready": _MODEL_READY,
    "open_inference_model_config": _CONFIG,
    "open_inference_infer": _INFER,
    "open_inference_version_metadata": _METADATA,
    "open_inference_version_ready": _MODEL_READY,
    "open_inference_version_config": _CONFIG,
    "open_inference_version_infer": _INFER,
    "open_inference_repository_index": {
        "responses": {
            200: {
                "description": "each version of each model, and its state",
                "content": {
                    "application/json": {"schema": {"type": "array", "items": COMPONENTS.schema(RepositoryEntry)}}
                },
            },
            **_errors(400, 401, 403, 408, 413),
        },
        "requestBody": {"required": False, "content": in_json(RepositoryQuestion)},
    },
    "open_inference_load_model": _LOAD,
    "open_inference_unload_model": _LOAD,
}
"""By the name of the operation."""
