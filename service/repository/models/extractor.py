"""Models that find the answer to a question in a text: where it starts, and where it ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from contract.artifact import MANIFEST, Artifact, ArtifactError
from service.arrays import Array, softmax
from service.errors import Unacceptable
from service.explanations.query import AttentionQuery
from service.explanations.score import ENDS
from service.explanations.selection import Target
from service.inputs.model_input import ModelInput, Token
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction
from service.settings import Settings

CONTEXT = 1
"""Which text of a pair is the context."""
NULL = 0
"""The token that stands for no answer: the first, which is of neither text."""
SPARE = 10
"""So many more candidates of a window, beside twice as many as are asked for, may have the characters of others."""


@dataclass(frozen=True)
class FoundAnswer:
    """An answer in a context: its characters, its score, and the window and the tokens that it was found in."""

    span: tuple[int, int]
    score: float
    window: int
    """The number of the window."""
    ends: tuple[int, int]
    """Its first and its last token in the window; of no answer, twice the first of all."""


class Extractor(Predictor):
    """A model of a question and a context: for every token the logits that the answer starts and ends there."""

    tasks = ("question-answering",)
    endpoints = ("answer", "attention")
    takes_single, takes_pairs = False, True

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        if not self.inputs.tokenizer or self.output_size != len(ENDS):
            raise ArtifactError(
                artifact.path(MANIFEST), f"a question-answering model needs texts and {len(ENDS)} logits of each token"
            )

    def complete_input(self, item: ModelInput) -> ModelInput:
        """Return the input with the first token of its context as what is explained, until an answer is found.

        Raises Unacceptable for a context without a token.
        """
        places = np.flatnonzero(_of_context(item))
        if not len(places):
            raise Unacceptable("context: must hold at least one token, given none")
        return replace(item, ends=(int(places[0]), int(places[0])))

    def targets(self, item: ModelInput, query: AttentionQuery) -> list[Target]:
        """Return the ends of an answer that a gradient method explains."""
        assert item.ends is not None  # noqa: S101 # as `complete_input` made it
        numbers = [divmod(one, len(ENDS)) for one in query.targets or range(len(ENDS))]
        return [Target(end, (item.ends[end],), item.ends[end], number) for number, end in numbers]

    def target_entry(self, target: Target, prediction: Prediction) -> dict[str, object]:
        """Return what an answer says of a target: which end of which answer it is, and at which token."""
        end = ENDS[target.token]
        return {"answer": target.index, "part": end, "label": end, "position": target.position}

    def chances(self, item: ModelInput, prediction: Prediction) -> Array:
        """Return the probabilities (token, 2) that an answer starts and ends at each token of the context.

        They add up to 1 with those of the first token, which stands for no answer; others have 0.
        """
        among = _of_context(item)
        among[NULL] = True
        found = np.zeros(prediction.shape)
        for end in range(len(ENDS)):
            found[among, end] = softmax(prediction[among, end].astype(np.float64))
        return found

    def answers(
        self,
        windows: Sequence[tuple[ModelInput, Prediction]],
        top_k: int,
        most_tokens: int,
        *,
        impossible: bool = False,
        words: bool = False,
    ) -> list[FoundAnswer]:
        """Return the best answers in the windows of a context, best first, equals by their place.

        The score of an answer is the probability of its start times that of its end. What is found in several windows
        has the best of its scores. With `impossible`, no answer at all is one of them; its score is the least of all
        windows. With `words`, answers end where words do. As the pipeline of `transformers` 4 found them.
        """
        found: dict[tuple[int, int], FoundAnswer] = {}
        null: FoundAnswer | None = None
        for number, (item, prediction) in enumerate(windows):
            chances = self.chances(item, prediction)
            least = float(chances[NULL].prod())
            if null is None or least < null.score:
                null = FoundAnswer((0, 0), least, number, (NULL, NULL))
            chances[NULL] = 0
            for score, first, last in _spans(chances, _of_context(item), most_tokens, 2 * top_k + SPARE):
                span = _characters(item, first, last, words=words)
                if span not in found or score > found[span].score:
                    found[span] = FoundAnswer(span, score, number, (first, last))
        listed = [*found.values(), *([null] if impossible and null else [])]
        return sorted(listed, key=lambda one: -one.score)[:top_k]


def _of_context(item: ModelInput) -> Array:
    """Return which tokens are of the context, an array (token) of bool."""
    return np.array([token.sequence == CONTEXT and token.span is not None for token in item.tokens], np.bool_)


def _spans(chances: Array, inside: Array, most: int, count: int) -> Iterator[tuple[float, int, int]]:
    """Yield the best spans of tokens inside a context, at most `most` long: score, first and last token."""
    length = len(chances)
    scores = np.full((length, min(most, length)), -1.0)  # by the first token, and how many follow it
    for more in range(scores.shape[1]):
        both = inside[: length - more] & inside[more:]
        products = chances[: length - more, 0] * chances[more:, 1]
        scores[: length - more, more] = np.where(both, products, -1.0)
    flat = scores.ravel()
    best = np.argpartition(-flat, count)[:count] if count < len(flat) else np.arange(len(flat))
    for place in best[np.lexsort((best, -flat[best]))].tolist():
        if flat[place] >= 0:
            first, more = divmod(place, scores.shape[1])
            yield float(flat[place]), first, first + more


def _characters(item: ModelInput, first: int, last: int, *, words: bool) -> tuple[int, int]:
    """Return the characters of a span of tokens, or of the words that its ends are in."""
    start, end = (item.tokens[place] for place in (first, last))
    if words:
        start, *_ = (one for one in item.tokens if _are_of_one_word(one, start))
        *_, end = (one for one in item.tokens if _are_of_one_word(one, end))
    assert start.span and end.span  # noqa: S101, PT018 # as tokens of a context have them
    return start.span[0], end.span[1]


def _are_of_one_word(one: Token, other: Token) -> bool:
    return one is other or (one.word is not None and (one.word, one.sequence) == (other.word, other.sequence))
