"""Choosing tokens: greedy, sampling, beam search. One object a request; none of them knows of any other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

LogProbabilities: TypeAlias = npt.NDArray[np.float64]
"""(rows, vocabulary): of the next token of every row of one search."""


@dataclass(frozen=True)
class Hypothesis:
    """A target: its tokens, the end token included if it ended, and the log-probability of each."""

    tokens: tuple[int, ...] = ()
    logs: tuple[float, ...] = ()
    total: float = 0.0

    def plus(self, token: int, log: float) -> "Hypothesis":
        """Return this hypothesis with one more token."""
        return Hypothesis((*self.tokens, token), (*self.logs, log), self.total + log)

    def score(self, length_penalty: float) -> float:
        """Return the sum of log-probabilities over the length to the power of the penalty."""
        return self.total / float(len(self.tokens) ** length_penalty)


class Search(Protocol):
    """What the decode loop asks of a search."""

    done: bool

    @property
    def live(self) -> list[Hypothesis]:
        """The hypotheses to extend, one a row, all of one length."""

    def advance(self, logs: LogProbabilities) -> list[int]:
        """Take the next token of every row; return which row each of the new rows continues."""

    def best(self) -> Hypothesis:
        """Return the answer, once done."""


class Walk:
    """One hypothesis, extended by whatever `choose` takes: the likeliest token, or a drawn one."""

    def __init__(self, end: int, limit: int, choose: Callable[[LogProbabilities], int]) -> None:
        self.done = False
        self.live = [Hypothesis()]
        self._end, self._limit, self._choose = end, limit, choose

    def advance(self, logs: LogProbabilities) -> list[int]:
        """Take one token."""
        token = self._choose(logs[0])
        self.live = [self.live[0].plus(token, float(logs[0, token]))]
        self.done = token == self._end or len(self.live[0].tokens) >= self._limit
        return [0]

    def best(self) -> Hypothesis:
        """Return the one hypothesis."""
        return self.live[0]


def greedy(logs: LogProbabilities) -> int:
    """Return the likeliest token, the first of equals."""
    return int(logs.argmax())


class Sampler:
    """Draw a token: logits over temperature, cut to the top k, then to the top p of the mass (Holtzman et al. 2020)."""

    def __init__(self, temperature: float, top_k: int | None, top_p: float, seed: int | None) -> None:
        self._temperature, self._top_k, self._top_p = temperature, top_k, top_p
        self._random = np.random.default_rng(seed)

    def __call__(self, logs: LogProbabilities) -> int:
        """Return one token; the token that takes the mass past top_p is still among the candidates."""
        order = np.argsort(-logs, kind="stable")[: self._top_k]
        with np.errstate(over="ignore"):  # at a temperature close to 0 all but the likeliest vanish, which is right
            weights = np.exp((logs[order] - logs[order[0]]) / self._temperature)
        weights /= weights.sum()
        kept = int(np.searchsorted(weights.cumsum(), self._top_p)) + 1
        chosen = self._random.choice(len(weights[:kept]), p=weights[:kept] / weights[:kept].sum())
        return int(order[chosen])


class Beams:
    """Beam search over `beams` hypotheses at a time; with `length_penalty` 1 the mean log-probability decides.

    Of the 2 x beams likeliest continuations those that end and are among the first `beams` are finished, the others
    live on. It stops when as many have finished as there are beams and the best live one, at its present length,
    would not beat the worst of them (the rule of the transformers library with early_stopping=False).
    """

    def __init__(self, beams: int, end: int, limit: int, length_penalty: float) -> None:
        self.done = False
        self.live = [Hypothesis()] * beams
        self._totals = np.array([0.0] + [-np.inf] * (beams - 1))  # at first all rows are the same: only one counts
        self._beams, self._end, self._limit, self._penalty = beams, end, limit, length_penalty
        self._finished: list[Hypothesis] = []

    def advance(self, logs: LogProbabilities) -> list[int]:
        """Take one token for every live hypothesis."""
        totals = self._totals[:, None] + logs  # (beams, vocabulary)
        order = np.argsort(-totals, axis=None, kind="stable")[: 2 * self._beams]
        parents: list[int] = []
        live: list[Hypothesis] = []
        for rank, flat in enumerate(order):
            row, token = divmod(int(flat), totals.shape[1])
            if not np.isfinite(totals[row, token]):
                continue
            longer = self.live[row].plus(token, float(logs[row, token]))
            if token == self._end or len(longer.tokens) >= self._limit:
                if rank < self._beams:
                    self._finished.append(longer)
            elif len(live) < self._beams:
                live.append(longer)
                parents.append(row)
        self._finished = sorted(self._finished, key=self._score, reverse=True)[: self._beams]
        self.done = not live or (
            len(self._finished) == self._beams and self._score(live[0]) <= self._score(self._finished[-1])
        )
        missing = self._beams - len(live)  # a vocabulary smaller than the beams
        self._totals = np.array([one.total for one in live] + [-np.inf] * missing)
        self.live = live + [live[0]] * missing if live else self.live
        return parents + [parents[0]] * missing if parents else list(range(self._beams))

    def best(self) -> Hypothesis:
        """Return the finished hypothesis of the highest score."""
        return self._finished[0]

    def _score(self, hypothesis: Hypothesis) -> float:
        return hypothesis.score(self._penalty)
