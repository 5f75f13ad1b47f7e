"""Answers to questions as Hugging Face's clients ask for them."""

from pydantic import Field

from service.api.pipelines.parameters import Refused
from service.options.answers import WindowedAnswerOptions
from service.options.base import RequestOptions

LEAST_WINDOW, USUAL_WINDOW, USUAL_STRIDE = 8, 384, 128
QUESTIONS: Refused = {
    "max_question_len": ((64,), "a question is never cut off"),
    "padding": ((), "nothing is padded that an answer depends on"),
}


class QuestionAnsweringParameters(RequestOptions):
    """Parameters of question-answering."""

    top_k: int = Field(1, ge=1, le=100)
    doc_stride: int | None = Field(None, ge=0, le=100_000)
    max_answer_len: int = Field(15, ge=1, le=1000)
    max_seq_len: int = Field(USUAL_WINDOW, ge=LEAST_WINDOW, le=100_000)
    handle_impossible_answer: bool = False
    align_to_words: bool = True

    def asked(self, most: int) -> WindowedAnswerOptions:
        """Return the same of our own endpoint, for a model of `most` tokens. Windows are as the pipeline has them."""
        window = min(self.max_seq_len, most)
        stride = min(window // 2, USUAL_STRIDE) if self.doc_stride is None else self.doc_stride
        return WindowedAnswerOptions(
            top_k=self.top_k, most_tokens=self.max_answer_len, impossible=self.handle_impossible_answer,
            overlap=(stride, window), priority=self.priority,
        )  # fmt: skip
