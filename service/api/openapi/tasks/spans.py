"""What answering questions takes and answers."""

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import Part, in_json
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import Question
from service.api.pipelines.answers import QuestionAnsweringParameters
from service.options.answers import AnswerOptions
from service.options.attention import AttentionOptions


class Span(Part):
    """An answer, and its characters in the context."""

    text: str
    start: int
    end: int
    score: float


class AnsweredQuestion(Result):
    """The answers to one question."""

    answers: list[Span]


class AnsweredQuestions(Answer):
    """Answer of answer."""

    results: list[AnsweredQuestion]


class AskQuestions(AnswerOptions):
    """Questions, each with its context."""

    inputs: Question | list[Question]
    attention: AttentionOptions = AttentionOptions()


class ScoredAnswer(Part):
    """An answer."""

    score: float
    start: int
    end: int
    answer: str


NAME = "answer"
OPERATION = prediction(AnsweredQuestions, in_json(AskQuestions), [])
PARAMETERS = (QuestionAnsweringParameters,)
ANSWERS = (ScoredAnswer,)
