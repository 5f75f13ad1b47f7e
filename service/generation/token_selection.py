"""Token selection: a walk along one hypothesis, and beam search. Each target has a search of its own."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from service.arrays import log_softmax
from service.errors import NOT_FINITE, Broken

LogProbabilities: TypeAlias = npt.NDArray[np.float64]
"""(rows, candidates): of the next token of each row of one search. Candidates are the vocabulary, or a part of it."""

Tokens: TypeAlias = npt.NDArray[np.int64]
"""(rows, candidates): the indices of the candidates, most likely first; equally likely ones by index."""

Alternatives: TypeAlias = tuple[tuple[int, float], ...]
"""The likeliest tokens of a step with their log-probabilities, best first."""

ALL_CANDIDATES = 0
"""The value of `wants` that means all tokens of the vocabulary."""
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
    """True if it was ended by the limit of tokens, not by the model or a word. Known once it is returned."""
    until: int | None = None
    """How many characters of its text are before the word that stopped it; None if none did. Known likewise."""
    others: tuple["Hypothesis", ...] = ()
    """Of one that is returned, the other targets of its source that were asked for."""

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
        self, scores: LogProbabilities, tokens: Tokens | None = None, alternatives: Sequence[Alternatives] = ()
    ) -> list[int]:
        """Select the next token of each row, by the logits of all tokens, or the log-probabilities of `tokens`.

        `alternatives` are those of each row, if the search keeps any. Return the row that each of the new rows
        continues.
        """

    def best(self) -> Hypothesis:
        """Return the target, once done."""


class TokenRules:
    """Changes the scores of the next token before a search selects it. This base class changes nothing."""

    weighs = False
    """True if the scores of some tokens are made larger or smaller: a walk hands over the logits then."""

    def applies(self, live: Sequence[Hypothesis]) -> bool:
        """Return whether a rule applies to the next token, other than tokens that are always suppressed."""
        return False

    def __call__(self, scores: LogProbabilities, live: Sequence[Hypothesis]) -> LogProbabilities:
        """Return the scores of all tokens under the rules."""
        return scores


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
Stopped: TypeAlias = Callable[[Sequence[int]], bool]
"""Returns whether a word stops a target that has these tokens so far."""


def never(tokens: Sequence[int]) -> bool:
    """Return False: no word stops a target."""
    return False


class Walk:
    """A search with one hypothesis, which `choose` extends: by the most likely token, or by a sampled one."""

    def __init__(
        self,
        ends: Collection[int],
        limit: int,
        choose: Choose,
        constrain: TokenRules = UNCONSTRAINED,
        alternatives: int = 0,
        stopped: Stopped = never,
    ) -> None:
        self.done, self.alternatives = False, alternatives
        self.live = [Hypothesis()]
        self._ends, self._limit, self._choose, self._constrain = ends, limit, choose, constrain
        self._stopped = stopped

    @property
    def wants(self) -> int:
        """The candidates that `choose` needs."""
        return ALL_CANDIDATES if self._constrain.applies(self.live) else self._choose.wants

    def advance(
        self, scores: LogProbabilities, tokens: Tokens | None = None, alternatives: Sequence[Alternatives] = ()
    ) -> list[int]:
        """Select one token. Where rules weigh tokens, its log-probability is that of what they leave."""
        logs = scores
        if tokens is None:
            weighs = self._constrain.weighs
            own = finite(scores.astype(np.float64) if weighs else log_softmax(scores))
            logs = self._constrain(own, self.live)
            logs = finite(log_softmax(logs)) if weighs else logs
        chosen = self._choose(logs[0])
        token = chosen if tokens is None else int(tokens[0, chosen])
        longer = self.live[0].plus(token, float(logs[0, chosen]), alternatives)
        self.live = [longer]
        self.done = token in self._ends or len(longer.tokens) >= self._limit or self._stopped(longer.tokens)
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


class Beams:
    """Beam search with `beams` hypotheses. With `length_penalty` 1 the mean log-probability decides.

    Of the 2 x beams most likely continuations (with several end tokens, beams more for each), those that end and are
    among the first `beams` are finished; the others live on. The search stops when `beams` hypotheses have finished
    and, unless `early_stopping` is true, the best live hypothesis cannot beat the worst of them. Its score is taken at
    its present length, or with "never" at the best possible length, which is the limit if the penalty is positive (the
    rules of the transformers library).
    """

    def __init__(
        self,
        beams: int,
        ends: Collection[int],
        limit: int,
        length_penalty: float,
        early_stopping: bool | Literal["never"] = False,
        constrain: TokenRules = UNCONSTRAINED,
        alternatives: int = 0,
        wanted: int = 1,
        stopped: Stopped = never,
    ) -> None:
        self.done, self.alternatives = False, alternatives
        self.live = [Hypothesis()] * beams
        self._totals = np.array([0.0] + [-np.inf] * (beams - 1))  # at first all rows are equal, so only one counts
        self._beams, self._ends, self._limit, self._penalty = beams, ends, limit, length_penalty
        self._early_stopping, self._constrain, self._wanted = early_stopping, constrain, wanted
        self._stopped = stopped
        self._looked_at = max(2, 1 + len(ends)) * beams
        self._finished: list[Hypothesis] = []

    @property
    def wants(self) -> int:
        """Each row could hold all continuations that are looked at."""
        return ALL_CANDIDATES if self._constrain.applies(self.live) else self._looked_at

    def advance(
        self, scores: LogProbabilities, tokens: Tokens | None = None, alternatives: Sequence[Alternatives] = ()
    ) -> list[int]:
        """Select the next token of each live hypothesis. Raises Broken if no token is possible."""
        logs = self._constrain(finite(log_softmax(scores)), self.live) if tokens is None else scores
        totals = self._totals[:, None] + logs  # (beams, vocabulary)
        order = likeliest(totals, self._looked_at)
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
            ended = length >= self._limit or token in self._ends or self._stopped((*self.live[row].tokens, token))
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
        """Return the finished hypothesis with the highest score, and as many others as are wanted, best first."""
        return self._finished[0]._replace(others=tuple(self._finished[1 : self._wanted]))

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
