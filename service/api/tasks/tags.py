"""Classification of tokens: the entities of texts."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.modalities import ready
from service.answering.predictions import Then, predict
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import TEXTS, parse_parameters
from service.api.pipelines.tags import TokenClassificationParameters, scored_entity
from service.api.reading.request_parsing import ParsedRequest
from service.api.tasks.answers import Answer
from service.api.tasks.explained import by_input, explain_windows
from service.api.tasks.task import Json, Task
from service.api.tasks.tensors import Output, Row
from service.errors import TooLarge, about_input
from service.explanations.entities import Entity
from service.inputs.model_input import ModelInput, Text
from service.options.base import RequestOptions
from service.options.tags import EntityOptions, EntityTextOptions, StoredTagOptions, TagOptions
from service.repository.models.served_model import Prediction
from service.repository.models.tagger import Tagger, probabilities_of
from service.store.stored_request import StoredRequest

T = TypeVar("T")
NUMBER_BYTES = 16
"""Of a probability in JSON, at most."""


class Tags(Task[Tagger]):
    """The entities of a text, in order. They are made of a prediction and the tokens that it is of."""

    endpoint = "tag"
    model = Tagger
    about = "Return the entities of every text: what they are, and where."

    def options(self, served: Tagger) -> type[RequestOptions]:
        """Return how tokens become entities, and which labels are none."""
        return TagOptions

    def attention_options(self, served: Tagger) -> type[RequestOptions]:
        """Return the same, since entities are explained."""
        return TagOptions

    def tensor_options(self, served: Tagger) -> type[RequestOptions]:
        """Return the same without windows: rows of probabilities are those of the tokens of a whole text."""
        return EntityTextOptions

    def stored_options(self, served: Tagger, stored: StoredRequest, parsed: ParsedRequest) -> RequestOptions:
        """Return the options of entities, with what becomes of long texts as the stored request had it."""
        given = parsed.options(EntityOptions).model_dump()
        return StoredTagOptions(truncate=stored.truncate, overlap=stored.overlap, **given)

    async def answer(self, call: Call[Tagger], options: RequestOptions) -> Response:
        """Predict, and find the entities."""

        def show(text: str, found: Sequence[Entity]) -> Json:
            return {"entities": [_shown(text, one) for one in found]}

        return await _tagged(call, options, show, Answer(call, options))

    async def attend(
        self, call: Call[Tagger], options: RequestOptions, stored: StoredRequest | None = None
    ) -> Response:
        """Explain; what is predicted is not shown."""
        if options.windows:
            return await _tagged(call, options, None, Answer(call, options))
        return await predict(call, options, None, Answer(call, options))

    async def answer_pipeline(self, asked: Asked, served: Tagger) -> Response:
        """Return the entities of a text, or of each of several."""
        options = parse_parameters(TokenClassificationParameters, asked.given, TEXTS, served.manifest).for_entities()

        def show(text: str, found: Sequence[Entity]) -> list[Json]:
            return [scored_entity(one, options.aggregate) for one in found]

        async def respond(answered: Answered[list[Json]]) -> Response:
            return responses.respond(answered.shown if asked.several else answered.shown[0])

        return await _tagged(asked.call(served), options, show, respond)

    def outputs(self, served: Tagger) -> list[Output]:
        """Describe the entities, as a document, and the probabilities of labels for each token."""
        return [
            Output("entities", "BYTES", (-1, 1)),
            Output("probabilities", "FP32", (-1, -1, served.output_size)),
        ]

    async def infer(
        self, call: Call[Tagger], options: RequestOptions, respond: Callable[[Answered[Row]], Awaitable[Response]]
    ) -> Response:
        """Predict, as rows of tensors. Zeros fill the probabilities of shorter texts. Raises TooLarge."""
        assert isinstance(options, EntityTextOptions)  # noqa: S101 # its own

        def show(text: Text, item: ModelInput, prediction: Prediction) -> Row:
            found = call.served.entities(text, item, prediction, options)
            chances = probabilities_of(prediction).astype(np.float32)
            return {"entities": responses.dump([_shown(str(text), one) for one in found]), "probabilities": chances}

        async def respond_evenly(answered: Answered[Row]) -> Response:
            longest = max(len(row["probabilities"]) for row in answered.shown)
            limit = call.state.settings.max_answer_bytes
            if (size := len(answered.shown) * longest * call.served.output_size * NUMBER_BYTES) > limit:
                raise TooLarge(f"probabilities: at most {limit} bytes an answer, this one may have {size}; send fewer")
            return await respond(answered)

        return await _with_tokens(call, options, show, respond_evenly)


async def _with_tokens(
    call: Call[Tagger],
    options: RequestOptions,
    show: Callable[[Text, ModelInput, Prediction], T],
    respond: Callable[[Answered[T]], Awaitable[Response]],
) -> Response:
    """Return what `respond` makes of predictions, each shown with the text and the tokens that it is of."""

    async def respond_to(answered: Answered[Prediction]) -> Response:
        items = [await one.decode() for one in answered.inputs]

        def write() -> list[T]:
            return [
                show(one.text, item, prediction)
                for one, item, prediction in zip(answered.inputs, items, answered.shown, strict=True)
            ]

        shown = await call.present(write)
        results = [(one, attention) for one, (_, attention) in zip(shown, answered.results, strict=True)]
        return await respond(Answered(answered.id, results, answered.inputs, answered.compared))

    return await predict(call, options, lambda prediction: prediction, respond_to)


async def _tagged(
    call: Call[Tagger],
    options: RequestOptions,
    show: Callable[[str, Sequence[Entity]], T] | None,
    respond: Callable[[Answered[T]], Awaitable[Response]],
) -> Response:
    """Return what `respond` makes of the entities of each text, as `show` has them, and of attention if asked for.

    Of a text in windows, the window is explained that holds the entity.
    """
    assert isinstance(options, EntityOptions)  # noqa: S101 # its own
    served, query = call.served, call.query_with(options)
    if options.windows is None:

        def of_all(text: Text, item: ModelInput, prediction: Prediction) -> T:
            assert show  # noqa: S101 # else nothing is found
            return show(str(text), served.entities(text, item, prediction, options))

        return await _with_tokens(call, options, of_all, respond)

    async def respond_to(answered: Answered[Prediction]) -> Response | Then:
        items = [await one.decode() for one in answered.inputs]
        windows = by_input(answered)
        every = [[(items[place], answered.shown[place]) for place in places] for places in windows]
        texts = [str(one) for one in call.inputs]
        found = await call.present(
            lambda: [served.joined(text, own, options) for text, own in zip(texts, every, strict=True)]
        )
        shown = [show(text, [one for _, one in own]) if show else None for text, own in zip(texts, found, strict=True)]
        if query is None:
            return await respond(Answered(answered.id, [(one, None) for one in shown], answered.inputs))
        chosen = []
        for number, (own, entities) in enumerate(zip(every, found, strict=True)):
            with about_input(number, len(every)):
                chosen.append(served.explained(own, entities, query))
        prepared = [
            ready(answered.inputs[places[window]], item) for places, (window, item) in zip(windows, chosen, strict=True)
        ]
        return explain_windows(call, options, answered, shown, prepared, respond)

    return await predict(replace(call, query=None), options, lambda prediction: prediction, respond_to)


def _shown(text: str, entity: Entity) -> Json:
    start, end = entity.span
    return {
        "label": entity.label,
        "probability": entity.probability,
        "start": start,
        "end": end,
        "text": text[start:end],
        "tokens": entity.tokens,
    }
