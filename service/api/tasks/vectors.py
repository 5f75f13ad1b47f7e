"""Embeddings of images and texts."""

import numpy as np
from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.modalities import modality_of
from service.answering.predictions import predict
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import VECTORS, Refused, parse_parameters
from service.api.tasks import contrast
from service.api.tasks.task import Json, OnePass, Show
from service.api.tasks.tensors import Output, Row
from service.options.base import RequestOptions
from service.options.predictions import CutOptions, EmbedOptions, EmbedTextOptions, PromptOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction

OPTIONS: dict[str, type[EmbedOptions]] = {
    "image": EmbedOptions,
    "text": EmbedTextOptions,
    "sound": EmbedOptions,
    "graph": EmbedOptions,
}
"""By the modality of inputs."""
ATTENTION: dict[str, type[CutOptions]] = {
    "image": CutOptions,
    "text": PromptOptions,
    "sound": CutOptions,
    "graph": CutOptions,
}
"""Those of attention alone."""
REFUSED: dict[str, Refused] = {"image": {}, "text": VECTORS, "sound": {}, "graph": {}}
"""Of Hugging Face's clients, by the modality of inputs."""


class Vectors(OnePass[Predictor]):
    """A vector for each input."""

    endpoint = "embed"
    model = Predictor
    about = "Return a vector for every text, image, sound or graph; similar inputs have similar vectors."

    def options(self, served: Predictor) -> type[RequestOptions]:
        """Return the options of the modality."""
        return OPTIONS[served.inputs.modality]

    def attention_options(self, served: Predictor) -> type[RequestOptions]:
        """Return the options of the modality, without what explains no likeness."""
        return ATTENTION[served.inputs.modality]

    def tensor_options(self, served: Predictor) -> type[RequestOptions]:
        """Return those of any request: tensors are whole vectors."""
        return modality_of(served).options

    def shown(self, served: Predictor, options: RequestOptions) -> Show[Json]:
        """Return what shows a vector."""
        cut = as_asked(options)
        return lambda vector: {"embedding": cut(vector)}

    async def answer_pipeline(self, asked: Asked, served: Predictor) -> Response:
        """Return a vector for each input, or of the first text the cosines with the others."""
        if served.manifest.contrast and "candidate_labels" in asked.given:
            return await contrast.answer_pipeline(asked, served)
        modality = served.inputs.modality
        options = parse_parameters(OPTIONS[modality], asked.given, REFUSED[modality], served.manifest)
        return await vectors(asked.call(served), options, compared=asked.compared)

    def outputs(self, served: Predictor) -> list[Output]:
        """Return the vectors."""
        return [Output("embedding", "FP32", (-1, served.output_size))]

    def row(self, served: Predictor, options: RequestOptions) -> Show[Row]:
        """Return what makes a row of a vector."""
        return lambda vector: {"embedding": vector}


async def vectors(call: Call[Predictor], options: CutOptions, *, compared: bool = False) -> Response:
    """Return the vectors of a call's inputs, or the cosines of the first with the others. Raises Unacceptable."""
    cut = as_asked(options, compared=compared)

    async def respond(answered: Answered[Prediction]) -> Response:
        if compared:
            first, *others = (vector.astype(np.float64) for vector in answered.shown)
            return responses.respond([float(first @ other) for other in others])
        return responses.respond(answered.shown)

    return await predict(call, options, cut, respond)


def as_asked(options: RequestOptions, *, compared: bool = False) -> Show[Prediction]:
    """Return what makes a vector of what the model answers: its first numbers, then perhaps of length one.

    The numbers that are left are not of length one where the whole vector was, so they are divided by it again unless
    the request says otherwise (Matryoshka representations, Kusupati et al. 2022, arXiv 2205.13147).
    """
    dimensions = options.dimensions if isinstance(options, CutOptions) else None
    asked = options.normalize if isinstance(options, EmbedOptions) else None
    divided = compared or (dimensions is not None if asked is None else asked)
    return lambda vector: unit(vector[:dimensions]) if divided else vector[:dimensions]


def unit(vector: Prediction) -> Prediction:
    """Return a vector divided by its length; zeros as they are."""
    exact = vector.astype(np.float64)
    return (exact / max(float(np.linalg.norm(exact)), 1e-12)).astype(np.float32)
