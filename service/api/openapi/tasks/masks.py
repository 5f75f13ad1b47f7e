"""What filling masks takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import Part, in_json
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import Texts
from service.api.pipelines.masks import FillMaskParameters
from service.options.masks import FillMaskOptions


class Candidate(Part):
    """A token that a mask may stand for, and its probability."""

    token: int
    text: str
    probability: float


class FilledResult(Result):
    """The candidates of every mask of one text, in the order of the text."""

    candidates: list[list[Candidate]] = Field(description="best first")


class Filled(Answer):
    """Answer of fill-mask."""

    results: list[FilledResult] = Field(description="one per input, in order")


class FillMasks(FillMaskOptions, Texts):
    """Texts with masks to fill."""


class FilledMask(Part):
    """A token that a mask may stand for, with the whole text that it makes."""

    score: float
    token: int
    token_str: str
    sequence: str


NAME = "fill_mask"
OPERATION = prediction(Filled, in_json(FillMasks), [])
PARAMETERS = (FillMaskParameters,)
ANSWERS = (FilledMask,)
