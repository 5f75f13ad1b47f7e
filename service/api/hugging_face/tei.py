"""The protocol of Text Embeddings Inference, beneath the path of a model: `.../v1/models/NAME/tei`.

Clients of such a server, as those of LlamaIndex, Chroma and Haystack, are given that path as its address.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from contract.manifest import Task
from service import VERSION
from service.answering.call import Answered, Call, answer, caller_of, check_ready, find, find_ready, narrowed
from service.answering.predictions import predict
from service.api import responses
from service.api.hugging_face.pipelines import is_comparison
from service.api.pipelines.parameters import (
    TEXTS,
    VECTORS,
    Refused,
    check_client_options,
    merged,
    parse_parameters,
)
from service.api.pipelines.texts import error_type
from service.api.reading.request_parsing import check_count, parse_texts, read_document
from service.api.reading.sorts import sort_of
from service.api.tasks.labels import scored_labels
from service.api.tasks.ranking import Ranked, pairs_of, rank
from service.api.tasks.vectors import vectors
from service.api.tasks.words import sparse_vectors
from service.errors import NotFound, TooLarge, Unacceptable
from service.http.exchange import exchange_of
from service.inputs.model_input import Pair, Text, Token
from service.inputs.tokenization import TextTokenizer
from service.options.base import Options
from service.options.predictions import EmbedTextOptions, PromptedOptions, PromptOptions, RerankOptions, TextOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import ServedModel
from service.repository.models.sparse_embedder import SparseEmbedder
from service.state import State, StateDep

router = APIRouter(tags=["Text Embeddings Inference"])
BASE = "/v1/models/{model}/tei"
NOT_SERVED = {
    "embed_all": "vectors are of whole texts",
}
"""What such a server has beside what is served here, and what may be asked instead."""
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8", "int4": "int4"}
POOLINGS = {"first": "cls", "last": "last_token", "all": "mean"}
"""The rows that an embedding is made of -> what `info` calls that."""
SPARSE: Task = "sparse-embedding"
TOKEN_BYTES = 64  # of a token that tokenize answers
S = TypeVar("S", bound=ServedModel)


def error(
    status: int, detail: str, errors: Sequence[Mapping[str, str]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as an answer in the form of this protocol."""
    body = {"error": detail, "error_type": error_type(status, "backend")}
    return Response(orjson.dumps(body), int(status), dict(headers or {}), "application/json")


class EmbedParameters(EmbedTextOptions):
    """Parameters of embed."""

    normalize: bool | None = Field(True, description="divide each vector by its length")


class PredictParameters(TextOptions):
    """Parameters of predict."""

    raw_scores: bool = Field(False, description="logits rather than probabilities")


class RerankParameters(PredictParameters):
    """Parameters of rerank."""

    return_text: bool = Field(False, description="also the text of each")


class TokenizeParameters(Options):
    """Parameters of tokenize."""

    add_special_tokens: bool = Field(True, description="tokens such as [CLS] too")


class DecodeParameters(Options):
    """Parameters of decode."""


TOKENIZE: Refused = {"prompt_name": ((), "tokens are those of the texts behind no prompt")}
DECODE: Refused = {"skip_special_tokens": ((True,), "texts are decoded without them")}
NOT_HERE: dict[str, Any] = {"status_code": 404, "response_class": Response}


@router.get("/v1/models/{model}/info", operation_id="hugging_face_info")
@router.get(f"{BASE}/info", operation_id="tei_info")
async def info(model: str, state: StateDep) -> Response:
    """Return what a model is, and the limits of requests to it."""
    return responses.respond(describe(find(state, model)))


@router.get("/v1/models/{model}/health", operation_id="hugging_face_health", response_class=Response)
@router.get(f"{BASE}/health", operation_id="tei_health", response_class=Response)
async def health(model: str, state: StateDep) -> Response:
    """Answer 200, without a body, while the model can run."""
    check_ready(find(state, model))
    return Response()


@router.post(f"{BASE}/embed", operation_id="tei_embed")
async def embed(model: str, request: Request, state: StateDep) -> Response:
    """Return a vector for each text, of length one unless `normalize` is false."""
    served = _predictor(state, model, "embed", "feature-extraction")
    return await answer(request, state, served, _embed(request, state, served))


@router.post(f"{BASE}/embed_sparse", operation_id="tei_embed_sparse")
async def embed_sparse(model: str, request: Request, state: StateDep) -> Response:
    """Return the words that each text is about, by number, with their weights."""
    served = narrowed(_predictor(state, model, "embed_sparse", SPARSE), SparseEmbedder)
    return await answer(request, state, served, _embed_sparse(request, state, served))


@router.post(f"{BASE}/predict", operation_id="tei_predict")
async def predict_labels(model: str, request: Request, state: StateDep) -> Response:
    """Return all labels of a text or a pair, best first; for a batch, a list for each."""
    served = _predictor(state, model, "predict", "text-classification")
    return await answer(request, state, served, _predict(request, state, served))


@router.post(f"{BASE}/rerank", operation_id="tei_rerank")
async def rerank(model: str, request: Request, state: StateDep) -> Response:
    """Return the texts that answer a query, best first."""
    served = find_ready(state, model, "rerank", Predictor)
    return await answer(request, state, served, _rerank(request, state, served))


@router.post(f"{BASE}/similarity", operation_id="tei_similarity")
async def similarity(model: str, request: Request, state: StateDep) -> Response:
    """Return the cosine of each sentence with the source."""
    served = _predictor(state, model, "similarity", "feature-extraction")
    return await answer(request, state, served, _similarity(request, state, served))


@router.post(BASE, operation_id="tei_embed_or_predict")
async def embed_or_predict(model: str, request: Request, state: StateDep) -> Response:
    """Answer as embed does, or as predict where the model classifies."""
    classifies = find(state, model).manifest.task == "text-classification"
    return await (predict_labels if classifies else embed)(model=model, request=request, state=state)


router.add_api_route(f"{BASE}/", embed_or_predict, methods=["POST"], include_in_schema=False)


@router.post(f"{BASE}/tokenize", operation_id="tei_tokenize")
async def tokenize(model: str, request: Request, state: StateDep) -> Response:
    """Return the tokens of each text as the model reads them, with their spans in characters."""
    served = _texts(find(state, model), "tokenize")
    return await answer(request, state, served, _tokenize(request, state, served))


@router.post(f"{BASE}/decode", operation_id="tei_decode")
async def decode(model: str, request: Request, state: StateDep) -> Response:
    """Return the texts of tokens, without special ones."""
    served = _texts(find(state, model), "decode")
    return await answer(request, state, served, _decode(request, state, served))


@router.post(f"{BASE}/embed_all", operation_id="tei_embed_all", **NOT_HERE)
async def not_served(model: str, request: Request, state: StateDep) -> Response:
    """Refuse what is not served, and say what may be asked instead."""
    served = find(state, model)
    name = request.scope["path"].rpartition("/")[2]
    raise NotFound(f"{name}: is not served, {NOT_SERVED[name]}; this model's task is {served.manifest.task}")


async def _embed(request: Request, state: State, served: Predictor) -> Response:
    inputs, given = await _read(request, state)
    options = parse_parameters(EmbedParameters, given, VECTORS, served.manifest)
    return await vectors(_call(request, state, served, parse_texts(_no_tokens(inputs), state.settings)), options)


async def _embed_sparse(request: Request, state: State, served: SparseEmbedder) -> Response:
    inputs, given = await _read(request, state)
    options = parse_parameters(PromptedOptions, given, TEXTS, served.manifest)
    call = Call(state, exchange_of(request.scope), served, parse_texts(_no_tokens(inputs), state.settings))
    return await sparse_vectors(call, options)


async def _predict(request: Request, state: State, served: Predictor) -> Response:
    inputs, given = await _read(request, state)
    options = parse_parameters(PredictParameters, given, TEXTS, served.manifest)
    texts, several = _to_classify(inputs)
    check_count("inputs", len(texts), state.settings.max_inputs)
    manifest = served.manifest.model_copy(update={"scores": "identity"}) if options.raw_scores else served.manifest

    async def respond(answered: Answered[list[dict[str, object]]]) -> Response:
        return responses.respond(answered.shown if several else answered.shown[0])

    return await predict(_call(request, state, served, texts), options, scored_labels(manifest), respond)


async def _rerank(request: Request, state: State, served: Predictor) -> Response:
    document = await read_document(request, state.settings.max_text_bytes, state.settings)
    pairs = pairs_of(document.pop("query", None), document.pop("texts", None), state.settings)
    options = parse_parameters(RerankParameters, merged(None, document), TEXTS, served.manifest)
    asked = RerankOptions(truncate=options.truncate, priority=options.priority)

    def write(answered: Answered[float], best: Sequence[Ranked]) -> Response:
        texts: list[dict[str, object]] = [{"text": one.text} if options.return_text else {} for one in best]
        return responses.respond(
            [{"index": one.index, "score": one.score, **text} for one, text in zip(best, texts, strict=True)]
        )

    return await rank(
        _call(request, state, served, pairs), asked, "identity" if options.raw_scores else "sigmoid", write
    )


async def _similarity(request: Request, state: State, served: Predictor) -> Response:
    inputs, given = await _read(request, state)
    if not is_comparison(inputs):
        raise Unacceptable("inputs: must be an object of source_sentence, a string, and sentences, a list of strings")
    texts = parse_texts([inputs["source_sentence"], *inputs["sentences"]], state.settings)
    options = parse_parameters(PromptOptions, given, VECTORS, served.manifest)
    return await vectors(_call(request, state, served, texts), options, compared=True)


async def _tokenize(request: Request, state: State, served: ServedModel) -> Response:
    inputs, given = await _read(request, state)
    options = parse_parameters(TokenizeParameters, given, TOKENIZE, served.manifest)
    texts = parse_texts(inputs, state.settings)
    if not all(isinstance(text, str) for text in texts):
        raise Unacceptable("inputs: must be a string or a list of strings")
    tokenizer = _tokenizer(served)
    encode = functools.partial(tokenizer.encode, any_length=True)  # clients measure texts, to split them
    likely = sum(tokenizer.estimated_tokens(text, any_length=True) for text in texts)
    with served.prediction_budget.permit(likely, caller_of(exchange_of(request.scope))):
        read = await state.decode_texts(served.manifest.name, encode, texts)
        size, limit = TOKEN_BYTES * sum(map(len, read)), state.settings.max_answer_bytes
        if size > limit:
            raise TooLarge(f"tokens: at most {limit} bytes an answer, this one would have {size}; send fewer texts")

        def write() -> Response:
            return responses.respond(
                [
                    [_shown(token, str(text)) for token in tokens if token.span or options.add_special_tokens]
                    for text, tokens in zip(texts, read, strict=True)
                ]
            )

        return await state.present(served.manifest.name, None, write)


async def _decode(request: Request, state: State, served: ServedModel) -> Response:
    document = await read_document(request, state.settings.max_text_bytes, state.settings)
    ids = document.pop("ids", None)
    parse_parameters(DecodeParameters, merged(None, document), DECODE, served.manifest)
    rows = ids if isinstance(ids, list) and ids and isinstance(ids[0], list) else [ids]
    check_count("ids", len(rows), state.settings.max_inputs)
    tokenizer = _tokenizer(served)
    tokens: list[list[int]] = []
    for row in rows:
        if not isinstance(row, list) or not all(type(one) is int and 0 <= one < 1 << 31 for one in row):
            raise Unacceptable("ids: must be a list of tokens, or a list of such lists")
        tokens.append(row)

    def write() -> Response:
        if not all(tokenizer.holds(one) for row in tokens for one in row):
            raise Unacceptable("ids: each must be a token of the model's vocabulary, given another")
        return responses.respond([tokenizer.decode(row) for row in tokens])

    with served.prediction_budget.permit(sum(map(len, tokens)), caller_of(exchange_of(request.scope))):
        return await state.present(served.manifest.name, None, write)


async def _read(request: Request, state: State) -> tuple[object, dict[str, object]]:
    """Return the inputs of a JSON document, and the parameters beside them."""
    document = await read_document(request, state.settings.max_text_bytes, state.settings)
    inputs, parameters = document.pop("inputs", None), document.pop("parameters", None)
    check_client_options(document.pop("options", None))
    return inputs, merged(parameters, document)


def _no_tokens(inputs: object) -> object:
    """Return inputs. Raises Unacceptable for tokens in place of texts."""
    if isinstance(inputs, list) and any(isinstance(one, int | list) for one in inputs):
        raise Unacceptable("inputs: must be texts; tokens of another tokenizer mean nothing here")
    return inputs


def _to_classify(inputs: object) -> tuple[list[Text], bool]:
    """Return texts and pairs, and whether they are a batch: two strings are a pair, lists of one or two a batch."""
    batch = isinstance(inputs, list) and bool(inputs) and isinstance(inputs[0], list)
    found: list[Text] = []
    for pieces in inputs if batch and isinstance(inputs, list) else [[inputs] if isinstance(inputs, str) else inputs]:
        if not isinstance(pieces, list) or len(pieces) not in (1, 2) or not all(isinstance(x, str) for x in pieces):
            raise Unacceptable("inputs: must be a string, a pair of strings, or a batch: a list of lists of one or two")
        found.append(pieces[0] if len(pieces) == 1 else Pair(*pieces))
    return found, batch


def _call(request: Request, state: State, served: Predictor, texts: Sequence[Text]) -> Call[Predictor]:
    return Call(state, exchange_of(request.scope), served, texts)


def _predictor(state: State, model: str, endpoint: str, task: Task) -> Predictor:
    """Return the model of a name if it is of a task. Raises NotFound and NotReady."""
    served = _texts(find(state, model), endpoint)
    if (own := served.manifest.task) != task:
        wrong = "Model is not an embedding model with SPLADE pooling" if task == SPARSE else f"is for {task}"
        wrong = "is not available for SPLADE models" if own == SPARSE else wrong
        raise NotFound(f"{endpoint}: {wrong}, this model's task is {own}")
    return narrowed(served, Predictor)


def _texts(served: S, endpoint: str) -> S:
    """Return a model that takes texts and can run: this one, or its partner. Raises NotFound and NotReady."""
    served = narrowed(served.taking([""]), type(served))
    if not served.inputs.tokenizer:
        raise NotFound(
            f"{endpoint}: takes texts, this model takes {served.inputs.plural}; "
            f"post them to /v1/models/{served.manifest.name}"
        )
    check_ready(served)
    return served


def _tokenizer(served: ServedModel) -> TextTokenizer:
    if not served.inputs.tokenizer:
        raise TypeError("inputs: must be texts")
    return served.inputs.tokenizer


def _shown(token: Token, text: str) -> dict[str, object]:
    """Return a token as tokenize answers it, with the part of the text that it is."""
    start, stop = token.span or (None, None)
    shown = text[start:stop] if token.span else token.text
    return {"id": token.index, "text": shown, "special": token.span is None, "start": start, "stop": stop}


def describe(served: ServedModel) -> dict[str, object]:
    """Return what `info` says of a model. Every `pooling` of all tokens is called mean."""
    manifest, settings = served.manifest, served.settings
    described: dict[str, object] = {
        "model_id": manifest.name,
        "model_sha": manifest.version,
        "model_dtype": DTYPES[manifest.precision],
        "model_pipeline_tag": manifest.task,
        "max_concurrent_requests": settings.max_connections,
        "max_batch_tokens": settings.batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": sort_of(served).most(settings),
        "auto_truncate": False,
        "tokenization_workers": 1,
        "version": VERSION,
        "sha": None,
        "docker_label": None,
    }
    if served.inputs.tokenizer:
        described["max_input_length"] = served.inputs.rule.max_tokens
    if manifest.task == "feature-extraction":
        described["model_type"] = {"embedding": {"pooling": POOLINGS[manifest.attention[0].pooled]}}
    if manifest.task == SPARSE:
        described["model_type"] = {"embedding": {"pooling": "splade"}}
    if manifest.task == "text-classification":
        names = manifest.labels or tuple(map(str, range(narrowed(served, Predictor).output_size)))
        by_index = {str(index): name for index, name in enumerate(names)}
        described["model_type"] = {
            "reranker" if "rerank" in served.endpoints else "classifier": {
                "id2label": by_index,
                "label2id": {name: index for index, name in enumerate(names)},
            }
        }
    return described
