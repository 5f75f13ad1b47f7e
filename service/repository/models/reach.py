"""How many tokens fit into what explains a score: by the memory that a run of its graph takes, and by its time.

A run takes about as long as it takes memory: both grow with the states of tokens, and with their maps. So a run of few
tokens, when a model is warmed up, says how long one of many takes, and every run after it says it better.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping

from contract.manifest import GradientMethod, Role
from service.repository.models.footprint import Footprint

SURE = 0.8
"""The share of the deadline that runs may take: the rest is for what else a request does."""


class Reach:
    """What one request may explain by a method, before its `deadline` in seconds, with a number of bytes for a run."""

    def __init__(self, footprint: Footprint, most_bytes: int, deadline: float) -> None:
        self.deadline = deadline
        self._footprint = footprint
        self._most_bytes = most_bytes
        self._paces: dict[Role, float] = {}
        """Seconds for a byte, by the fastest run of each graph."""
        self._shares: dict[Role, float] = {}
        """The share of the device's cores that a run takes: others go beside it."""

    def tried(self, role: Role, lengths: Mapping[str, int], seconds: float, share: float | None = None) -> None:
        """Learn that a run of a graph for an input with these axis lengths can end in so long, on a share of the cores.

        A run that took longer, of fewer tokens or on a machine that was busy, is forgotten.
        """
        pace = seconds / max(self._footprint.run(lengths, by_gradient=True), 1)
        self._paces[role] = min(pace, self._paces.get(role, pace))
        if share is not None:
            self._shares[role] = share

    def takes(self, method: GradientMethod, lengths: Mapping[str, int], runs: int) -> float:
        """Return how many seconds a number of runs for such an input take; 0 as long as none was tried."""
        each = self._paces.get(method, 0.0) * self._footprint.run(lengths, by_gradient=True)
        return each * max(runs * self._shares.get(method, 1.0), 1.0)

    def fits(self, method: GradientMethod, lengths: Mapping[str, int], runs: int) -> bool:
        """Return whether there is memory for a run, and time for that number."""
        memory = self._footprint.run(lengths, by_gradient=True)
        return memory <= self._most_bytes and self.takes(method, lengths, runs) <= SURE * self.deadline

    def most(
        self, method: GradientMethod, lengths_of: Callable[[int], Mapping[str, int]], limit: int, runs: int
    ) -> int:
        """Return the largest number, to a limit, whose axis lengths fit."""
        numbers = range(1, limit + 1)
        return bisect_left(numbers, True, key=lambda number: not self.fits(method, lengths_of(number), runs))
