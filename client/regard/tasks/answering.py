"""Answers to questions, found in a context."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.maps import Json
from regard.results import Result
from regard.tasks.task import CommonOptions, Task


class AnswerOptions(CommonOptions, total=False):
    """What `answer` takes."""

    top_k: int
    """How many answers there are, best first (1)."""
    most_tokens: int
    """How many tokens an answer has at most (15)."""
    stride: int
    """How many tokens a window of a long context shares with the one before (128, or half of a smaller one)."""
    impossible: bool
    """Whether there may be no answer: an empty one, with a score of its own (False)."""


@dataclass(frozen=True)
class Answer:
    """A part of a context that answers a question; empty where there is none."""

    text: str
    start: int
    """In characters of the context."""
    end: int
    score: float


@dataclass(frozen=True, eq=False)
class Answered(Result):
    """The answers to a question, best first; their numbers are the `target` of attention."""

    answers: Sequence[Answer]

    @property
    def text(self) -> str:
        """The best answer."""
        return self.answers[0].text

    @classmethod
    def _read(cls, json: Json) -> Json:
        names = ("text", "start", "end", "score")
        return {"answers": [Answer(*(one[name] for name in names)) for one in json["answers"]]}

    @property
    def said(self) -> str:
        """The best answer."""
        return self.text

    def _words(self) -> str:
        return ", ".join(f"{one.text or 'no answer'} {one.score:.1%}" for one in self.answers)


ANSWER = Task("answer", Answered, of_rows=("most_tokens", "impossible"))
