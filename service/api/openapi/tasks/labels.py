"""What a classification takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import Part, any_of
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import IMAGES, SOUNDS, Graphs, Images, Sounds, TextsOrPairs, form, query, raw_or
from service.api.pipelines.parameters import (
    ImageClassificationParameters,
    TextClassificationParameters,
    ZeroShotImageParameters,
    ZeroShotParameters,
)
from service.options.attention import AttentionOptions
from service.options.base import RequestOptions
from service.options.predictions import ClassifyOptions, ContrastOptions, ZeroShotOptions


class Label(Part):
    """A class and its probability, or its score."""

    label: str
    index: int
    probability: float | None = Field(None, description="of every model except those that answer a score")
    score: float | None = Field(None, description="the logit itself, of cross-encoders that declare no activation")
    logit: float | None = Field(None, description="where the request asks for logits")


class ClassifiedResult(Result):
    """Labels of one image or text."""

    labels: list[Label] = Field(description="best first")
    hypothesis: str | None = Field(
        None, description="the sentence of the request's label that `id` and attention are of"
    )


class Classified(Answer):
    """Answer of classify."""

    results: list[ClassifiedResult] = Field(description="one per input, in order")


class ClassifyImages(ClassifyOptions, Images):
    """Images to classify."""


class ClassifyByLabels(ContrastOptions, Images):
    """Images to classify by labels of the request, of models that compare pictures with texts."""


class ClassifySounds(ClassifyOptions, Sounds):
    """Sounds to classify."""


class ClassifyGraphs(ClassifyOptions, Graphs):
    """Graphs to classify."""


class ClassifyTexts(ZeroShotOptions, TextsOrPairs):
    """Texts to classify."""


class ScoredLabel(Part):
    """A class and its score."""

    label: str
    score: float


NAME = "classify"
OPERATION = prediction(
    Classified,
    raw_or(
        any_of(ClassifyImages, ClassifyByLabels, ClassifySounds, ClassifyGraphs, ClassifyTexts),
        form("ClassifyForm", ContrastOptions),
        (*IMAGES, *SOUNDS),
    ),
    query(RequestOptions, ContrastOptions, AttentionOptions),
)
PARAMETERS = (
    TextClassificationParameters,
    ZeroShotParameters,
    ZeroShotImageParameters,
    ImageClassificationParameters,
)
ANSWERS = (ScoredLabel,)
