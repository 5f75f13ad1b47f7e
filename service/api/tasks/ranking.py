"""Ranking of texts by a query: the pairs of the query and each text, classified by a model with one label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from contract.manifest import Scores
from service.answering.call import Answered, Call
from service.answering.earlier import id_of_input
from service.answering.predictions import Then, predict
from service.api import responses
from service.api.reading.call import call_of
from service.api.reading.request_parsing import ParsedRequest, read_document
from service.api.tasks.explained import best_windows, one_logit, with_attention
from service.api.tasks.task import Endpoint, Json
from service.arrays import probabilities
from service.errors import TooLarge, Unacceptable
from service.explanations.answer import AttentionAnswer
from service.explanations.contrast import contrast
from service.explanations.query import AttentionQuery
from service.inputs.model_input import Pair
from service.options.predictions import RerankOptions
from service.repository.models.predictor import Predictor
from service.settings import Settings
from service.state import State

MOST_TEXTS = 1000
"""Of one query."""
MOST_TOKENS = 1 << 20
"""Of a text, where a request says no number: the model's own limit is less."""


@dataclass(frozen=True)
class Ranked:
    """A text in its place: its number in the request, and how well it answers the query."""

    index: int
    score: float
    text: str
    attention: AttentionAnswer | None = None

    def against(self, other: "Ranked") -> "Ranked":
        """Return the same, explained against another text of the same query."""
        if self.attention is None or other.attention is None:
            return self
        return replace(self, attention=contrast(self.attention, other.attention))


Write = Callable[[Answered[float], Sequence[Ranked]], Response]
"""Makes an answer of what a call is answered with, and of its texts, best first."""


class Ranking(Endpoint[Predictor]):
    """The texts that answer a query, best first."""

    endpoint = "rerank"
    model = Predictor
    about = "Return the texts that answer a query, best first, each with its score."

    async def ask(self, request: Request, state: State, served: Predictor) -> Response:
        """Read a query and texts, and rank these."""
        document = await read_document(request, state.settings.max_text_bytes, state.settings)
        query, texts = document.pop("query", None), document.pop("texts", None)
        pairs = pairs_of(query, texts, state.settings)
        others = _others(document)  # one or none
        pairs += pairs_of(query, others, state.settings, "against") if others else []
        parsed = ParsedRequest(pairs, document)
        options = parsed.options(RerankOptions)
        call = call_of(request, state, served, parsed)
        if others and call.query:
            _check_contrast(call.query)

        def result(ranked: Ranked, answer_id: str) -> Json:
            shown: Json = {"id": id_of_input(answer_id, ranked.index, len(pairs))}
            shown |= {"index": ranked.index, "score": ranked.score}
            return responses.result(shown | ({"text": ranked.text} if options.return_texts else {}), ranked.attention)

        def write(answered: Answered[float], best: Sequence[Ranked]) -> Response:
            if not others:
                return responses.respond(
                    responses.answer(answered.id, served, [result(one, answered.id) for one in best])
                )
            *found, other = best
            results = [result(one.against(other), answered.id) for one in found]
            against = responses.result({"score": other.score}, other.attention)
            return responses.respond({**responses.answer(answered.id, served, results), "against": against})

        scores = "identity" if options.raw_scores else served.manifest.scores
        return await rank(call, options, scores, write, beside=len(others))


def _others(document: Json) -> list[str]:
    """Take the text that the rest is explained against out of the options of attention; none where there is none.

    Raises Unacceptable for anything but a text.
    """
    attention = document.get("attention")
    if not isinstance(attention, dict) or attention.get("against") is None:
        return []
    against = attention["against"]
    if not (isinstance(against, dict) and against.keys() == {"text"} and isinstance(against["text"], str)):
        raise Unacceptable('against: must be an object of another text, such as {"text": "..."}')
    document["attention"] = {name: value for name, value in attention.items() if name != "against"}
    return [against["text"]]


def _check_contrast(query: AttentionQuery) -> None:
    """Raise Unacceptable for what does not explain a score, or is of one score alone."""
    if not query.by_gradient:
        raise Unacceptable(f"against: is for relevance, libra and integrated, given {query.method}")
    if query.options.evaluate:
        raise Unacceptable("evaluate: is of one score, leave against out")


def pairs_of(
    query: object, texts: object, settings: Settings, subject: str = "texts", most: int = MOST_TOKENS
) -> list[Pair]:
    """Return the pairs of a query and each of some texts, which keep `most` tokens of the text where it is cut off.

    `subject` is what a request calls the texts. Raises Unacceptable, and TooLarge for a query that would be read too
    often: once with every text.
    """
    if not isinstance(query, str):
        raise Unacceptable("query: must be a string")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Unacceptable(f"{subject}: must be a list of strings")
    check_texts(len(texts), subject)
    check_repeated("query", query, len(texts), settings)
    return [Pair(query, text, most) for text in texts]


def check_texts(count: int, subject: str) -> None:
    """Raise Unacceptable for a number of texts that cannot be ranked at once."""
    if not 1 <= count <= MOST_TEXTS:
        raise Unacceptable(f"{subject}: must be 1 to {MOST_TEXTS}, given {count}")


def check_repeated(subject: str, text: str, count: int, settings: Settings) -> None:
    """Raise TooLarge for a text that is read so often that it would be longer than all texts of a request may be."""
    if (length := len(text) * count) > (limit := settings.max_text_bytes):
        raise TooLarge(f"{subject}: at most {limit} characters, counted once for each text, given {length}")


async def rank(
    call: Call[Predictor], options: RerankOptions, scores: Scores, write: Write, beside: int = 0
) -> Response:
    """Return what `write` makes of the pairs of a call, best first, equals by index. Of windows the best one counts.

    Attention is of those that are answered alone. `scores` says how logits are answered. The last `beside` pairs are
    not ranked; they come behind all that are.
    """
    call = replace(call, ranked=len(call.inputs) - beside)

    async def respond(answered: Answered[float]) -> Response | Then:
        windows = best_windows(answered)
        logits = np.array(answered.shown, np.float32)[windows]
        count = len(logits) - beside
        best = np.argsort(-logits[:count], kind="stable")[: options.top_k].tolist() + list(range(count, len(logits)))
        shown = probabilities(logits, scores).tolist()

        def written(attention: Sequence[AttentionAnswer | None]) -> Response:
            found = [
                Ranked(index, shown[index], passage_of(call, index), one)
                for index, one in zip(best, attention, strict=True)
            ]
            return write(answered, found)

        return await with_attention(call, options, call.query, answered, [windows[one] for one in best], written)

    return await predict(replace(call, query=None), options, one_logit, respond)


def passage_of(call: Call[Predictor], index: int) -> str:
    """Return a text that is ranked."""
    pair = call.inputs[index]
    assert isinstance(pair, Pair)  # noqa: S101 # as `pairs_of` made them
    return pair.text_pair
