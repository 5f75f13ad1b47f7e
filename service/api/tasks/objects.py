"""Detection: the objects of an image, with their boxes."""

import numpy as np
from starlette.responses import Response

from contract.manifest import BOX_NUMBERS
from service.answering.call import Answered
from service.answering.modalities import modality_of
from service.answering.predictions import predict
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import ObjectDetectionParameters, parse_parameters
from service.api.reading.request_parsing import ParsedRequest
from service.api.tasks.task import Json, OnePass, Show
from service.api.tasks.tensors import Output, Row
from service.options.base import RequestOptions
from service.options.predictions import DetectOptions
from service.repository.models.detector import Detector
from service.store.stored_request import StoredRequest


class Objects(OnePass[Detector]):
    """The objects that are found, surest first."""

    endpoint = "detect"
    model = Detector
    about = "Return the objects that are found in every image: what they are, and where."

    def options(self, served: Detector) -> type[RequestOptions]:
        """Return the threshold and the number of objects."""
        return DetectOptions

    def stored_options(self, served: Detector, stored: StoredRequest, parsed: ParsedRequest) -> RequestOptions:
        """Return which objects count as found."""
        return modality_of(served).stored_options(stored, parsed.options(DetectOptions))

    def shown(self, served: Detector, options: RequestOptions) -> Show[Json]:
        """Return what shows the objects of one input, each with its probability, its number, and its box in pixels."""
        assert isinstance(options, DetectOptions)  # noqa: S101 # its own
        return lambda prediction: {"objects": [one.json() for one in served.found(prediction, options)]}

    async def answer_pipeline(self, asked: Asked, served: Detector) -> Response:
        """Return the objects of an image, or of each of several, surest first."""
        options = parse_parameters(ObjectDetectionParameters, asked.given, {}, served.manifest)

        async def respond(answered: Answered[list[Json]]) -> Response:
            return responses.respond(answered.shown if asked.several else answered.shown[0])

        return await predict(asked.call(served), options, scored_objects(served, options), respond)

    def outputs(self, served: Detector) -> list[Output]:
        """Describe the probabilities of classes and the box (left, top, right, bottom, in pixels) of each object."""
        objects = served.detection.objects
        return [
            Output("probabilities", "FP32", (-1, objects, served.output_size)),
            Output("boxes", "FP32", (-1, objects, BOX_NUMBERS)),
        ]

    def row(self, served: Detector, options: RequestOptions) -> Show[Row]:
        """Return what makes a row of a prediction."""
        return lambda prediction: {
            "probabilities": served.chances(prediction).astype(np.float32),
            "boxes": prediction[:, -BOX_NUMBERS:],
        }


def scored_objects(served: Detector, options: DetectOptions) -> Show[list[Json]]:
    """Return what shows the objects that are found; edges are cut to whole pixels, as transformers does."""
    return lambda prediction: [
        {
            "score": one.probability,
            "label": one.label,
            "box": dict(zip(("xmin", "ymin", "xmax", "ymax"), map(int, one.box), strict=True)),
        }
        for one in served.found(prediction, options)
    ]
