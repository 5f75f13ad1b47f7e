"""A simulation of every request: exact for what it models, and quick enough for some millions of requests.

A request goes to the replica with the fewest in flight (HAProxy's leastconn). There it is admitted by the service's own
`Budget`, or refused (429). It waits for a batch, which begins as soon as the replica has a turn free and holds what
waits then, up to the batch's limit. It is given up at its deadline (504).
"""

import heapq
import itertools
from collections import Counter, deque

import numpy as np

from benchmarks.scale.autoscaler import SYNC_SECONDS
from benchmarks.scale.replicas import CLUSTER, cold_starts
from service.batching.fair_queue import Caller
from service.errors import Busy

STARTING, READY, CLOSED, GONE = "starting", "ready", "closed", "gone"


class Replica:
    """One replica. `listed` says whether the proxy sends it requests."""

    def __init__(self, service, begun):
        self.begun = begun
        self.state, self.listed, self.stopping = STARTING, False, False
        self.in_flight = self.running = 0
        self.waiting = deque()
        self.batches = {}
        self.busy = 0.0
        self.budget = service.budget()


class Simulation:
    """Requests at these moments (seconds, in order) to a number of replicas, for some seconds.

    `controller` decides how many there are, if it is given; `deaths` are (second, share of the replicas) whose node
    dies; `renewals` are seconds at which all are replaced, one more at a time. `counts` says what became of the
    requests, `latencies` holds the seconds of those that were answered, and `arrived` when these came.
    """

    def __init__(
        self, service, moments, seconds, replicas, cluster=CLUSTER, controller=None, deaths=(), renewals=(), seed=0
    ):
        self.service, self.cluster, self.seconds, self.controller = service, cluster, seconds, controller
        self.counts, self.latencies, self.arrived = Counter(), [], []
        self.sizes = []
        self._connecting = 0
        self._chance = np.random.default_rng(seed)
        self._numbers, self._events, self._turn = itertools.count(), [], itertools.count()
        self._moments, self._at_start = moments, replicas
        self._missing = 0  # those of dead nodes, which the autoscaler still counts
        self.replicas = []
        for _ in range(replicas):
            self._ready(0.0, self._add(0.0))
        if controller:
            self._after(SYNC_SECONDS, self._sync)
        for second, share in deaths:
            self._after(second, self._die, share)
        for second in renewals:
            self._after(second, self._renew)

    def run(self):
        """Let the time pass; return this simulation."""
        for moment in self._moments.tolist():
            self._pass_until(moment)
            self.counts["arrived"] += 1
            self._arrive(moment, moment)
        self._pass_until(self.seconds)
        self.counts["in flight"] = self._connecting + sum(len(one.waiting) + one.running for one in self.replicas)
        return self

    def _pass_until(self, end):
        while self._events and self._events[0][0] <= end:
            now, _, call, *arguments = heapq.heappop(self._events)
            call(now, *arguments)

    def _after(self, moment, call, *arguments):
        heapq.heappush(self._events, (moment, next(self._numbers), call, *arguments))

    # A request

    def _arrive(self, now, arrived):
        listed = [replica for replica in self.replicas if replica.listed]
        if not listed:
            self.counts["refused"] += 1
            return
        turn = next(self._turn) % len(listed)  # among those with as few in flight, one after the other
        replica = min(listed[turn:] + listed[:turn], key=lambda one: one.in_flight)
        if replica.state == GONE:
            replica.in_flight += 1
            self._connecting += 1
            self._after(now + self.cluster.connect, self._again, replica, arrived)
        elif replica.state == CLOSED:
            self.counts["broken"] += 1
        else:
            self._admit(now, replica, arrived)

    def _again(self, now, replica, arrived):
        replica.in_flight -= 1
        self._connecting -= 1
        self._arrive(now, arrived)

    def _admit(self, now, replica, arrived):
        try:
            replica.budget.take(self.service.tokens, Caller(request=arrived))
        except Busy:
            self.counts["refused"] += 1
            return
        replica.in_flight += 1
        replica.waiting.append(arrived)
        self._begin(now, replica)

    def _begin(self, now, replica):
        service = self.service
        while replica.waiting and len(replica.batches) < service.servers and replica.state != GONE:
            free = service.servers - len(replica.batches)
            fits = max(service.batch - replica.running, 1) if replica.batches else service.batch
            batch = []
            for _ in range(min(-(-len(replica.waiting) // free), fits)):
                arrived = replica.waiting.popleft()
                if now - arrived > service.deadline:
                    self._leave(replica, "expired", arrived)
                else:
                    batch.append(arrived)
            if batch:
                factor = service.factors[self._chance.integers(len(service.factors))]
                seconds = (service.first + (len(batch) - 1) * service.each) * factor
                number = next(self._numbers)
                replica.batches[number] = batch
                replica.running += len(batch)
                self._after(now + seconds, self._finish, replica, number, seconds)

    def _finish(self, now, replica, number, seconds):
        if (batch := replica.batches.pop(number, None)) is None:
            return  # its node has died
        replica.running -= len(batch)
        replica.busy += seconds
        replica.budget.spent(len(batch) * self.service.tokens, seconds / self.service.servers)
        outside = self._chance.choice(self.service.outside, len(batch))
        for arrived, beside in zip(batch, outside.tolist(), strict=True):
            seconds = now - arrived + beside
            late = seconds > self.service.deadline
            self._leave(replica, "expired" if late else "answered", arrived)
            if not late:
                self.latencies.append(seconds)
                self.arrived.append(arrived)
        self._begin(now, replica)

    def _leave(self, replica, outcome, arrived):
        replica.in_flight -= 1
        replica.budget.give_back(self.service.tokens, Caller(request=arrived))
        self.counts[outcome] += 1

    # A replica

    def _add(self, now):
        self.replicas.append(replica := Replica(self.service, now))
        return replica

    def _ready(self, now, replica):
        if not replica.stopping and replica.state == STARTING:
            replica.state, replica.listed = READY, True

    def _stop(self, now, replica):
        replica.stopping = True
        self._after(now + self.cluster.notice, self._unlist, replica)
        self._after(now + self.cluster.drain, self._close, replica)
        self._after(now + self.cluster.drain + self.cluster.grace, self._end, replica)
        if replica.state == STARTING:
            self._end(now, replica)

    def _unlist(self, _, replica):
        replica.listed = False
        if replica.state == GONE and replica in self.replicas:
            self.replicas.remove(replica)

    def _close(self, _, replica):
        if replica.state == READY:
            replica.state = CLOSED

    def _end(self, _, replica):
        self.counts["broken"] += len(replica.waiting) + replica.running
        replica.waiting.clear()
        replica.batches.clear()
        replica.state, replica.running = GONE, 0
        if not replica.listed and replica in self.replicas:
            self.replicas.remove(replica)

    def _die(self, now, share):
        there = [replica for replica in self.replicas if replica.state == READY and not replica.stopping]
        dead = there[: max(round(share * len(there)), 1)]
        for replica in dead:
            replica.stopping = True
            self._end(now, replica)
            self._after(now + self.cluster.notice, self._unlist, replica)
        self._missing += len(dead)
        self._after(now + self.cluster.replaced, self._make_anew, len(dead))

    def _make_anew(self, now, count):
        count = min(count, self._missing)
        self._missing -= count
        self._scale(now, len(self._staying()) + count)

    def _renew(self, now):
        """Replace all replicas, each by one that is ready before it is told to stop."""
        for replica in [one for one in self.replicas if not one.stopping]:
            now += self.cluster.start
            self._after(now, self._replace, replica)

    def _replace(self, now, replica):
        self._ready(now, self._add(now))
        self._stop(now, replica)

    # How many there are

    def _staying(self):
        return [replica for replica in self.replicas if not replica.stopping]

    def _scale(self, now, wanted):
        staying = self._staying()
        added = max(wanted - len(staying), 0)
        for cold in cold_starts(self.cluster, self._at_start, len(staying), added):
            start = self.cluster.cold if cold else self.cluster.start
            self._after(now + start, self._ready, self._add(now))
        # those that are not ready go first, then the youngest
        staying.sort(key=lambda one: (one.state == READY, -one.begun))
        for replica in staying[: max(len(staying) - wanted, 0)]:
            self._stop(now, replica)

    def _sync(self, now):
        service, staying = self.service, self._staying()
        ready = [replica for replica in staying if replica.state == READY]
        held = [replica.budget.held / max(replica.budget.room, 1) for replica in ready]
        used = [min(one.busy / SYNC_SECONDS / service.servers, 1.0) * service.cores for one in ready]
        for replica in self.replicas:
            replica.busy = 0.0
        self.sizes.append((now, len(staying), len(ready)))
        current = len(staying) + self._missing
        wanted = self.controller.sync(now, current, held, used, current - len(ready))
        self._missing -= min(max(current - wanted, 0), self._missing)  # those that are not ready go first
        self._scale(now, wanted - self._missing)
        self._after(now + SYNC_SECONDS, self._sync)
