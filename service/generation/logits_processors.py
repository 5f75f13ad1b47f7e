"""A model's rules for its next tokens: the logits processors of the transformers library, in its order."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from contract.generation import Generation
from service.errors import Unacceptable
from service.generation.token_selection import Hypothesis, LogProbabilities, TokenRules

Tokens: TypeAlias = npt.NDArray[np.int64]

MOST_DECAY = 1e30
"""More than the size of any score: a decay of more ends a text just as surely."""


@dataclass(frozen=True)
class Step:
    """What is known where the next token of each row is selected."""

    rules: Generation
    prefix: Tokens
    """(length,): the tokens before the target."""
    source: Tokens
    """(length,): the tokens of the source; empty where that is no text."""
    limit: int
    live: Sequence[Hypothesis]

    @property
    def length(self) -> int:
        """The number of tokens of each target so far."""
        return len(self.live[0].tokens)

    @cached_property
    def whole(self) -> Tokens:
        """(rows, length): the prefix and the target of each row."""
        targets = np.array([one.tokens for one in self.live], np.int64)
        return np.hstack([np.tile(self.prefix, (len(self.live), 1)), targets])

    @property
    def may_not_end(self) -> bool:
        """True before the shortest length."""
        shorter = len(self.prefix) + self.length < self.rules.min_length
        return bool(self.rules.ends) and (shorter or self.length < self.rules.min_new_tokens)

    @property
    def decays(self) -> int:
        """The number of times that the factor of `length_decay` counts."""
        decay = self.rules.length_decay
        return max(0, self.length - decay[0]) if decay and self.rules.ends else 0

    @property
    def is_first_chosen(self) -> bool:
        """True if the model chooses its first token."""
        return self.length == (0 if self.rules.forced_first is None else 1)

    @property
    def forced(self) -> int | None:
        """The one token that is possible; the forced last one comes before the forced first one."""
        if self.length == self.limit - 1 and self.rules.forced_last is not None:
            return self.rules.forced_last
        return self.rules.forced_first if self.length == 0 else None


class Processor(NamedTuple):
    """A rule: whether it changes the next token's scores, and how it changes a copy of them (rows, vocabulary)."""

    applies: Callable[[Step], object]
    process: Callable[[LogProbabilities, Step], None]
    always: bool = False
    """True if the graph of a step has obeyed it already."""


def _weigh(scores: LogProbabilities, tokens: Tokens, penalty: float) -> None:
    """Divide the positive scores of tokens (rows, any), and multiply the negative ones (Keskar et al. 2019)."""
    rows, tokens = _in_vocabulary(np.indices(tokens.shape)[0], tokens, scores)
    found = scores[rows, tokens]
    scores[rows, tokens] = np.where(found < 0, found * penalty, found / penalty)


def _bias(scores: LogProbabilities, step: Step, sequences: Iterable[tuple[Sequence[int], float]]) -> None:
    """Add a bias to the last token of each sequence, in the rows that end with the tokens before it."""
    for (*before, last), bias in sequences:
        if len(before) <= step.whole.shape[1]:
            rows = (step.whole[:, step.whole.shape[1] - len(before) :] == before).all(axis=1)
            scores[rows, last] += bias


def _forbid(scores: LogProbabilities, tokens: Sequence[int]) -> None:
    scores[:, [token for token in tokens if 0 <= token < scores.shape[1]]] = -np.inf


def _forbid_repeated(scores: LogProbabilities, step: Step, seen_in: Tokens, size: int) -> None:
    """Forbid tokens that would complete a sequence of that size which is in `seen_in` (rows or 1, length)."""
    length = step.whole.shape[1]
    if length < size - 1 or seen_in.shape[1] < size:
        return
    seen = np.lib.stride_tricks.sliding_window_view(seen_in, size, axis=1)  # (rows or 1, places, size)
    behind = step.whole[:, None, length + 1 - size :]
    rows, places = (seen[:, :, :-1] == behind).all(axis=-1).nonzero()
    last = np.broadcast_to(seen, (len(scores), *seen.shape[1:]))[rows, places, -1]
    scores[_in_vocabulary(rows, last, scores)] = -np.inf


def _in_vocabulary(rows: Tokens, tokens: Tokens, scores: LogProbabilities) -> tuple[Tokens, Tokens]:
    """Return the rows and tokens that have a score: some checkpoints have tokens that are never generated."""
    known = tokens < scores.shape[1]
    return rows[known], tokens[known]


def _decay(scores: LogProbabilities, step: Step) -> None:
    """Raise the scores of end tokens by a share of their size, which grows with every token."""
    _, factor = step.rules.length_decay or (0, 1.0)
    ends = scores[:, step.rules.ends]
    with np.errstate(over="ignore"):
        share = min(np.float64(factor) ** step.decays, MOST_DECAY) - 1
    scores[:, step.rules.ends] += np.where(np.isfinite(ends), np.abs(ends) * share, 0.0)


def _force(scores: LogProbabilities, token: int) -> None:
    scores[:] = -np.inf
    scores[:, token] = 0.0


def _obey_times(scores: LogProbabilities, step: Step) -> None:
    """Forbid times that do not come in pairs, in order, or late at first; and words where a time is likelier.

    As `WhisperTimeStampLogitsProcessor` of the transformers library has it (Radford et al. 2023, section 2.3).
    """
    speech = step.rules.speech
    if speech is None or speech.first_time is None:
        return
    first = speech.first_time
    scores[:, speech.without_times] = -np.inf
    if not step.length:
        scores[:, :first] = -np.inf
        if speech.most_first is not None:
            scores[:, first + speech.most_first + 1 :] = -np.inf
    for row, one in zip(scores, step.live, strict=True):
        last_is_time = len(one.tokens) > 0 and one.tokens[-1] >= first
        if last_is_time and (len(one.tokens) < 2 or one.tokens[-2] >= first):
            row[first:] = -np.inf
        elif last_is_time:
            row[: min(step.rules.ends, default=first)] = -np.inf
        if times := [token for token in one.tokens if token >= first]:
            paired = last_is_time and len(one.tokens) > 1 and one.tokens[-2] < first
            row[first : times[-1] + (not paired)] = -np.inf
        if np.logaddexp.reduce(row[first:]) > row[:first].max():
            row[:first] = -np.inf


def _force_an_end(scores: LogProbabilities, step: Step) -> None:
    """Leave the end if no row has a token left. Raises Unacceptable where the model has none."""
    if scores.max() != -np.inf:
        return
    if not step.rules.ends:
        raise Unacceptable("generation: every next token is forbidden, and this model has none that ends a text")
    _force(scores, step.rules.ends[0])


def _renormalize(scores: LogProbabilities, step: Step) -> None:
    mass = np.logaddexp.reduce(scores, axis=1, keepdims=True)
    scores -= np.where(np.isfinite(mass), mass, 0.0)


PROCESSORS = (
    Processor(
        lambda step: step.rules.biases,
        lambda scores, step: _bias(scores, step, ((one.tokens, one.bias) for one in step.rules.biases)),
    ),
    Processor(
        lambda step: step.rules.source_penalty != 1 and len(step.source),
        lambda scores, step: _weigh(scores, np.tile(step.source, (len(scores), 1)), 1 / step.rules.source_penalty),
    ),
    Processor(
        lambda step: step.rules.repetition_penalty != 1,
        lambda scores, step: _weigh(scores, step.whole, step.rules.repetition_penalty),
    ),
    Processor(
        lambda step: step.rules.no_repeat_ngram,
        lambda scores, step: _forbid_repeated(scores, step, step.whole, step.rules.no_repeat_ngram),
    ),
    Processor(
        lambda step: step.rules.source_no_repeat_ngram and len(step.source),
        lambda scores, step: _forbid_repeated(scores, step, step.source[None], step.rules.source_no_repeat_ngram),
    ),
    Processor(
        lambda step: step.rules.bad_words,
        lambda scores, step: _bias(scores, step, ((one, -np.inf) for one in step.rules.bad_words)),
    ),
    Processor(lambda step: step.may_not_end, lambda scores, step: _forbid(scores, step.rules.ends)),
    Processor(lambda step: step.decays, _decay),
    Processor(
        lambda step: step.rules.suppressed,
        lambda scores, step: _forbid(scores, step.rules.suppressed),
        always=True,
    ),
    Processor(
        lambda step: step.is_first_chosen and step.rules.suppressed_first,
        lambda scores, step: _forbid(scores, step.rules.suppressed_first),
    ),
    Processor(lambda step: step.rules.speech, _obey_times),
    Processor(lambda step: True, _force_an_end, always=True),
    Processor(lambda step: step.forced is not None, lambda scores, step: _force(scores, step.forced or 0)),
    Processor(lambda step: step.rules.renormalized, _renormalize),
)
"""The rules in the order in which the reference applies them, but that a forced token comes last: it wins."""


class Constraints(TokenRules):
    """Changes the scores of next tokens by a model's generation rules.

    A forbidden token has the score -inf, and the others keep theirs; a forced token has 0, and all others have -inf.
    Forcing wins over forbidding, and the forced last token over the forced first one. If the first token is forced, the
    tokens forbidden as first are forbidden as second. If no hypothesis has a token left, all must end.
    """

    def __init__(self, generation: Generation, prefix: Sequence[int], limit: int, source: Sequence[int] = ()) -> None:
        """`source` are the tokens that a text is made of; where that continues its source, `prefix` too are they."""
        self._rules, self._limit = generation, limit
        self._prefix, self._source = np.array(prefix, np.int64), np.array(source, np.int64)
        self.weighs = bool(generation.biases or generation.length_decay) or not (
            generation.repetition_penalty == generation.source_penalty == 1
        )

    def applies(self, live: Sequence[Hypothesis]) -> bool:
        """Return whether a rule that no graph knows applies to the next token."""
        step = self._step(live)
        return any(one.applies(step) for one in PROCESSORS if not one.always)

    def __call__(self, scores: LogProbabilities, live: Sequence[Hypothesis]) -> LogProbabilities:
        """Return the scores under the rules. Raises Unacceptable if they forbid all, and nothing ends a text."""
        step, changed = self._step(live), scores.copy()
        for processor in PROCESSORS:
            if processor.applies(step):
                processor.process(changed, step)
        return changed

    def _step(self, live: Sequence[Hypothesis]) -> Step:
        return Step(self._rules, self._prefix, self._source, self._limit, live)
