"""Token selection: greedy search, sampling and beam search. Each target has a search of its own."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from contract.generation import Generation
from service.errors import NOT_FINITE, Broken

LogProbabilities: TypeAlias = npt.NDArray[np.float64]
"""(rows, candidates): of the next token of each row of one search. Candidates are the vocabulary, or a part of it."""

Tokens: TypeAlias = npt.NDArray[np.int64]
"""(rows, candidates): the indices of the candidates, most likely first; equally likely ones by index."""

Alternatives: TypeAlias = tuple[tuple[int, float], ...]
"""The likeliest tokens of a step with their log-probabilities, best first."""

ALL_CANDIDATES = 0
"""The value of `wants` that means all tokens of the vocabulary."""
MOST_CANDIDATES = 256
"""A sampler that needs more candidates than this asks for all."""
FEW = 256
"""Up to this many numbers are sorted as quickly as the largest of them are found."""


class Hypothesis(NamedTuple):
    """A target: its tokens, with the end token if it ended, the log-probability of each, and their sum."""

    tokens: tuple[int, ...] = ()
    logs: tuple[float, ...] = ()
    total: float = 0.0
    alternatives: tuple[Alternatives, ...] = ()
    """The alternatives of each token, if they are asked for."""
    cut: bool = False
    """True if it was ended by the limit of tokens, not by the model. Known once it is returned."""

    def plus(self, token: int, log: float, alternatives: Sequence[Alternatives] = ()) -> "Hypothesis":
        """Return this hypothesis with one more token, and the alternatives to it, or none."""
        return Hypothesis(
            (*self.tokens, token), (*self.logs, log), self.total + log, (*self.alternatives, *alternatives)
        )

    def alternatives_at(self, place: int) -> Alternatives:
        """Return the alternatives to the token at a place, none if they were not asked for."""
        return self.alternatives[place] if self.alternatives else ()

    def score(self, length_penalty: float) -> float:
        """Return the sum of log-probabilities divided by the length to the power of the penalty."""
        return self.total / float(len(self.tokens) ** length_penalty)


class Search(Protocol):
    """A search for one target, which the decode loop advances."""

    done: bool
    alternatives: int
    """How many of the likeliest tokens its hypotheses keep beside each of theirs."""

    @property
    def live(self) -> list[Hypothesis]:
        """The hypotheses to extend, one for each row, all of equal length."""

    @property
    def wants(self) -> int:
        """The number of most likely tokens of each row that the next step needs, or ALL_CANDIDATES."""

    def advance(
        self, logs: LogProbabilities, tokens: Tokens | None = None, alternatives: Sequence[Alternatives] = ()
    ) -> list[int]:
        """Select the next token of each row, from all tokens, or if `tokens` is given from these candidates.

        `alternatives` are those of each row, if the search keeps any. Return the row that each of the new rows
        continues.
        """

    def best(self) -> Hypothesis:
        """Return the target, once done."""


class TokenRules:
    """Changes the log-probabilities of the next token before a search selects it. This base class changes nothing."""

    def applies(self, live: Sequence[Hypothesis]) -> bool:
        """Return whether a rule applies to the next token, other than tokens that are always suppressed."""
        return False

    def __call__(self, logs: LogProbabilities, live: Sequence[Hypothesis]) -> LogProbabilities:
        """Return the log-probabilities of all tokens under the rules."""
        return logs


class Constraints(TokenRules):
    """Forbids and forces tokens by a model's generation rules (the logits processors of the transformers library).

    A forbidden token has the log-probability -inf, and the others keep theirs; a forced token has 0, and all others
    have -inf. Forcing wins over forbidding, and the forced last token over the forced first one. If the first token is
    forced, the tokens forbidden as first are forbidden as second. If no hypothesis has a token left, all must end.
    """

    def __init__(self, generation: Generation, prefix: Sequence[int], limit: int) -> None:
        self._rules, self._limit = generation, limit
        self._prefix = np.array(prefix, np.int64)

    def applies(self, live: Sequence[Hypothesis]) -> bool:
        """Return whether a rule other than `suppressed` applies to the next token."""
        rules, length = self._rules, len(live[0].tokens)
        return bool(
            (rules.forced_last is not None and length == self._limit - 1)
            or (length <= 1 and (rules.forced_first is not None or rules.suppressed_first))
            or len(self._prefix) + length < rules.min_length
            or length < rules.min_new_tokens
            or rules.no_repeat_ngram
            or rules.renormalized
        )

    def __call__(self, logs: LogProbabilities, live: Sequence[Hypothesis]) -> LogProbabilities:
        """Return the log-probabilities under the rules; the given array itself if no rule changes it."""
        rules, length = self._rules, len(live[0].tokens)
        if rules.forced_last is not None and length == self._limit - 1:
            return _forced(rules.forced_last, logs)
        if rules.forced_first is not None and length == 0:
            return _forced(rules.forced_first, logs)
        forbidden = list(rules.suppressed)
        if length == (0 if rules.forced_first is None else 1):
            forbidden += rules.suppressed_first
        if len(self._prefix) + length < rules.min_length or length < rules.min_new_tokens:
            forbidden.append(rules.end)
        rows, repeated = self._repeated(live)
        if not forbidden and not len(rows):
            return logs
        vocabulary = logs.shape[1]  # some checkpoints list tokens that are not in it
        in_vocabulary = repeated < vocabulary
        allowed = logs.copy()
        allowed[:, [token for token in forbidden if 0 <= token < vocabulary]] = -np.inf
        allowed[rows[in_vocabulary], repeated[in_vocabulary]] = -np.inf
        if allowed.max() == -np.inf:
            return _forced(rules.end, logs)
        if rules.renormalized:
            mass = np.logaddexp.reduce(allowed, axis=1, keepdims=True)
            allowed -= np.where(np.isfinite(mass), mass, 0.0)
        return allowed

    def _repeated(self, live: Sequence[Hypothesis]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return rows and tokens: each token would complete an n-gram in its row that has occurred before."""
        size = self._rules.no_repeat_ngram
        if not size or len(self._prefix) + len(live[0].tokens) < size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        targets = np.array([one.tokens for one in live], np.int64)
        whole = np.hstack([np.tile(self._prefix, (len(live), 1)), targets])  # (rows, length)
        seen = np.lib.stride_tricks.sliding_window_view(whole, size, axis=1)  # (rows, places, size)
        rows, places = (seen[:, :, :-1] == seen[:, -1:, 1:]).all(axis=-1).nonzero()
        return rows, seen[rows, places, -1]


def _forced(token: int, logs: LogProbabilities) -> LogProbabilities:
    """Return log-probabilities of the same shape that allow one token only."""
    forced = np.full_like(logs, -np.inf)
    forced[:, token] = 0.0
    return forced


def likeliest(totals: LogProbabilities, count: int) -> npt.NDArray[np.intp]:
    """Return the flat indices of the largest values, largest first, equal ones in order."""
    flat = totals.ravel()
    if flat.size <= FEW:
        return np.argsort(-flat, kind="stable")[:count]
    count = min(count, flat.size)
    among = np.flatnonzero(flat >= np.partition(flat, -count)[-count])
    return among[np.argsort(-flat[among], kind="stable")][:count]


class Choose(Protocol):
    """Selects the next token of a Walk."""

    wants: int
    """The number of most likely tokens that it needs, or ALL_CANDIDATES."""

    def __call__(self, logs: LogProbabilities) -> int:
        """Return the index of the selected candidate."""


UNCONSTRAINED = TokenRules()


class Walk:
    """A search with one hypothesis, which `choose` extends: by the most likely token, or by a sampled one."""

    def __init__(
        self, end: int, limit: int, choose: Choose, constrain: TokenRules = UNCONSTRAINED, alternatives: int = 0
    ) -> None:
        self.done, self.alternatives = False, alternatives
        self.live = [Hypothesis()]
        self._end, self._limit, self._choose, self._constrain = end, limit, choose, constrain

    @property
    def wants(self) -> int:
        """The candidates that `choose` needs."""
        return ALL_CANDIDATES if self._constrain.applies(self.live) else self._choose.wants

    def advance(
        self, logs: LogProbabilities, tokens: Tokens | None = None, alternatives: Sequence[Alternatives] = ()
    ) -> list[int]:
        """Select one token."""
        logs = self._constrain(logs, self.live) if tokens is None else logs
        chosen = self._choose(logs[0])
        token = chosen if tokens is None else int(tokens[0, chosen])
        self.live = [self.live[0].plus(token, float(logs[0, chosen]), alternatives)]
        self.done = token == self._end or len(self.live[0].tokens) >= self._limit
        return [0]

    def best(self) -> Hypothesis:
        """Return the one hypothesis."""
        return self.live[0]


class Greedy:
    """Selects the most likely token, the first of equals."""

    wants = 1

    def __call__(self, logs: LogProbabilities) -> int:
        """Return the index of the most likely candidate."""
        return int(logs.argmax())


class Sampler:
    """Samples from softmax(logits / temperature), cut to the top k, then to the top p (Holtzman et al. 2020)."""

    def __init__(self, temperature: float, top_k: int | None, top_p: float, seed: int | None) -> None:
        self.wants = ALL_CANDIDATES if top_k is None or top_k > MOST_CANDIDATES else top_k
        self._temperature, self._top_k, self._top_p = temperature, top_k, top_p
        self._random = np.random.default_rng(seed)

    def __call__(self, logs: LogProbabilities) -> int:
        """Return the index of a sampled candidate. The one whose mass passes top_p is still a candidate."""
        order = np.argsort(-logs, kind="stable")[: self._top_k]
        with np.errstate(over="ignore"):  # close to temperature 0 all weights but the largest vanish, as they should
            weights = np.exp((logs[order] - logs[order[0]]) / self._temperature)
        weights /= weights.sum()
        count = int(np.searchsorted(weights.cumsum(), self._top_p)) + 1
        chosen = self._random.choice(len(weights[:count]), p=weights[:count] / weights[:count].sum())
        return int(order[chosen])


class Beams:
    """Beam search with `beams` hypotheses. With `length_penalty` 1 the mean log-probability decides.

    Of the 2 x beams most likely continuations, those that end and are among the first `beams` are finished; the others
    live on. The search stops when `beams` hypotheses have finished and, unless `early_stopping` is true, the best live
    hypothesis cannot beat the worst of them. Its score is taken at its present length, or with "never" at the best
    possible length, which is the limit if the penalty is positive (the rules of the transformers library).
    """

    def __init__(
        self,
        beams: int,
        end: int,
        limit: int,
        length_penalty: float,
        early_stopping: bool | Literal["never"] = False,
        constrain: TokenRules = UNCONSTRAINED,
        alternatives: int = 0,
    ) -> None:
        self.done, self.alternatives = False, alternatives
        self.live = [Hypothesis()] * beams
        self._totals = np.array([0.0] + [-np.inf] * (beams - 1))  # at first all rows are equal, so only one counts
        self._beams, self._end, self._limit, self._penalty = beams, end, limit, length_penalty
        self._early_stopping, self._constrain = early_stopping, constrain
        self._finished: list[Hypothesis] = []

    @property
    def wants(self) -> int:
        """Each row could hold all 2 x beams continuations."""
        return ALL_CANDIDATES if self._constrain.applies(self.live) else 2 * self._beams

    def advance(
        self, logs: LogProbabilities, tokens: Tokens | None = None, alternatives: Sequence[Alternatives] = ()
    ) -> list[int]:
        """Select the next token of each live hypothesis. Raises Broken if no token is possible."""
        logs = self._constrain(logs, self.live) if tokens is None else logs
        totals = self._totals[:, None] + logs  # (beams, vocabulary)
        order = likeliest(totals, 2 * self._beams)
        width = totals.shape[1]
        chosen = order % width if tokens is None else tokens.take(order)
        length = len(self.live[0].tokens) + 1
        parents: list[int] = []
        live: list[Hypothesis] = []
        # lists, since to read the numbers of an array one by one takes longer
        found = [of.tolist() for of in (order // width, chosen, logs.take(order), totals.take(order))]
        for rank, (row, token, log, total) in enumerate(zip(*found, strict=True)):
            if total == -np.inf:
                break  # so are all behind it
            ended = length >= self._limit or token == self._end
            wanted = rank < self._beams if ended else len(live) < self._beams
            if not wanted:
                continue
            longer = self.live[row].plus(token, log, alternatives[row : row + 1])
            if ended:
                self._finished.append(longer)
            else:
                live.append(longer)
                parents.append(row)
        if not live and not self._finished:
            raise Broken(NOT_FINITE)
        self._finished = sorted(self._finished, key=self._score, reverse=True)[: self._beams]
        self.done = not live or (len(self._finished) == self._beams and not self._improvable(live[0]))
        missing = self._beams - len(live)  # if the vocabulary is smaller than the beams
        self._totals = np.array([one.total for one in live] + [-np.inf] * missing)
        self.live = live + [live[0]] * missing if live else self.live
        return parents + [parents[0]] * missing if parents else list(range(self._beams))

    def best(self) -> Hypothesis:
        """Return the finished hypothesis with the highest score."""
        return self._finished[0]

    def _improvable(self, likeliest: Hypothesis) -> bool:
        """Return whether the most likely live hypothesis can still beat a finished one."""
        if self._early_stopping is True:
            return False
        longest = self._early_stopping == "never" and self._penalty > 0
        length = self._limit if longest else len(likeliest.tokens)
        return likeliest.total / float(length**self._penalty) > self._score(self._finished[-1])

    def _score(self, hypothesis: Hypothesis) -> float:
        return hypothesis.score(self._penalty)


def finite(logs: LogProbabilities) -> LogProbabilities:
    """Return the given values. Raises Broken if one is NaN, from which no token can be selected."""
    if np.isnan(logs).any():
        raise Broken(NOT_FINITE)
    return logs


def alternatives_of(logs: LogProbabilities, tokens: Tokens, count: int) -> list[Alternatives]:
    """Return the `count` likeliest tokens of each row; none for 0. Tokens that are always suppressed are left out.

    `tokens` are the likeliest, best first, and `logs` are their log-probabilities, -inf of suppressed ones.
    """
    if not count:
        return []
    return [
        tuple((token, log) for token, log in zip(*row, strict=True) if log > -math.inf)
        for row in zip(tokens[:, :count].tolist(), logs[:, :count].tolist(), strict=True)
    ]
