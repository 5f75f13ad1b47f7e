"""The OpenAPI description of what Hugging Face's clients post and get."""

from typing import Literal

from pydantic import BaseModel, Field

from service.api.hugging_face.tei import (
    DecodeParameters,
    EmbedParameters,
    PredictParameters,
    RerankParameters,
    TokenizeParameters,
)
from service.api.openapi.components import COMPONENTS, JSON, Json, Part, any_of, in_json
from service.api.openapi.components import refusals as described_refusals
from service.api.openapi.requests import BINARY, IMAGES, SOUNDS, Question, TextPair
from service.api.openapi.tasks import TASKS
from service.api.openapi.tasks.labels import ScoredLabel
from service.api.openapi.tasks.spans import ScoredAnswer
from service.api.openapi.tasks.transcription import RecognizedSpeech
from service.api.openapi.tasks.written import WrittenEvent
from service.options.base import Options
from service.options.predictions import PromptedOptions, TextOptions


class HuggingFaceError(Part):
    """Why a request is refused, or has failed."""

    error: str = Field(description="subject, limit, given")
    error_type: Literal["validation", "overloaded", "unhealthy", "generation", "backend"]


_REFUSALS = described_refusals(
    HuggingFaceError,
    {
        400: "the body cannot be read",
        404: "no such model, or its task does not serve this endpoint",
        413: "larger than a limit",
        415: "a content type that is not read, or no image",
        422: "not to be answered",
        429: "the queue is full; see Retry-After",
        503: "warming up, failing or stopping; see Retry-After",
        504: "the deadline passed",
    },
)


def refusals(*statuses: int) -> dict[int | str, Json]:
    """Return the refusals of some statuses, by default of all."""
    return {status: _REFUSALS[status] for status in statuses or _REFUSALS}


def answered(description: str, schema: Json) -> dict[int | str, Json]:
    """Return the description of an answer in JSON."""
    return {200: {"description": description, "content": {JSON: {"schema": schema}}}}


def list_of(items: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def document(name: str, inputs: Json, **more: Json) -> Json:
    """Return the description of a JSON document of inputs, of that name, and what may stand beside them."""
    return {"type": "object", "properties": {name: inputs, **more}, "required": [name]}


TEXT: Json = {"type": "string"}
TEXT_OR_TEXTS: Json = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
LIST_OF_VECTORS: Json = list_of(list_of({"type": "number"}))


class Similarity(Options):
    """Texts to compare with one."""

    source_sentence: str
    sentences: list[str]


class Pooling(Part):
    """How the vectors of tokens become that of a text."""

    pooling: Literal["cls", "last_token", "mean", "splade"]


class LabelNames(Part):
    """The labels of a classifier."""

    id2label: dict[str, str]
    label2id: dict[str, int]


class ModelType(Part):
    """What a model is."""

    embedding: Pooling | None = None
    classifier: LabelNames | None = None
    reranker: LabelNames | None = None


class ModelInfo(Part):
    """What a model is, and the limits of requests to it."""

    model_id: str
    model_sha: str
    model_dtype: str
    model_pipeline_tag: str
    max_concurrent_requests: int
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int
    auto_truncate: bool
    tokenization_workers: int
    version: str
    sha: None = None
    docker_label: None = None
    max_input_length: int | None = Field(None, description="of a text, in tokens")
    model_type: ModelType | None = None


class TeiRanked(Part):
    """A text in its place."""

    index: int
    score: float
    text: str | None = None


class SparseValue(Part):
    """A word by its number, and its weight."""

    index: int
    value: float


class TeiRerankRequest(RerankParameters):
    """A query and texts to rank."""

    query: str
    texts: list[str]


class TokenizedToken(Part):
    """A token of a text, and the characters that it is of; null for special tokens."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


LABELS = list_of(COMPONENTS.schema(ScoredLabel))
_ANSWERS: list[type[BaseModel]] = [answer for task in TASKS for answer in task.ANSWERS]
_LISTED = [*any_of(*_ANSWERS)["anyOf"], {"type": "number"}]
_ONE: Json = {"anyOf": [TEXT, COMPONENTS.schema(TextPair), COMPONENTS.schema(Question)]}
_INPUTS: Json = {
    "anyOf": [*_ONE["anyOf"], {"type": "array", "items": _ONE, "minItems": 1}, COMPONENTS.schema(Similarity)]
}
_PARAMETERS: Json = {
    **any_of(*(kind for task in TASKS for kind in task.PARAMETERS)),
    "description": "of the model's task; they may stand beside inputs too",
}
_OPTIONS: Json = {"type": "object", "description": "such as wait_for_model, of older clients; without effect"}
_STREAM: Json = {"type": "boolean", "description": "of a model that generates: its tokens come as events"}
_ASKED = COMPONENTS.named(
    "schemas",
    "PipelineRequest",
    document("inputs", _INPUTS, parameters=_PARAMETERS, options=_OPTIONS, stream=_STREAM),
)
_PIPELINE: Json = {
    "responses": {
        200: {
            "description": "as the pipeline of the model's task answers: of several inputs or masks, a list for each",
            "content": {
                JSON: {
                    "schema": {
                        "anyOf": [
                            COMPONENTS.schema(ScoredAnswer),
                            COMPONENTS.schema(RecognizedSpeech),
                            list_of({"anyOf": [*_LISTED, list_of({"anyOf": [*_LISTED, list_of({"anyOf": _LISTED})]})]}),
                        ]
                    }
                },
                "text/event-stream": {"schema": any_of(WrittenEvent, HuggingFaceError)},
            },
        },
        **refusals(),
    },
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": _ASKED},
            **{one: {"schema": BINARY} for one in (*IMAGES, *SOUNDS, "application/octet-stream")},
        },
    },
}


def _of_texts(name: str, inputs: Json, kind: type[Options], said: str, answer: Json, subject: str = "inputs") -> Json:
    """Return the description of an endpoint that takes a document of that name: inputs, with parameters beside them.

    `subject` is the member that holds the inputs.
    """
    schema = COMPONENTS.named("schemas", name, document(subject, inputs, **COMPONENTS.options(kind)))
    body = {"required": True, "content": {JSON: {"schema": schema}}}
    return {"responses": answered(said, answer) | refusals(), "requestBody": body}


_ROW: Json = list_of({"type": "integer", "minimum": 0})
_IDS: Json = {"anyOf": [_ROW, {**list_of(_ROW), "minItems": 1}]}
_PIECES: Json = {**list_of(TEXT), "minItems": 1, "maxItems": 2}
_CLASSIFIED: Json = {"anyOf": [TEXT, _PIECES, {**list_of(_PIECES), "minItems": 1}]}
_LABELS_OF_ALL: Json = {"anyOf": [LABELS, list_of(LABELS)]}
_EITHER: Json = {"anyOf": [LIST_OF_VECTORS, *_LABELS_OF_ALL["anyOf"]]}
_TOKENS = list_of(list_of(COMPONENTS.schema(TokenizedToken)))
_HEALTH: Json = {"responses": {200: {"description": "can run"}, **refusals(401, 403, 404, 503)}}
_INFO = {"responses": answered("what the model is", COMPONENTS.schema(ModelInfo)) | refusals(401, 403, 404)}
_NOT_HERE: Json = {"responses": refusals(401, 403, 404)}

OPERATIONS: dict[str, Json] = {
    "hugging_face_pipeline": _PIPELINE,
    "hugging_face_info": _INFO,
    "hugging_face_health": _HEALTH,
    "tei_info": _INFO,
    "tei_health": _HEALTH,
    "tei_embed": _of_texts(
        "TeiEmbedRequest", TEXT_OR_TEXTS, EmbedParameters, "a vector for each text", LIST_OF_VECTORS
    ),
    "tei_embed_sparse": _of_texts(
        "TeiSparseRequest",
        TEXT_OR_TEXTS,
        PromptedOptions,
        "the words of each text",
        list_of(list_of(COMPONENTS.schema(SparseValue))),
    ),
    "tei_predict": _of_texts(
        "TeiPredictRequest", _CLASSIFIED, PredictParameters, "the labels of each text, best first", _LABELS_OF_ALL
    ),
    "tei_embed_or_predict": _of_texts("TeiRequest", _CLASSIFIED, TextOptions, "as embed or predict answers", _EITHER),
    "tei_tokenize": _of_texts(
        "TeiTokenizeRequest", TEXT_OR_TEXTS, TokenizeParameters, "the tokens of each text", _TOKENS
    ),
    "tei_decode": _of_texts(
        "TeiDecodeRequest", _IDS, DecodeParameters, "a text for each list of tokens", list_of(TEXT), subject="ids"
    ),
    "tei_rerank": {
        "responses": answered("texts, best first", list_of(COMPONENTS.schema(TeiRanked))) | refusals(),
        "requestBody": {"required": True, "content": in_json(TeiRerankRequest)},
    },
    "tei_similarity": _of_texts(
        "TeiSimilarityRequest",
        COMPONENTS.schema(Similarity),
        TextOptions,
        "a cosine for each sentence",
        list_of({"type": "number"}),
    ),
    "tei_embed_all": _NOT_HERE,
}
"""By the name of the operation."""
