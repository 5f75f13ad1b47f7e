"""Admission: how much work may wait, whose, and for how long."""

import contextlib
import math
import time
from collections.abc import Hashable, Iterator

from service.batching.fair_queue import NOBODY, Caller, Flow
from service.errors import Busy, TooLarge

BUDGET_SHARE = {"interactive": 1.0, "batch": 0.5}
"""The share of a budget that work of each priority may fill, so that there is always room for interactive work."""
MOST_SHARE = 0.5
"""The share of a budget for which one request counts, however large it is: its parts take turns with others."""
MANY_INPUTS = 32
"""No more inputs of one request are admitted however much they take together."""
WAITING_SHARE = 0.4
"""The share of the deadline that a request may wait. The rest is for its own work, and for what is judged wrongly."""
RATE_SECONDS = 10.0
"""The rate is that of about this number of the last seconds of work."""
MOST_RETRY_SECONDS = 60
KNOWN_SECONDS = 60.0
"""For so long after the last work its rate says how long other work takes; then it is tried."""


class Backlog:
    """The budgets of queues whose work takes turns on one resource, such as a device, and how long work may wait there.

    Without a `deadline` (seconds of a request) it may wait for any time.
    """

    def __init__(self, deadline: float = math.inf) -> None:
        self.deadline = deadline
        self.most_seconds = deadline * WAITING_SHARE
        self._holding: set[Budget] = set()

    def note(self, budget: "Budget") -> None:
        """Note whether a budget holds anything."""
        (self._holding.add if budget.held else self._holding.discard)(budget)

    def seconds(self, budget: "Budget", own: float) -> float:
        """Return how long work will wait that waits for `own` seconds of its own queue.

        Queues take turns, so it waits for as much of every other at most.
        """
        return own + sum(min(own, other.seconds) for other in self._holding if other is not budget)


class Bound:
    """A bound on what is held, in units of the caller's choice, that clients share.

    As long as there is room, each may have all of it. A client that holds less than an equal share is not refused for
    what others hold, and one that holds nothing may always hold one thing, however large: other limits bound that.
    """

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.held = 0
        self._most_of_one = limit
        """For so much one request counts at most, however large it is."""
        self._flows: dict[Flow, dict[Hashable, int]] = {}
        """What is held of each request of each flow; no request holds 0."""

    def take(self, cost: int, caller: Caller = NOBODY) -> None:
        """Hold `cost` until it is given back. Raises Busy if there is no room for it."""
        if not cost:
            return
        self._check(cost, caller)
        self.held += cost
        requests = self._flows.setdefault(caller.flow, {})
        requests[caller.request] = requests.get(caller.request, 0) + cost

    def give_back(self, cost: int, caller: Caller = NOBODY) -> None:
        """Hold `cost` no longer."""
        if not cost:
            return
        self.held -= cost
        requests = self._flows[caller.flow]
        requests[caller.request] -= cost
        if not requests[caller.request]:
            del requests[caller.request]
        if not requests:
            del self._flows[caller.flow]

    def _check(self, cost: int, caller: Caller) -> None:
        limit = int(self.limit * BUDGET_SHARE[caller.priority])
        if not self.held or self.held + cost <= limit:
            return
        clients = {one.client for one in self._flows} | {caller.client}
        requests = [held for one, held in self._flows.items() if one.client == caller.client]
        own = sum(min(held, self._most_of_one) for each in requests for held in each.values())
        share = limit // len(clients)
        if own and own + cost > share:
            words = f"{share} of one client of {len(clients)}" if len(clients) > 1 else limit
            seconds = self._seconds_for(own + cost - share)
            raise Busy(f"{self.name}: at most {words} may wait, given {cost} more on top of {own}", _retry(seconds))

    def _seconds_for(self, cost: int) -> float:  # of a budget it depends on the cost
        """Return how long work of a cost takes, as far as is known."""
        return 0.0


class Bodies:
    """The bound on the bytes of all bodies together. What is reserved for each of them always fits."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, cost: int) -> None:
        """Hold bytes. Raises Busy."""
        if self.held and self.held + cost > self.limit:
            raise Busy(f"bodies: at most {self.limit} may wait, given {cost} more on top of {self.held}", 1)
        self.held += cost

    def give_back(self, cost: int) -> None:
        """Hold bytes no longer."""
        self.held -= cost


class Budget(Bound):
    """A bound on all work that was admitted and is not finished: on its cost, and on the time that it will take.

    `at_once` of the cost runs together and does not wait. The time is the rest of the cost, divided by the recent rate
    of work (`spent`). Where the cost is the most that something may take, as for generated tokens, it is first
    multiplied by the share that was used recently (`used`). Where time is in proportion to cost (`even`), work that
    takes longer than a request may, though it were alone, is refused, and `less` says what to ask for instead; short
    texts say too little of long ones.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        backlog: Backlog | None = None,
        at_once: int = 0,
        less: str = "send less at a time",
        *,
        even: bool = False,
    ) -> None:
        super().__init__(name, limit)
        self._most_of_one = max(int(limit * MOST_SHARE), 1)
        self.backlog = backlog or Backlog()
        """The backlog of the resource that does the work."""
        self._at_once = at_once
        self._less = less
        self._even = even
        self._done, self._seconds = _Fading(), _Fading()
        self._admitted, self._used = _Fading(), _Fading()
        self._least = _Least()
        """The seconds that a unit of cost took in the fastest run."""

    @property
    def queue(self) -> str:
        """What metrics call it: its name without `queue of`."""
        return self.name.removeprefix("queue of ")

    @contextlib.contextmanager
    def permit(self, cost: int, caller: Caller = NOBODY, inputs: int = 1) -> Iterator[None]:
        """Hold `cost` for the length of a block, for the caller's client. Raises Busy and TooLarge as `take` does.

        And TooLarge for many `inputs` that would fill more than the budget together.
        """
        if inputs > MANY_INPUTS and cost > self.limit:
            raise TooLarge(f"{self.name}: at most {self.limit} for {inputs} inputs, these take {cost}; {self._less}")
        self.take(cost, caller)
        try:
            yield
        finally:
            self.give_back(cost, caller)

    def take(self, cost: int, caller: Caller = NOBODY) -> None:
        """Hold `cost` until it is given back.

        Raises Busy if there is no room for it, or if it would wait too long or end too late; TooLarge if it could not
        end in time though nothing else waited.
        """
        super().take(cost, caller)
        self.backlog.note(self)

    def give_back(self, cost: int, caller: Caller = NOBODY) -> None:
        """Hold `cost` no longer."""
        super().give_back(cost, caller)
        self.backlog.note(self)

    def spent(self, cost: int, seconds: float) -> None:
        """Learn the rate: so much work took so long, with what else was done for it meanwhile (`cost` 0)."""
        fading = math.exp(-seconds / RATE_SECONDS)
        self._done.add(cost, fading)
        self._seconds.add(seconds, fading)
        self.tried(cost, seconds)

    def tried(self, cost: int, seconds: float) -> None:
        """Learn that so much work can be done in so long."""
        if cost:
            self._least.note(seconds / cost)

    def used(self, cost: int, admitted: int) -> None:
        """Learn which share of an admitted cost is used."""
        fading = math.exp(-admitted / max(self.limit, 1))
        self._used.add(cost, fading)
        self._admitted.add(admitted, fading)

    @property
    def deadline(self) -> float:
        """Seconds that a request may take."""
        return self.backlog.deadline

    @property
    def seconds(self) -> float:
        """How long the work that waits will take; 0 as long as the rate is not known."""
        return self._seconds_for(max(0, self.held - self._at_once))

    @property
    def room(self) -> int:
        """The cost that may be held: the limit, or what is done within the time that work may wait."""
        each = self._seconds_for(1)
        return int(min(self.limit, self._at_once + self.backlog.most_seconds / each)) if each else self.limit

    def _check(self, cost: int, caller: Caller) -> None:
        super()._check(cost, caller)
        alone = cost * self._share * self._least.value if self._even else 0.0
        if alone > self.deadline:
            raise TooLarge(
                f"{self.name}: at most {self.deadline:g} seconds of work, this takes about {alone:.0f}; {self._less}"
            )
        if self.held <= self._at_once:
            return  # it runs at once
        seconds = self.backlog.seconds(self, self._seconds_for(max(0, self._before(cost, caller) - self._at_once)))
        if seconds > (most := self.backlog.most_seconds * BUDGET_SHARE[caller.priority]):
            raise Busy(
                f"{self.name}: at most {most:g} seconds of work may wait, given {seconds:.1f}", _retry(seconds - most)
            )
        if seconds + alone > self.deadline:
            raise Busy(
                f"{self.name}: at most {self.deadline:g} seconds, this would end after {seconds + alone:.0f}, "
                f"{seconds:.1f} of which it waits",
                _retry(seconds + alone - self.deadline),
            )

    def _before(self, cost: int, caller: Caller) -> float:
        """Return the cost of what is served before work of a request ends, beside it.

        That is of each other request of its flow as much as of its own, and of each other flow as much as of its own.
        """
        flow = caller.flow
        requests = self._flows.get(flow, {})
        most = requests.get(caller.request, 0) + cost
        own = sum(min(held, most) for held in requests.values())
        given = (own + cost) * flow.weight
        others = ((one, sum(held.values())) for one, held in self._flows.items() if one != flow)
        return own + sum(min(held, given / one.weight) for one, held in others)

    def _seconds_for(self, cost: float) -> float:
        return self._share * cost * self._seconds.sum / self._done.sum if self._done.sum else 0.0

    @property
    def _share(self) -> float:
        return self._used.sum / self._admitted.sum if self._admitted.sum else 1.0


class Rate:
    """How long work of one sort takes, by its last runs."""

    def __init__(self) -> None:
        self._done, self._seconds = _Fading(), _Fading()
        self._measured = -math.inf

    def spent(self, cost: int, seconds: float) -> None:
        """Learn that work of this cost took so long."""
        fading = math.exp(-seconds / RATE_SECONDS)
        self._done.add(cost, fading)
        self._seconds.add(seconds, fading)
        self._measured = time.monotonic()

    def seconds_for(self, cost: int) -> float:
        """Return how long work of a cost takes; 0 if none was done lately, since a machine may have been busy then."""
        lately = time.monotonic() - self._measured < KNOWN_SECONDS
        return cost * self._seconds.sum / self._done.sum if lately and self._done.sum else 0.0


class _Least:
    """The least of the values of about the last KNOWN_SECONDS; 0 if there is none."""

    def __init__(self) -> None:
        self._values = [math.inf, math.inf]
        """Of the last KNOWN_SECONDS, and of those before."""
        self._begun = -math.inf

    def note(self, value: float) -> None:
        """Note one more value."""
        self._turn()
        self._values[0] = min(self._values[0], value)

    @property
    def value(self) -> float:
        """The least value."""
        self._turn()
        least = min(self._values)
        return least if math.isfinite(least) else 0.0

    def _turn(self) -> None:
        now = time.monotonic()
        if (over := now - self._begun) > KNOWN_SECONDS:
            self._values = [math.inf, self._values[0] if over < 2 * KNOWN_SECONDS else math.inf]
            self._begun = now


class _Fading:
    """A sum whose older parts count for less."""

    def __init__(self) -> None:
        self.sum = 0.0

    def add(self, value: float, fading: float) -> None:
        """Multiply what there is by `fading`, and add to it."""
        self.sum = self.sum * fading + value


def _retry(seconds: float) -> int:
    """Return a number of seconds for Retry-After."""
    return max(math.ceil(min(seconds, MOST_RETRY_SECONDS)), 1)
