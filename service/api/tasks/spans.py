"""Answers to questions, found in a context."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.modalities import PendingInput, ready
from service.answering.predictions import Then, predict
from service.api import responses
from service.api.pipelines.answers import QUESTIONS, QuestionAnsweringParameters
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import parse_parameters
from service.api.reading.request_parsing import ParsedRequest
from service.api.tasks.answers import Answer
from service.api.tasks.explained import by_input, explain_windows
from service.api.tasks.task import Json, Task
from service.api.tasks.tensors import Output, Row
from service.errors import TooLarge, Unacceptable
from service.explanations.score import ENDS
from service.inputs.model_input import ModelInput, Pair
from service.options.answers import AnswerOptions, SpanOptions, WindowedAnswerOptions
from service.options.base import RequestOptions
from service.repository.models.extractor import Extractor, FoundAnswer
from service.repository.models.served_model import Prediction
from service.store.stored_request import StoredRequest

ANSWER_BYTES = 120  # of an answer, beside its text
T = TypeVar("T")
Shown = Callable[[str, Sequence[FoundAnswer]], T]
"""Makes of a context and the answers in it what is shown of them."""


class Spans(Task[Extractor]):
    """The spans of a context that answer a question, best first."""

    endpoint = "answer"
    model = Extractor
    about = "Return what answers every question in its context, best first."

    def options(self, served: Extractor) -> type[RequestOptions]:
        """Return how many answers there are, and how long they may be."""
        return AnswerOptions

    def attention_options(self, served: Extractor) -> type[RequestOptions]:
        """Return the same, since answers are explained."""
        return AnswerOptions

    def stored_options(self, served: Extractor, stored: StoredRequest, parsed: ParsedRequest) -> RequestOptions:
        """Return the options of answers, with the windows of the stored request."""
        given = parsed.options(SpanOptions).model_dump()
        return WindowedAnswerOptions(**given, overlap=stored.overlap or (None, None))

    async def answer(self, call: Call[Extractor], options: RequestOptions) -> Response:
        """Predict, and find the answers."""
        return await _answered(call, options, _document, Answer(call, options))

    async def attend(
        self, call: Call[Extractor], options: RequestOptions, stored: StoredRequest | None = None
    ) -> Response:
        """Explain; what is found is not shown."""
        return await _answered(call, options, _nothing, Answer(call, options))

    async def answer_pipeline(self, asked: Asked, served: Extractor) -> Response:
        """Return the answer to a question, or a list of several; of several questions, a list for each."""
        given = parse_parameters(QuestionAnsweringParameters, asked.given, QUESTIONS, served.manifest)

        async def respond(answered: Answered[list[Json]]) -> Response:
            listed = [one[0] if len(one) == 1 else one for one in answered.shown]
            return responses.respond(listed if asked.several else listed[0])

        options = given.asked(served.inputs.longest[served.inputs.axis])
        return await _answered(asked.call(served), options, _as_pipeline, respond, words=given.align_to_words)

    def outputs(self, served: Extractor) -> list[Output]:
        """Return the answers, as a document."""
        return [Output("answers", "BYTES", (-1, 1))]

    async def infer(
        self, call: Call[Extractor], options: RequestOptions, respond: Callable[[Answered[Row]], Awaitable[Response]]
    ) -> Response:
        """Predict, as rows of documents."""

        def show(context: str, found: Sequence[FoundAnswer]) -> Row:
            return {"answers": responses.dump(_document(context, found)["answers"])}

        return await _answered(call, options, show, respond)


async def _answered(
    call: Call[Extractor],
    options: RequestOptions,
    show: Shown[T],
    respond: Callable[[Answered[T]], Awaitable[Response]],
    *,
    words: bool = False,
) -> Response:
    """Return what `respond` makes of the answers of each input, as `show` has them, and of attention if asked for.

    All windows of all contexts are predicted; of each context, the window is explained that holds the answer.
    """
    assert isinstance(options, AnswerOptions)  # noqa: S101 # its own
    served, query = call.served, call.query
    number = query.targets[0] // len(ENDS) if query and query.targets else 0

    async def respond_to(answered: Answered[Prediction]) -> Response | Then:
        items = [await one.decode() for one in answered.inputs]
        found = await call.present(_found, served, answered, items, max(options.top_k, number + 1), options, words)
        contexts = [one.text_pair for one in call.inputs if isinstance(one, Pair)]
        _check_size(contexts, found, call.state.settings.max_answer_bytes)
        shown = [show(one, own[: options.top_k]) for one, own in zip(contexts, found, strict=True)]
        if query is None:
            return await respond(Answered(answered.id, [(one, None) for one in shown], answered.inputs))
        if any(number >= len(own) for own in found):
            least = min(map(len, found))
            raise Unacceptable(f"target: must be an answer that is found, of which there are {least}, given another")
        starts = [places[0] for places in by_input(answered)]
        prepared = [
            _explaining(answered.inputs, items, start + own[number].window, own[number])
            for start, own in zip(starts, found, strict=True)
        ]
        return explain_windows(call, options, answered, shown, prepared, respond)

    return await predict(replace(call, query=None), options, lambda prediction: prediction, respond_to)


def _found(
    served: Extractor,
    answered: Answered[Prediction],
    items: Sequence[ModelInput],
    top_k: int,
    options: AnswerOptions,
    words: bool,  # a thread is given its arguments in order
) -> list[list[FoundAnswer]]:
    """Return the answers in each context, of all of its windows."""
    find = functools.partial(served.answers, impossible=options.impossible, words=words)
    windows = [[(items[place], answered.shown[place]) for place in places] for places in by_input(answered)]
    return [find(own, top_k, options.most_tokens) for own in windows]


def _explaining(
    inputs: Sequence[PendingInput], items: Sequence[ModelInput], place: int, answer: FoundAnswer
) -> PendingInput:
    """Return a window with the tokens of the answer that is explained."""
    return ready(inputs[place], replace(items[place], ends=answer.ends))


def _check_size(contexts: Sequence[str], found: Sequence[Sequence[FoundAnswer]], limit: int) -> None:
    """Raise TooLarge for answers of more bytes than an answer may have."""
    size = sum(
        ANSWER_BYTES + len(context[slice(*one.span)].encode(errors="surrogatepass"))
        for context, own in zip(contexts, found, strict=True)
        for one in own
    )
    if size > limit:
        raise TooLarge(f"answers: at most {limit} bytes, these would have {size}; ask for fewer top_k")


def _document(context: str, found: Sequence[FoundAnswer]) -> Json:
    return {
        "answers": [
            {"text": context[slice(*one.span)], "start": one.span[0], "end": one.span[1], "score": one.score}
            for one in found
        ]
    }


def _nothing(context: str, found: Sequence[FoundAnswer]) -> Json:
    return {}


def _as_pipeline(context: str, found: Sequence[FoundAnswer]) -> list[Json]:
    return [
        {"score": one.score, "start": one.span[0], "end": one.span[1], "answer": context[slice(*one.span)]}
        for one in found
    ]
