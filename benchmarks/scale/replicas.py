"""What a simulation knows of replicas and of the cluster, and how many there shall be."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from benchmarks.scale.autoscaler import Autoscaler, replicas_for_loads, replicas_for_total
from service.batching.admission import WAITING_SHARE, Backlog, Budget
from service.settings import Settings

SETTINGS = Settings.model_construct()
Metrics: TypeAlias = dict[Literal["queue", "processor"], float]
"""Targets: of how full the queues are, an average of replicas, and of the share of the requested cores that is used."""
QUEUE_SYNCS = 4
"""The queue's metric is the highest of the last minute."""


@dataclass(frozen=True)
class Service:
    """How one replica answers requests of one kind.

    A batch of n takes `first` + (n - 1) x `each` seconds, times a factor that is drawn from `factors`. `servers`
    batches run beside one another. `tokens` is what a request costs the queue, whose bounds are the service's own.
    """

    first: float
    each: float
    tokens: int = 1
    factors: np.ndarray = field(default_factory=lambda: np.ones(1))
    outside: np.ndarray = field(default_factory=lambda: np.zeros(1))
    """Seconds that a request takes beside its batch, such as HTTP and decoding; they are drawn."""
    servers: int = 1
    most: int = SETTINGS.batch_tokens
    """The most tokens of a batch."""
    cores: float = 1.0
    """The share of its requested cores that a replica uses when it answers as much as it can."""
    queue: int = SETTINGS.queue_tokens
    deadline: float = SETTINGS.request_seconds

    @property
    def batch(self):
        """The most requests of a batch."""
        return max(self.most // self.tokens, 1)

    @property
    def capacity(self):
        """Requests a second that full batches answer."""
        return self.servers * self.batch / (self.first + (self.batch - 1) * self.each)

    @property
    def room(self):
        """Requests that a replica holds before it refuses, once it knows its rate; as `Budget.room` says it."""
        in_time = self.batch + self.deadline * WAITING_SHARE * self.capacity
        return max(int(min(self.queue // self.tokens, in_time)), 1)

    def budget(self):
        """Return the service's own admission, for one replica."""
        return Budget("simulated", self.queue, Backlog(self.deadline), at_once=self.most)


@dataclass(frozen=True)
class Cluster:
    """Seconds that things take around the replicas. Those that were not measured are assumptions."""

    start: float = 15.0
    """The seconds from the autoscaler's decision to the first request of a new replica on a node that has the image."""
    cold: float = 120.0
    """The seconds from the decision to the first request where a node must come first."""
    spare: float = 1.0
    """New replicas that find room on nodes that are there, as a share of the replicas at the start."""
    notice: float = 2.0
    """The seconds until the proxy sends nothing more to a replica that is told to stop, or whose node has died."""
    drain: float = 10.0
    """Seconds in which a replica that is told to stop still takes requests: preStop 5 and drain 5."""
    grace: float = 35.0
    """Seconds that requests in flight may take after that."""
    replaced: float = 340.0
    """The seconds until the replicas of a dead node are made anew elsewhere: Kubernetes gives a node up after 40 s, and
    waits 300 s more for its pods."""
    connect: float = 2.0
    """The seconds until a connection to a node that has died is given up and made to another."""


CLUSTER = Cluster()


class Controller:
    """The autoscaler with its metrics, of which the one counts that asks for the most.

    Their values are those of the scrape before, so they are 15 seconds old.
    """

    def __init__(self, targets: Metrics, rule):
        self._targets, self._rule = targets, Autoscaler(rule)
        self._totals, self._loads = deque(maxlen=QUEUE_SYNCS), None

    def sync(self, now, current, ratios, loads, unready):
        """Return how many replicas there shall be, after a look at these values at every scrape.

        `ratios`: how full the queue of each ready replica is; `loads`: the share of its requested cores that it used.
        """
        totals, seen = list(self._totals), self._loads
        self._totals.append(sum(ratios))
        self._loads = list(loads)
        if seen is None:
            return current
        wanted = []
        if target := self._targets.get("queue"):
            wanted.append(replicas_for_total(max(totals), target, current))
        if target := self._targets.get("processor"):
            wanted.append(replicas_for_loads(seen, unready, target, current))
        return self._rule.decide(now, current, max(wanted))


def cold_starts(cluster, at_start, current, added):
    """Return which of the replicas that are added need a node that must come first."""
    room = at_start + math.floor(cluster.spare * at_start)
    return [current + number >= room for number in range(added)]
