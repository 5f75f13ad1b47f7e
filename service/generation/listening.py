"""Listening: what a model that hears says in its first step: in which language somebody speaks, if at all."""

import math
from collections.abc import Sequence

import numpy as np

from service.arrays import log_softmax
from service.generation.token_selection import (
    ALL_CANDIDATES,
    Alternatives,
    Hypothesis,
    LogProbabilities,
    Tokens,
    finite,
)


class Listening:
    """A search for one token, the likeliest of some; what it is weighed against are these alone.

    It also notes the probability of the token of silence among all (Radford et al. 2023, section 4.5).
    """

    alternatives = 0
    wants = ALL_CANDIDATES

    def __init__(self, among: Sequence[int], silence: int | None) -> None:
        self.done = False
        self.live = [Hypothesis()]
        self.silent: float | None = None
        """The probability that nobody speaks; None where there is no token for it."""
        self._among, self._silence = np.array(among, np.int64), silence

    def advance(
        self, scores: LogProbabilities, tokens: Tokens | None = None, alternatives: Sequence[Alternatives] = ()
    ) -> list[int]:
        """Select the token."""
        logs = finite(log_softmax(scores))[0]
        if self._silence is not None:
            self.silent = math.exp(logs[self._silence])
        own = logs[self._among]
        best = int(own.argmax())
        self.live = [self.live[0].plus(int(self._among[best]), float(own[best] - np.logaddexp.reduce(own)))]
        self.done = True
        return [0]

    def best(self) -> Hypothesis:
        """Return the one token."""
        return self.live[0]
