"""Classification of images and texts: labels with their probabilities."""

import functools

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from contract.manifest import Manifest
from service.answering.call import Answered, Call
from service.answering.modalities import modality_of
from service.answering.predictions import predict
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import (
    TEXTS,
    ImageClassificationParameters,
    Refused,
    TextClassificationParameters,
    parse_parameters,
)
from service.api.reading.call import call_of
from service.api.reading.sorts import read_own
from service.api.tasks import contrast, zero_shot
from service.api.tasks.explained import attend_to_best, one_logit
from service.api.tasks.task import Json, OnePass, Show
from service.api.tasks.tensors import Output, Row
from service.arrays import probabilities
from service.errors import Unacceptable
from service.options.base import RequestOptions
from service.options.predictions import ClassifyOptions, ContrastOptions, WindowOptions, ZeroShotOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction
from service.state import State
from service.store.stored_request import StoredRequest

PARAMETERS: dict[str, type[ImageClassificationParameters | TextClassificationParameters]] = {
    "image": ImageClassificationParameters,
    "sound": ImageClassificationParameters,
    "graph": ImageClassificationParameters,
    "text": TextClassificationParameters,
}
REFUSED: dict[str, Refused] = {"image": {}, "text": TEXTS, "sound": {}, "graph": {}}
"""Of Hugging Face's clients, by the modality of inputs."""
ALWAYS_LISTED = {"text"}
"""Clients take the first of a list, even of a single input."""


class Labels(OnePass[Predictor]):
    """The likeliest labels, best first."""

    endpoint = "classify"
    model = Predictor
    about = "Return the likeliest labels of every image, text, sound or graph."

    def options(self, served: Predictor) -> type[RequestOptions]:
        """Return the options of the modality; of pictures that are compared with labels, those of labels.

        Raises Unacceptable for texts, which these are compared with.
        """
        if served.manifest.contrast and served.inputs.tokenizer:
            raise Unacceptable("images: must be given to be classified by labels, given texts")
        return ContrastOptions if served.manifest.contrast else modality_of(served).classify_options

    def attention_options(self, served: Predictor) -> type[RequestOptions]:
        """Return the options of the modality; what ranks texts reads long ones in windows too."""
        return WindowOptions if "rerank" in served.endpoints else super().attention_options(served)

    def tensor_options(self, served: Predictor) -> type[RequestOptions]:
        """Return the options of the modality."""
        return super().attention_options(served)

    async def ask(self, request: Request, state: State, served: Predictor) -> Response:
        """Read the inputs and options of a request, and answer it; by labels of its own where it names some."""
        served, parsed = await read_own(request, state.settings, served)
        options = parsed.options(self.options(served))
        if isinstance(options, ContrastOptions):
            return await contrast.ask(request, state, served, parsed, options)
        if isinstance(options, ZeroShotOptions) and options.model_fields_set & zero_shot.NAMES:
            return await zero_shot.ask(request, state, served, parsed, options)
        return await self.answer(call_of(request, state, served, parsed), options)

    def asked_of_stored(self, served: Predictor, stored: StoredRequest, given: Json) -> Json:
        """Return options of attention; entailment is explained of a text and a label of a request."""
        return zero_shot.asked_of_stored(served, stored.inputs, given)

    def shown(self, served: Predictor, options: RequestOptions) -> Show[Json]:
        """Return what shows the labels of one input, each with its probability, or its `score` if that is a logit."""
        assert isinstance(options, ClassifyOptions)  # noqa: S101 # its own
        measure = "score" if served.manifest.scores == "identity" else "probability"

        def show(logits: Prediction) -> Json:
            best = likeliest_labels(served.manifest, logits, options.top_k)
            beside = {index: {"logit": float(logits[index])} if options.logits else {} for _, index, _ in best}
            return {
                "labels": [
                    {"label": label, "index": index, measure: chance, **beside[index]} for label, index, chance in best
                ]
            }

        return show

    async def attend(
        self, call: Call[Predictor], options: RequestOptions, stored: StoredRequest | None = None
    ) -> Response:
        """Explain; of a text that was ranked in windows, the best one."""
        if options.windows:
            return await attend_to_best(call, options, one_logit)
        return await super().attend(call, options, stored)

    async def answer_pipeline(self, asked: Asked, served: Predictor) -> Response:
        """Return the labels of every input; of those that the request names where it names some."""
        if served.inputs.tokenizer and "candidate_labels" in asked.given:
            return await zero_shot.answer_pipeline(asked, served)
        modality = served.inputs.modality
        options = parse_parameters(PARAMETERS[modality], asked.given, REFUSED[modality], served.manifest)

        async def respond(answered: Answered[list[Json]]) -> Response:
            listed = asked.several or modality in ALWAYS_LISTED
            return responses.respond(answered.shown if listed else answered.shown[0])

        show = scored_labels(options.applied(served.manifest), options.top_k)
        return await predict(asked.call(served), options, show, respond)

    def outputs(self, served: Predictor) -> list[Output]:
        """Return the probabilities of all classes, and the likeliest one."""
        return [Output("probabilities", "FP32", (-1, served.output_size)), Output("label", "BYTES", (-1, 1))]

    def row(self, served: Predictor, options: RequestOptions) -> Show[Row]:
        """Return what makes a row of logits."""
        return functools.partial(_row, served)


def _row(served: Predictor, logits: Prediction) -> Row:
    chances = probabilities(logits, served.manifest.scores)
    label = served.manifest.label_of(int(np.argmax(chances)))
    return {"probabilities": chances.astype(np.float32), "label": label.encode()}


def likeliest_labels(manifest: Manifest, logits: Prediction, top_k: int | None) -> list[tuple[str, int, float]]:
    """Return the likeliest labels with their indices and probabilities or scores, best first; equals by index."""
    chances = probabilities(logits, manifest.scores)
    best = np.argsort(-chances, kind="stable")[:top_k]
    return [
        (manifest.label_of(index), index, chance)
        for index, chance in zip(best.tolist(), chances[best].tolist(), strict=True)
    ]


def scored_labels(manifest: Manifest, top_k: int | None = None) -> Show[list[dict[str, object]]]:
    """Return what shows the likeliest labels, best first; all of them by default."""
    return lambda logits: [
        {"label": label, "score": score} for label, _, score in likeliest_labels(manifest, logits, top_k)
    ]
