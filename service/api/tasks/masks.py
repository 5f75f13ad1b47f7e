"""Masked language models: what every mask of a text may stand for."""

import functools

from starlette.responses import Response

from service.answering.call import Answered
from service.answering.predictions import predict
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.masks import Candidates, Filling, FillMaskParameters, mask_spans
from service.api.pipelines.parameters import TEXTS, parse_parameters
from service.api.tasks.task import Json, OnePass, Show
from service.api.tasks.tensors import Output, Row
from service.arrays import softmax
from service.generation.token_selection import likeliest
from service.options.base import RequestOptions
from service.options.masks import FillMaskOptions
from service.repository.models.mask_filler import MaskFiller
from service.repository.models.served_model import Prediction


class Masks(OnePass[MaskFiller]):
    """The likeliest tokens for every mask."""

    endpoint = "fill-mask"
    model = MaskFiller
    about = "Return what every mask in every text may stand for."

    def options(self, served: MaskFiller) -> type[RequestOptions]:
        """Return how many candidates are answered."""
        return FillMaskOptions

    def tensor_options(self, served: MaskFiller) -> type[RequestOptions]:
        """Return the same: the output is a document."""
        return FillMaskOptions

    def shown(self, served: MaskFiller, options: RequestOptions) -> Show[Json]:
        """Return what shows the candidates of a text."""
        assert isinstance(options, FillMaskOptions)  # noqa: S101 # its own
        return functools.partial(_candidates, served, top_k=options.top_k)

    async def answer_pipeline(self, asked: Asked, served: MaskFiller) -> Response:
        """Return what every mask may stand for: of a text with one mask a list, of one with several a list for each."""
        masks = parse_parameters(FillMaskParameters, asked.given, TEXTS, served.manifest)
        filling = Filling(served, masks.top_k, masks.tokens(served))
        call = asked.call(served)

        async def respond(answered: Answered[list[Candidates]]) -> Response:
            spans = await mask_spans(served, answered)
            texts = [str(text) for text in asked.inputs]
            write = functools.partial(filling.write, texts, spans, answered.shown, several=asked.several)
            return await call.present(write)

        return await predict(call, masks.filled(asked.inputs), filling, respond)

    def outputs(self, served: MaskFiller) -> list[Output]:
        """Return the candidates, as a document."""
        return [Output("candidates", "BYTES", (-1, 1))]

    def row(self, served: MaskFiller, options: RequestOptions) -> Show[Row]:
        """Return what makes a row of logits."""
        show = self.shown(served, options)
        return lambda logits: {"candidates": responses.dump(show(logits)["candidates"])}


def _candidates(served: MaskFiller, logits: Prediction, top_k: int) -> Json:
    """Return for every mask, in the order of the text, the likeliest tokens that it may stand for, best first."""
    masks = []
    for row in logits:
        chances = softmax(row)
        order = likeliest(chances, top_k)
        masks.append(
            [
                {"token": int(index), "text": served.text_of(int(index)), "probability": float(chances[index])}
                for index in order
            ]
        )
    return {"candidates": masks}
