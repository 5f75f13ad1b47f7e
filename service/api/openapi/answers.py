"""What the predictions answer, and the events of their streams; and problems."""

from typing import Literal

from pydantic import Field

from service.api.openapi.attention import Attention, Detected, Map
from service.api.openapi.components import Part


class Fault(Part):
    """One fault of a request's options."""

    loc: str
    msg: str


class Problem(Part):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str = Field(description="subject, limit, given")
    errors: list[Fault] | None = None
    error: dict[str, str | None] | None = Field(None, description="the same as OpenAI writes it; of /v1/models")


class Answer(Part):
    """The fields of every answer to a prediction."""

    id: str = Field(description="by which GET /v1/attention/{id} answers what the model looked at")
    model: str
    version: str


class Result(Part):
    """What an answer says of one input."""

    attention: Attention | None = Field(None, description="where the request asks for it")


class Label(Part):
    """A class and its probability, or its score."""

    label: str
    index: int
    probability: float | None = Field(None, description="of every model except those that answer a score")
    score: float | None = Field(None, description="the logit itself, of cross-encoders that declare no activation")


class ClassifiedResult(Result):
    """Labels of one image or text."""

    labels: list[Label] = Field(description="best first")


class Classified(Answer):
    """Answer of classify."""

    results: list[ClassifiedResult] = Field(description="one per input, in order")


class DetectedResult(Result):
    """The objects of one image."""

    objects: list[Detected] = Field(description="surest first")


class DetectedObjects(Answer):
    """Answer of detect."""

    results: list[DetectedResult] = Field(description="one per input, in order")


class EmbeddedResult(Result):
    """The vector of one text or image."""

    embedding: list[float]


class Embedded(Answer):
    """Answer of embed."""

    results: list[EmbeddedResult] = Field(description="one per input, in order")


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


class Alternative(Part):
    """A token that could stand in a generated one's place."""

    token: int
    text: str
    log_probability: float


class GeneratedToken(Part):
    """A generated token."""

    index: int = Field(description="its place in the text")
    token: int
    text: str
    log_probability: float
    alternatives: list[Alternative] | None = Field(None, description="the likeliest in its place, where asked for")


class GeneratedResult(Result):
    """The text generated from one text or image."""

    text: str
    tokens: list[GeneratedToken]
    score: float = Field(description="sum of the log-probabilities over length to the power of length_penalty")
    finish_reason: Literal["stop", "length"]


class Generated(Answer):
    """Answer of generate, and the event `done` of its stream."""

    results: list[GeneratedResult] = Field(description="one per input, in order")


class StreamedToken(Part):
    """The event `token` of a stream."""

    index: int = Field(description="its place in the text")
    token: int
    text: str = Field(description="what it adds to the text")
    alternatives: list[Alternative] | None = Field(None, description="the likeliest in its place, where asked for")
    attention: list[Map] | None = Field(None, description="its row of cross, with `steps` of attention")


class StreamFailed(Part):
    """The event `error` of a stream, which ends it."""

    status: int
    detail: str = Field(description="subject, limit, given")


class AttendedResult(Part):
    """Attention alone."""

    attention: Attention


class Attended(Answer):
    """Answer of attention."""

    results: list[AttendedResult] = Field(description="one per input, in order")
