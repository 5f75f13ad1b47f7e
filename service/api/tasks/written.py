"""Models that generate: a text for each input, or its tokens as they come."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np
from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.generations import generate
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import GENERATION, GenerationParameters, parse_parameters
from service.api.pipelines.texts import WrittenText
from service.api.reading.request_parsing import ParsedRequest
from service.api.tasks.answers import Answer, NativeEvents
from service.api.tasks.task import Json, Task
from service.api.tasks.tensors import Output, Row
from service.generation.token_selection import Hypothesis
from service.options.base import RequestOptions
from service.options.generation import GenerateOptions
from service.repository.models.generator import Generator
from service.store.stored_request import StoredRequest

T = TypeVar("T")


class Written(Task[Generator]):
    """A text that continues its input, translates it, or describes an image."""

    endpoint = "generate"
    model = Generator
    about = "Turn every text or image into a text, or continue it; with `stream`, send its tokens as they come."

    def options(self, served: Generator) -> type[RequestOptions]:
        """Return the options of generation."""
        return GenerateOptions

    def attention_options(self, served: Generator) -> type[RequestOptions]:
        """Return the same: attention is of what is generated."""
        return GenerateOptions

    def stored_options(self, served: Generator, stored: StoredRequest, parsed: ParsedRequest) -> RequestOptions:
        """Return the options with the languages of the stored request."""
        return GenerateOptions(
            priority=parsed.options(RequestOptions).priority,
            source_language=stored.source_language,
            target_language=stored.target_language,
        )

    async def answer(self, call: Call[Generator], options: RequestOptions) -> Response:
        """Generate."""
        own, served = _own(options), call.served
        events = NativeEvents(served)
        return await generate(call, own, sequence_of(served, own), Answer(call, own), events)

    async def attend(
        self, call: Call[Generator], options: RequestOptions, stored: StoredRequest | None = None
    ) -> Response:
        """Generate, or take the stored targets, and explain them."""
        targets = stored.targets if stored else None
        return await generate(call, _own(options), None, Answer(call, options), targets=targets)

    async def answer_pipeline(self, asked: Asked, served: Generator) -> Response:
        """Return the text that is generated from each input, or its tokens as events."""
        parameters = parse_parameters(GenerationParameters, asked.given, GENERATION, served.manifest)
        prompts = [given if isinstance(given, str) else "" for given in asked.inputs]
        written = WrittenText(served, parameters, prompts[0])

        async def respond(answered: Answered[Hypothesis]) -> Response:
            found = zip(answered.shown, prompts, strict=True)
            texts = [[written.answer(one, prompt) for one in (shown, *shown.others)] for shown, prompt in found]
            nested = asked.several and (max(map(len, texts)) > 1 or not written.has_names_of_tasks)
            return responses.respond(texts if nested else [one for several in texts for one in several])

        return await generate(asked.call(served), parameters.search(served), _itself, respond, written)

    def outputs(self, served: Generator) -> list[Output]:
        """Return the text, its score, and why it ended."""
        return [
            Output("text", "BYTES", (-1, 1)),
            Output("score", "FP32", (-1, 1)),
            Output("finish_reason", "BYTES", (-1, 1)),
        ]

    async def infer(
        self, call: Call[Generator], options: RequestOptions, respond: Callable[[Answered[Row]], Awaitable[Response]]
    ) -> Response:
        """Generate, as rows of tensors."""
        own = _own(options)
        show = sequence_of(call.served, own)

        def row(hypothesis: Hypothesis) -> Row:
            shown = show(hypothesis)
            return {
                "text": str(shown["text"]).encode(),
                "score": np.array([shown["score"]], np.float32),
                "finish_reason": str(shown["finish_reason"]).encode(),
            }

        return await generate(call, own, row, respond)


def _own(options: RequestOptions) -> GenerateOptions:
    assert isinstance(options, GenerateOptions)  # noqa: S101 # its own
    return options


def _itself(shown: T) -> T:
    return shown


def sequence_of(served: Generator, options: GenerateOptions) -> Callable[[Hypothesis], Json]:
    """Return what shows a generated text with its tokens, its score, and whether it ended or was cut."""
    generation, penalty = served.generation, served.penalty(options)

    def show(hypothesis: Hypothesis) -> Json:
        indices = generation.without_end(hypothesis.tokens)
        tokens = served.target_tokenizer.generated(indices, generation.ends)
        others = {"others": [show(one) for one in hypothesis.others]} if hypothesis.others else {}
        return {
            "text": served.target_tokenizer.decode(indices)[: hypothesis.until],
            "tokens": [
                {"index": place, "token": token.index, "text": token.text, "log_probability": log}
                | responses.alternatives(served, hypothesis.alternatives_at(place))
                for place, (token, log) in enumerate(zip(tokens, hypothesis.logs, strict=False))
            ],
            "score": hypothesis.score(penalty),
            "finish_reason": "length" if hypothesis.cut else "stop",
            **others,
        }

    return show
