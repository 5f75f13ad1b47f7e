"""What an embedding takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import any_of
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import IMAGES, SOUNDS, Graphs, Images, Sounds, Texts, form, query, raw_or
from service.options.attention import AttentionOptions
from service.options.base import RequestOptions
from service.options.predictions import EmbedOptions, EmbedTextOptions


class EmbeddedResult(Result):
    """The vector of one text or image."""

    embedding: list[float]


class Embedded(Answer):
    """Answer of embed."""

    results: list[EmbeddedResult] = Field(description="one per input, in order")


class EmbedImages(EmbedOptions, Images):
    """Images to embed."""


class EmbedSounds(EmbedOptions, Sounds):
    """Sounds to embed."""


class EmbedGraphs(EmbedOptions, Graphs):
    """Graphs to embed."""


class EmbedTexts(EmbedTextOptions, Texts):
    """Texts to embed."""


NAME = "embed"
OPERATION = prediction(
    Embedded,
    raw_or(
        any_of(EmbedImages, EmbedSounds, EmbedGraphs, EmbedTexts),
        form("EmbedForm", EmbedOptions),
        (*IMAGES, *SOUNDS),
    ),
    query(RequestOptions, EmbedOptions, AttentionOptions),
)
PARAMETERS = (EmbedTextOptions, EmbedOptions)
ANSWERS = ()
