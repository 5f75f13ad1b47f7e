"""The options of `answer`."""

from pydantic import Field

from service.options.base import SHARED, Overlap, RequestOptions
from service.options.predictions import Stride


class SpanOptions(RequestOptions):
    """Which spans of a context answer a question."""

    most_tokens: int = Field(15, ge=1, le=1000, description="tokens of an answer at most", json_schema_extra=SHARED)
    impossible: bool = Field(
        False, description="also that there is none: an empty answer with its score", json_schema_extra=SHARED
    )


class AnswerOptions(SpanOptions):
    """Options of `answer`, and of attention to what answers."""

    top_k: int = Field(1, ge=1, le=100, description="answers a question, best first")
    stride: Stride = None

    @property
    def windows(self) -> Overlap | None:
        """The windows in which long contexts are read."""
        return self.stride, None


class WindowedAnswerOptions(AnswerOptions):
    """The same, of windows that are known."""

    overlap: Overlap

    @property
    def windows(self) -> Overlap | None:
        """The same windows."""
        return self.overlap
