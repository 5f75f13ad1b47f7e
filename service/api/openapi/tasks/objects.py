"""What a detection takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.attention import Detected
from service.api.openapi.components import COMPONENTS, Part
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import Images, form, query, raw_or
from service.api.pipelines.parameters import (
    ObjectDetectionParameters,
)
from service.options.attention import AttentionOptions
from service.options.base import RequestOptions
from service.options.predictions import DetectOptions


class DetectedResult(Result):
    """The objects of one image."""

    objects: list[Detected] = Field(description="surest first")


class DetectedObjects(Answer):
    """Answer of detect."""

    results: list[DetectedResult] = Field(description="one per input, in order")


class DetectImages(DetectOptions, Images):
    """Images to find objects in."""


class PixelBox(Part):
    """A rectangle, in whole pixels of the image as it was sent, upright."""

    xmin: int
    ymin: int
    xmax: int
    ymax: int


class ScoredObject(Part):
    """An object of an image: its class, its score, and where it is."""

    score: float
    label: str
    box: PixelBox


NAME = "detect"
OPERATION = prediction(
    DetectedObjects,
    raw_or(COMPONENTS.schema(DetectImages), form("DetectForm", DetectOptions)),
    query(RequestOptions, DetectOptions, AttentionOptions),
)
PARAMETERS = (ObjectDetectionParameters,)
ANSWERS = (ScoredObject,)
