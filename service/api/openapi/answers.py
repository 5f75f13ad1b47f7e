"""What the predictions answer, and the events of their streams; and problems."""

from pydantic import Field

from service.api.openapi.attention import Attention
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

    id: str = Field(description="of GET /v1/attention/{id}")
    model: str
    version: str


class OfInput(Part):
    """What every result has."""

    id: str | None = Field(None, description="that of this input, where the request had several")


class Result(OfInput):
    """What an answer says of one input."""

    attention: Attention | None = None


class AttendedResult(OfInput):
    """Attention alone."""

    attention: Attention


class Attended(Answer):
    """Answer of attention."""

    results: list[AttendedResult] = Field(description="one per input, in order")
