"""Embeddings of images and texts."""

from typing import TypeVar

import numpy as np
from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.modalities import modality_of
from service.answering.predictions import predict
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import (
    VECTORS,
    EmbeddingParameters,
    Refused,
    TextEmbeddingParameters,
    parse_parameters,
)
from service.api.tasks.task import Json, OnePass, Show
from service.api.tasks.tensors import Output, Row
from service.options.base import RequestOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction

T = TypeVar("T")
PARAMETERS: dict[str, type[EmbeddingParameters]] = {"image": EmbeddingParameters, "text": TextEmbeddingParameters}
REFUSED: dict[str, Refused] = {"image": {}, "text": VECTORS}
"""Of Hugging Face's clients, by the modality of inputs."""


class Vectors(OnePass[Predictor]):
    """A vector for each input."""

    endpoint = "embed"
    model = Predictor
    about = "Return a vector for every text or image; similar inputs have similar vectors."

    def options(self, served: Predictor) -> type[RequestOptions]:
        """Return the options of the modality."""
        return modality_of(served).options

    def shown(self, served: Predictor, options: RequestOptions) -> Show[Json]:
        """Return what shows a vector."""
        return embedding

    async def answer_pipeline(self, asked: Asked, served: Predictor) -> Response:
        """Return a vector for each input, or of the first text the cosines with the others."""
        modality = served.inputs.modality
        options = parse_parameters(PARAMETERS[modality], asked.given, REFUSED[modality], served.manifest)
        return await vectors(asked.call(served), options, compared=asked.compared)

    def outputs(self, served: Predictor) -> list[Output]:
        """Return the vectors."""
        return [Output("embedding", "FP32", (-1, served.output_size))]

    def row(self, served: Predictor, options: RequestOptions) -> Show[Row]:
        """Return what makes a row of a vector."""
        return lambda vector: {"embedding": vector}


def embedding(vector: Prediction) -> Json:
    """Return an embedding."""
    return {"embedding": vector}


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
