"""The protocol of Hugging Face's pipelines: inputs are posted to a model's own path and answered as its task has it.

`huggingface_hub.InferenceClient(model=".../v1/models/NAME")` speaks it. `texts.py` writes what is generated;
`parameters.py` says which of the clients' parameters are honoured.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar

import numpy as np
import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from contract.manifest import Manifest
from service.answering.call import Answered, Call, answer, check_ready, find, narrowed
from service.answering.generations import generate
from service.answering.predictions import predict
from service.api import responses
from service.api.hugging_face.masks import Candidates, Filling, mask_spans
from service.api.hugging_face.parameters import (
    GENERATION,
    TEXTS,
    VECTORS,
    EmbeddingParameters,
    FillMaskParameters,
    GenerationParameters,
    ImageClassificationParameters,
    ObjectDetectionParameters,
    Refused,
    TextClassificationParameters,
    TextEmbeddingParameters,
    check_client_options,
    merged,
    parse_parameters,
)
from service.api.hugging_face.texts import WrittenText, error_type
from service.api.reading.request_parsing import (
    content_type,
    parse_texts,
    read_document,
)
from service.api.reading.sorts import sort_of
from service.generation.token_selection import Hypothesis
from service.http.exchange import exchange_of
from service.inputs.model_input import Text
from service.options.predictions import DetectOptions
from service.repository.models.detector import Detector
from service.repository.models.generator import Generator
from service.repository.models.predictor import MaskFiller, Predictor
from service.repository.models.served_model import Prediction, ServedModel
from service.state import State, StateDep

S = TypeVar("S", bound=ServedModel)
T = TypeVar("T")
Show = Callable[[Prediction], T]

router = APIRouter(tags=["Hugging Face"])
BESIDE = ("info", "health")
"""What InferenceClient asks for beneath the path that it posts to."""
CLASSIFICATION: dict[str, type[ImageClassificationParameters | TextClassificationParameters]] = {
    "image": ImageClassificationParameters,
    "text": TextClassificationParameters,
}
EMBEDDING: dict[str, type[EmbeddingParameters]] = {"image": EmbeddingParameters, "text": TextEmbeddingParameters}
REFUSED: dict[str, Refused] = {"image": {}, "text": TEXTS}
REFUSED_OF_VECTORS: dict[str, Refused] = {"image": {}, "text": VECTORS}
"""Parameters by the modality of inputs."""
ALWAYS_LISTED = {"text"}
"""Clients take the first of a list, even of a single input."""
SIMILARITY = {"source_sentence", "sentences"}
"""The members of `inputs` where texts are compared with one."""


def error(
    status: int, detail: str, errors: Sequence[Mapping[str, str]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as an answer in the manner of this protocol."""
    body = {"error": detail, "error_type": error_type(status, "generation")}
    return Response(orjson.dumps(body), int(status), dict(headers or {}), "application/json")


@router.post("/v1/models/{model}", operation_id="hugging_face_pipeline")
async def pipeline(model: str, request: Request, state: StateDep) -> Response:
    """Answer inputs as the pipeline of the model's task does; text generation with `stream` sends tokens as events."""
    served = find(state, model)
    check_ready(served)
    return await answer(request, state, served, _answer(request, state, served))


# Reading


@dataclass(frozen=True)
class Asked:
    """What was posted to a model."""

    state: State
    request: Request
    inputs: Sequence[bytes | Text]
    given: Mapping[str, object]
    """The parameters."""
    several: bool = False
    """True if the inputs are a list."""
    compared: bool = False
    """True if the first text is compared with the others."""

    def call(self, served: S) -> Call[S]:
        """Return what is asked of a model."""
        return Call(self.state, exchange_of(self.request.scope), served, self.inputs)


async def _answer(request: Request, state: State, served: ServedModel) -> Response:
    asked = await _read(request, state, served)
    if isinstance(served, MaskFiller):
        return await _fill_masks(asked, served)
    if isinstance(served, Detector):
        return await _detect(asked, served)
    if isinstance(served, Predictor):
        return await (_classify if served.manifest.task.endswith("classification") else _embed)(asked, served)
    return await _generate(asked, narrowed(served, Generator))


async def _read(request: Request, state: State, served: ServedModel) -> Asked:
    """Read an image, or a JSON document of inputs and parameters. Raises the refusals of `request_parsing`."""
    settings = state.settings
    sort = sort_of(served)
    kind, _ = content_type(request)
    raw = await sort.read_raw(request, kind, settings)
    if raw is not None:
        return Asked(state, request, [raw], {})
    document = await read_document(request, sort.most_bytes(settings), settings)
    inputs, parameters = document.pop("inputs", None), document.pop("parameters", None)
    check_client_options(document.pop("options", None))
    given = merged(parameters, document)
    if served.inputs.tokenizer and served.manifest.task == "feature-extraction" and _is_comparison(inputs):
        texts = parse_texts([inputs["source_sentence"], *inputs["sentences"]], settings)
        return Asked(state, request, texts, given, several=True, compared=True)
    several = isinstance(inputs, list)
    return Asked(state, request, await sort.read_inputs(inputs, settings, served.manifest.task), given, several)


def _is_comparison(inputs: object) -> TypeGuard[dict[str, Any]]:
    """Return whether inputs are texts to compare with one."""
    return isinstance(inputs, dict) and inputs.keys() == SIMILARITY and isinstance(inputs["sentences"], list)


# Answering


async def _classify(asked: Asked, served: Predictor) -> Response:
    """Return the labels of every input."""
    modality = served.inputs.modality
    options = parse_parameters(CLASSIFICATION[modality], asked.given, REFUSED[modality], served.manifest)
    show = labels(options.applied(served.manifest), options.top_k)

    async def respond(answered: Answered[list[dict[str, object]]]) -> Response:
        listed = asked.several or modality in ALWAYS_LISTED
        return responses.respond(answered.shown if listed else answered.shown[0])

    return await predict(asked.call(served), options, show, respond)


def labels(manifest: Manifest, top_k: int | None = None) -> Show[list[dict[str, object]]]:
    """Return what shows the likeliest labels, best first; all of them by default."""
    return lambda logits: [
        {"label": label, "score": score} for label, _, score in responses.likeliest_labels(manifest, logits, top_k)
    ]


async def _detect(asked: Asked, served: Detector) -> Response:
    """Return the objects of an image, or of each of several, surest first."""
    options = parse_parameters(ObjectDetectionParameters, asked.given, {}, served.manifest)

    async def respond(answered: Answered[list[dict[str, object]]]) -> Response:
        return responses.respond(answered.shown if asked.several else answered.shown[0])

    return await predict(asked.call(served), options, objects(served, options), respond)


def objects(served: Detector, options: DetectOptions) -> Show[list[dict[str, object]]]:
    """Return what shows the objects that are found; edges are cut to whole pixels, as transformers does."""
    return lambda prediction: [
        {
            "score": one.probability,
            "label": one.label,
            "box": dict(zip(("xmin", "ymin", "xmax", "ymax"), map(int, one.box), strict=True)),
        }
        for one in served.found(prediction, options)
    ]


async def _embed(asked: Asked, served: Predictor) -> Response:
    """Return a vector for each input, or of the first text the cosines with the others."""
    modality = served.inputs.modality
    options = parse_parameters(EMBEDDING[modality], asked.given, REFUSED_OF_VECTORS[modality], served.manifest)
    return await vectors(asked.call(served), options, compared=asked.compared)


async def vectors(call: Call[Predictor], options: EmbeddingParameters, *, compared: bool = False) -> Response:
    """Return the vectors of a call's inputs, or the cosines of the first with the others. Raises Unacceptable."""
    options.check_dimensions(call.served.output_size)

    async def respond(answered: Answered[Prediction]) -> Response:
        if compared:
            first, *others = (vector.astype(np.float64) for vector in answered.shown)
            return responses.respond([float(first @ other) for other in others])
        return responses.respond(answered.shown)

    return await predict(call, options, unit if compared or options.normalize else _itself, respond)


def unit(vector: Prediction) -> Prediction:
    """Return a vector divided by its length; zeros as they are."""
    exact = vector.astype(np.float64)
    return (exact / max(float(np.linalg.norm(exact)), 1e-12)).astype(np.float32)


def _itself(shown: T) -> T:
    return shown


async def _fill_masks(asked: Asked, served: MaskFiller) -> Response:
    """Return what every mask may stand for: of a text with one mask a list, of one with several a list for each."""
    masks = parse_parameters(FillMaskParameters, asked.given, TEXTS, served.manifest)
    filling, call = Filling(served, masks.top_k, masks.tokens(served)), asked.call(served)

    async def respond(answered: Answered[list[Candidates]]) -> Response:
        spans = await mask_spans(served, answered)
        texts = [str(text) for text in asked.inputs]
        write = functools.partial(filling.write, texts, spans, answered.shown, several=asked.several)
        return await call.present(write)

    return await predict(call, masks.filled(asked.inputs), filling, respond)


async def _generate(asked: Asked, served: Generator) -> Response:
    """Return the text that is generated from each input, or its tokens as events."""
    parameters = parse_parameters(GenerationParameters, asked.given, GENERATION, served.manifest)
    prompts = [one if isinstance(one, str) else "" for one in asked.inputs]
    written = WrittenText(served, parameters, prompts[0])

    async def respond(answered: Answered[Hypothesis]) -> Response:
        texts = [written.answer(one, prompt) for one, prompt in zip(answered.shown, prompts, strict=True)]
        nested = asked.several and served.manifest.task != "text2text-generation"
        return responses.respond([[text] for text in texts] if nested else texts)

    return await generate(asked.call(served), parameters.search(served), _itself, respond, written)
