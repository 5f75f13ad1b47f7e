"""The OpenAPI description of bodies that the routes parse and write themselves."""

import functools
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from contract.manifest import PICTURE_TYPES, Method
from service.api.request_parsing import MEDIA_TYPES
from service.options import (
    AttentionOptions,
    ClassifyOptions,
    ClassifyTextOptions,
    FillMaskOptions,
    GenerateOptions,
    Options,
    RequestOptions,
    TextOptions,
)

Json = dict[str, Any]


class Fault(BaseModel):
    """One fault of a request's options."""

    loc: str
    msg: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str = Field(description="subject, limit, given")
    errors: list[Fault] = []


class Answer(BaseModel):
    """The fields of every answer to a prediction."""

    id: str
    model: str
    version: str
    results: list[Json] = Field(description="one per input, in order")


class Label(BaseModel):
    """A class and its probability, or its score."""

    label: str
    index: int
    probability: float | None = Field(None, description="of every model except those that answer a score")
    score: float | None = Field(None, description="the logit itself, of cross-encoders that declare no activation")


class Map(BaseModel):
    """The attention map of one module, or of several layers combined."""

    model_config = ConfigDict(extra="allow")
    name: str = Field(description="path of the module that made it")
    kind: str
    layer: int | None = Field(description="null where layers are joined")
    heads: str | list[int]
    normalized: bool = Field(description="true if each row sums to one")
    signed: bool | None = Field(None, description="true of libra and integrated: values are shares of a score")
    target: Json | None = Field(None, description="the class or mask that is explained")
    targets: list[Json] | None = Field(None, description="the generated token that each row explains, and its figures")
    against: Json | None = Field(None, description="the class or token that the target is explained against")
    conserved: Json | None = Field(
        None, description="of libra: the sum over tokens, the sum over biases, and the score, which both make"
    )
    completeness: Json | None = Field(
        None,
        description="of integrated: the sum over tokens, the score, that of the baseline, and the error of the sum",
    )
    steps: int | None = Field(None, description="of integrated: points of the path")
    baseline: str | None = Field(None, description="of integrated: where the path begins")
    shape: list[int] = Field(description="heads, queries, keys")
    pool: dict[Literal["queries", "keys"], int] | None = Field(
        None, description="the numbers of rows and columns, where the values are those of blocks of them"
    )
    dtype: Literal["float32", "uint8"] | None = Field(None, description="of values in base64")
    scale: float | None = Field(None, description="of uint8: a value is byte x scale + offset")
    offset: float | None = Field(None, description="of uint8 where a value is negative; 0 where it is absent")
    values: list[list[list[float]]] | str = Field(description="lists, or base64 of an array of that shape and dtype")


class Attention(BaseModel):
    """The attention maps of one input."""

    model_config = ConfigDict(extra="allow")
    method: str
    maps: list[Map]
    diagnostics: list[Json] | None = Field(None, description="entropy and other figures, a layer and head each")
    best: Json | None = Field(None, description="by which measure the method is the best, where that was asked for")
    against: Json | None = Field(
        None,
        description="kind of the other input (text, image or id) and, where both sides are asked for, its attention",
    )
    evaluation: Json | None = Field(
        None, description="curves of deletion and insertion, of one map or all methods, beside a random order's"
    )
    tokens: Json = Field(description="tokens of each axis of text with their spans; of images the grid and the prefix")
    image: Json | None = Field(None, description="the image's size and the rectangle of it that the grid covers")


PUBLISHED_MODULE = "service.documents"
"""The module in the published names of the classes `Result`, by which clients may refer to their schemas."""


class Classified(Answer):
    """Answer of classify."""

    __module__ = PUBLISHED_MODULE

    class Result(BaseModel):
        """Labels of one image or text."""

        __module__ = PUBLISHED_MODULE

        labels: list[Label]
        attention: Attention | None = None

    results: list[Result]  # type: ignore[assignment] # narrower than in the base class


class Embedded(Answer):
    """Answer of embed."""

    __module__ = PUBLISHED_MODULE

    class Result(BaseModel):
        """The vector of one text or image."""

        __module__ = PUBLISHED_MODULE

        embedding: list[float]
        attention: Attention | None = None

    results: list[Result]  # type: ignore[assignment] # as above


class Candidate(BaseModel):
    """A token that a mask may stand for, and its probability."""

    token: int
    text: str
    probability: float


class Filled(Answer):
    """Answer of fill-mask."""

    __module__ = PUBLISHED_MODULE

    class Result(BaseModel):
        """The candidates of every mask of one text, in the order of the text."""

        __module__ = PUBLISHED_MODULE

        candidates: list[list[Candidate]]
        attention: Attention | None = None

    results: list[Result]  # type: ignore[assignment] # as above


class Generated(Answer):
    """Answer of generate."""

    __module__ = PUBLISHED_MODULE

    class Result(BaseModel):
        """The text generated from one text or image."""

        __module__ = PUBLISHED_MODULE

        text: str
        tokens: list[Json]
        score: float = Field(description="sum of the log-probabilities over length to the power of length_penalty")
        finish_reason: str
        attention: Attention | None = None

    results: list[Result]  # type: ignore[assignment] # as above


class Attended(Answer):
    """Answer of attention."""

    __module__ = PUBLISHED_MODULE

    class Result(BaseModel):
        """Attention alone."""

        __module__ = PUBLISHED_MODULE

        attention: Attention

    results: list[Result]  # type: ignore[assignment] # as above


_REFUSALS: dict[int | str, Json] = {
    status: {"model": Problem, "description": what, "content": {"application/problem+json": {}}}
    for status, what in {
        400: "the body cannot be read",
        404: "no such model, example or id, or the model's task does not serve this endpoint",
        409: "not while something else goes on",
        406: "an answer of a type that is not made",
        413: "larger than a limit",
        415: "a content type that is not read, or no image",
        422: "not to be answered; errors lists why",
        429: "the queue is full; see Retry-After",
        503: "warming up or stopping; see Retry-After",
        504: "the deadline passed",
    }.items()
}


@functools.cache
def _schema(kind: type[Options]) -> Json:
    return kind.model_json_schema()


def _with_attention(kind: type[Options], **inputs: Json) -> Json:
    schema = _schema(kind)
    properties = {**inputs, **schema.get("properties", {}), "attention": _schema(AttentionOptions)}
    return {"type": "object", "properties": properties, "required": list(inputs), "additionalProperties": False}


def _images(kind: type[Options]) -> Json:
    binary = {"schema": {"type": "string", "format": "binary"}}
    flat = {
        **_schema(kind).get("properties", {}),
        **_schema(AttentionOptions)["properties"],
        "attention": {"type": "string"},
    }
    form = {"image": {"type": "array", "items": {"type": "string", "format": "binary"}}, **flat}
    encoded = {"type": "array", "items": {"type": "string", "format": "byte"}}
    return {
        "image/png": binary,
        "image/jpeg": binary,
        "image/webp": binary,
        "multipart/form-data": {"schema": {"type": "object", "properties": form, "required": ["image"]}},
        "application/json": {"schema": _with_attention(kind, images=encoded)},
    }


_ONE_PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQAAAAA3bvkkAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
_TEXT = {"type": "string"}
_PAIR = {
    "type": "object",
    "properties": {"text": _TEXT, "text_pair": _TEXT},
    "required": ["text", "text_pair"],
    "additionalProperties": False,
}


def _texts(kind: type[Options], *, pairs: bool = False) -> Json:
    one = [_TEXT, _PAIR] if pairs else [_TEXT]
    text = {"anyOf": [*one, {"type": "array", "items": {"anyOf": one}}]}
    return {"application/json": {"schema": _with_attention(kind, inputs=text)}}


def _either(images: type[Options], *texts: Json) -> Json:
    """Return the bodies of an endpoint that takes images or texts, depending on its model."""
    content = _images(images)
    both = [kinds["application/json"]["schema"] for kinds in (content, *texts)]
    return content | {"application/json": {"schema": {"anyOf": both}}}


def _query(*kinds: type[Options]) -> list[Json]:
    """Return the options of an image in a raw body or form as parameters of the query."""
    properties = {name: schema for kind in kinds for name, schema in _schema(kind).get("properties", {}).items()}
    method = {
        "type": "string",
        "enum": [*get_args(Method), "best"],
        "description": "ask for attention too, by this method",
    }
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in {"attention": method, **properties}.items()
    ]


def _prediction(answer: type[Answer], content: Json, parameters: list[Json]) -> Json:
    return {
        "responses": {200: {"model": answer}, **{status: _REFUSALS[status] for status in _REFUSALS if status != 409}},
        "openapi_extra": {"parameters": parameters, "requestBody": {"required": True, "content": content}},
    }


_OBJECT = {"content": {"application/json": {"schema": {"type": "object"}}}}

LIVE: dict[int | str, Json] = {200: {"description": "the process answers", **_OBJECT}, 503: _REFUSALS[503]}
READY: dict[int | str, Json] = {200: {"description": "every session has run once", **_OBJECT}, 503: _REFUSALS[503]}
METRICS: dict[int | str, Json] = {200: {"description": "metrics", "content": {"text/plain": {}}}}
RELOAD: dict[int | str, Json] = {
    200: {"description": "what became of each model", **_OBJECT},
    409: _REFUSALS[409],
    422: _REFUSALS[422],
}
MODELS: dict[int | str, Json] = {200: {"description": "the models", **_OBJECT}}
MODEL: dict[int | str, Json] = {200: {"description": "the model", **_OBJECT}, 404: _REFUSALS[404]}
EXAMPLE: dict[int | str, Json] = {
    200: {
        "description": "the picture, or the texts",
        "content": {**{one: {} for one in PICTURE_TYPES.values()}, **_OBJECT["content"]},
    },
    404: _REFUSALS[404],
}
CLASSIFY = _prediction(
    Classified,
    _either(ClassifyOptions, _texts(ClassifyTextOptions, pairs=True)),
    _query(ClassifyOptions, AttentionOptions),
)
EMBED = _prediction(Embedded, _either(RequestOptions, _texts(TextOptions)), _query(RequestOptions, AttentionOptions))
FILL_MASK = _prediction(Filled, _texts(FillMaskOptions), [])
GENERATE = _prediction(
    Generated, _either(GenerateOptions, _texts(GenerateOptions)), _query(GenerateOptions, AttentionOptions)
)
GENERATE["openapi_extra"]["requestBody"]["content"]["application/json"]["examples"] = {
    "a text": {"value": {"inputs": "the 23rd of March 2021", "num_beams": 4}},
    "an image": {"value": {"images": [_ONE_PIXEL_PNG], "attention": {"kind": "cross"}}},
}
GENERATE["responses"][200]["content"] = {"application/json": {}, "text/event-stream": {}}
ATTENTION = _prediction(
    Attended,
    _either(GenerateOptions, _images(RequestOptions), _texts(TextOptions, pairs=True), _texts(GenerateOptions)),
    _query(GenerateOptions, AttentionOptions),
)
ATTENTION["responses"][200]["content"] = {media: {} for media in MEDIA_TYPES.values()}
STORED_ATTENTION: Json = {
    "responses": {status: ATTENTION["responses"][status] for status in (200, 404, 406, 413, 422, 429, 503, 504)},
    "openapi_extra": {
        "parameters": [
            *_query(RequestOptions, AttentionOptions),
            {"name": "model", "in": "query", "required": False, "schema": {"type": "string"}},
        ]
    },
}
