"""Sparse embeddings of texts: the words that have a weight."""

from collections.abc import Sequence

from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.predictions import predict
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.tasks.task import Json, OnePass, Show
from service.api.tasks.tensors import Output, Row
from service.errors import TooLarge, Unacceptable
from service.options.base import RequestOptions
from service.options.predictions import PromptedOptions, SparseOptions
from service.repository.models.served_model import Prediction
from service.repository.models.sparse_embedder import SparseEmbedder

WORD_BYTES = 80  # of an answer, for each word with its text


class Words(OnePass[SparseEmbedder]):
    """The weights of words, heaviest first."""

    endpoint = "embed-sparse"
    model = SparseEmbedder
    about = "Return the words that every text is about, with their weights."

    def options(self, served: SparseEmbedder) -> type[RequestOptions]:
        """Return the prompts, and how many words are answered."""
        return SparseOptions

    def attention_options(self, served: SparseEmbedder) -> type[RequestOptions]:
        """Return the prompts."""
        return PromptedOptions

    def tensor_options(self, served: SparseEmbedder) -> type[RequestOptions]:
        """Return those of the endpoint: the output is a document."""
        return SparseOptions

    def shown(self, served: SparseEmbedder, options: RequestOptions) -> Show[Json]:
        """Return what shows the words of a text."""
        assert isinstance(options, SparseOptions)  # noqa: S101 # its own
        room, top_k = _Room(served.settings.max_answer_bytes), options.top_k

        def show(weights: Prediction) -> Json:
            words = room.taken_by(served.heaviest(weights, top_k))
            return {"words": [{"token": word, "text": served.text_of(word), "weight": weights[word]} for word in words]}

        return show

    async def answer_pipeline(self, asked: Asked, served: SparseEmbedder) -> Response:
        """Refuse: no pipeline answers with words and weights. Raises Unacceptable."""
        raise Unacceptable(
            f"inputs: no pipeline has weights of words; post texts to /v1/models/{served.manifest.name}/{self.endpoint}"
        )

    def outputs(self, served: SparseEmbedder) -> list[Output]:
        """Return the words, as a document."""
        return [Output("words", "BYTES", (-1, 1))]

    def row(self, served: SparseEmbedder, options: RequestOptions) -> Show[Row]:
        """Return what makes a row of weights."""
        show = self.shown(served, options)
        return lambda weights: {"words": responses.dump(show(weights)["words"])}


async def sparse_vectors(call: Call[SparseEmbedder], options: PromptedOptions) -> Response:
    """Return the words of each input of a call by number, in the order of the vocabulary. Raises TooLarge."""
    served, room = call.served, _Room(call.state.settings.max_answer_bytes)

    def show(weights: Prediction) -> list[Json]:
        return [{"index": word, "value": weights[word]} for word in room.taken_by(served.words(weights))]

    async def respond(answered: Answered[list[Json]]) -> Response:
        return await call.present(responses.respond, answered.shown)

    return await predict(call, options, show, respond)


class _Room:
    """The room that the words of all texts of a request have in its answer."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def taken_by(self, words: Sequence[int]) -> Sequence[int]:
        """Return the words of one more text. Raises TooLarge if there is no room for them."""
        self._left -= len(words) * WORD_BYTES
        if self._left < 0:
            raise TooLarge(
                f"words: at most {self._limit} bytes an answer, this one would have more; ask for fewer top_k or inputs"
            )
        return words
