"""A simulation of many replicas in steps of a fifth of a second: seconds for a thousand replicas and an hour.

It does not follow single requests. What arrives in a step is divided among the
replicas as leastconn would, so that those with the fewest in flight are filled up to one level; what a replica has no
room for is refused; what arrives waits for what is there before it; and what a replica answers in a step is taken
away. The queue of each replica is a number that need not be whole. So chance within a replica's step is lost: the time
of a request that meets no queue is that of a batch of one; nobody is given up at a
deadline, which admission keeps from being reached. A test holds it against the simulation of every request.
"""

import math

import numpy as np

from benchmarks.scale.arrivals import STEP
from benchmarks.scale.autoscaler import SYNC_SECONDS
from benchmarks.scale.replicas import CLUSTER, cold_starts

SYNC_STEPS = round(SYNC_SECONDS / STEP)
LIMITS = np.geomspace(1e-3, 120, 400)
"""Upper bounds of the classes in which latencies are counted, in seconds."""


def shared(held, arriving):
    """Return how many of those that arrive each replica is given, so that the fewest are filled up to one level."""
    order = np.sort(held)
    room = np.arange(1, len(order) + 1) * np.append(order[1:], np.inf) - np.cumsum(order)
    filled = int(np.searchsorted(room, arriving))
    level = (arriving + order[: filled + 1].sum()) / (filled + 1)
    return np.maximum(level - held, 0)


class Fleet:
    """As `events.Simulation`: `arriving` says how many arrive in each step."""

    def __init__(self, service, arriving, replicas, cluster=CLUSTER, controller=None, deaths=()):
        self.service, self.cluster, self.controller = service, cluster, controller
        self.counts = dict.fromkeys(("arrived", "answered", "refused", "broken", "in flight"), 0.0)
        self.latencies = np.zeros(len(LIMITS) + 1)
        self.late_seconds = np.zeros(len(arriving))
        self.refused = np.zeros(len(arriving))
        self.sizes = []
        self._arriving, self._at_start, self._deaths = arriving, replicas, list(deaths)
        self._missing, self._anew = 0, []  # those of dead nodes, which the autoscaler still counts
        self._began = np.full(replicas, -1.0)
        self._ready = np.zeros(replicas)
        self._leaves = np.full(replicas, math.inf)  # when the proxy sends it nothing any more
        self._held = np.zeros(replicas)
        self._busy = np.zeros(replicas)

    def run(self, objective=1.0):
        """Let the time pass; `late` counts those that took longer than the objective."""
        self.late = 0.0
        for number, arriving in enumerate(self._arriving):
            now = number * STEP
            while self._deaths and self._deaths[0][0] <= now:
                self._die(now, self._deaths.pop(0)[1])
            while self._anew and self._anew[0][0] <= now:
                count = min(self._anew.pop(0)[1], self._missing)
                self._missing -= count
                self._add(now, len(self._staying()), count)
            self._step(number, now, float(arriving), objective)
            if (number + 1) % SYNC_STEPS == 0:
                self._sync(round(now + STEP, 6))
        self.counts["in flight"] = float(self._held.sum())
        return self

    def percentile(self, share):
        """Return the latency below which a share of the answers lies."""
        below = np.cumsum(self.latencies) / self.latencies.sum()
        return float(LIMITS[min(np.searchsorted(below, share), len(LIMITS) - 1)])

    def _step(self, number, now, arriving, objective):
        service, held = self.service, self._held
        listed = (self._ready <= now) & (now < self._leaves)
        self.counts["arrived"] += arriving
        given = np.zeros_like(held)
        if listed.any():
            given[listed] = shared(held[listed], arriving)
        else:
            self._refuse(number, arriving)
        # a batch that runs is held whole by a replica, and half of it is done already here
        taken = np.minimum(given, np.maximum(service.room - (service.batch - 1) / 2 - held, 0))
        self._refuse(number, float((given - taken).sum()))
        batch = np.clip(held + taken, 1, service.batch)
        took = service.first + (batch - 1) * service.each
        rate = service.servers * batch / took
        # of those before it, half a batch runs together with it
        before = np.maximum(held + taken / 2 - service.servers - (batch - 1) / 2, 0)
        latency = before / rate + took
        self.latencies += np.bincount(np.searchsorted(LIMITS, latency), taken, len(LIMITS) + 1)
        late = float(taken[latency > objective].sum())
        self.late += late
        self.late_seconds[number] = late
        done = np.minimum(held + taken, rate * STEP)
        self._held = held + taken - done
        self._busy += done / (rate * STEP)
        self.counts["answered"] += float(done.sum())

    def _refuse(self, number, count):
        self.counts["refused"] += count
        self.refused[number] += count

    def _die(self, now, share):
        there = np.flatnonzero((self._ready <= now) & np.isinf(self._leaves))
        dead = there[: max(round(share * len(there)), 1)]
        # what is in flight is lost; what comes until the proxy notices goes elsewhere, after a while
        self.counts["broken"] += float(self._held[dead].sum())
        self._held[dead] = 0
        self._leaves[dead] = now
        self._missing += len(dead)
        self._anew.append((now + self.cluster.replaced, len(dead)))

    def _staying(self):
        return np.flatnonzero(np.isinf(self._leaves))

    def _add(self, now, current, added):
        cold = np.array(cold_starts(self.cluster, self._at_start, current, added), bool)
        new = np.zeros(added)
        self._began = np.append(self._began, new + now)
        self._ready = np.append(self._ready, now + np.where(cold, self.cluster.cold, self.cluster.start))
        self._leaves = np.append(self._leaves, new + math.inf)
        self._held, self._busy = np.append(self._held, new), np.append(self._busy, new)

    def _sync(self, now):
        staying = self._staying()
        ready = staying[self._ready[staying] <= now]
        self.sizes.append((now, len(staying), len(ready)))
        if self.controller:
            used = self._busy[ready] / SYNC_STEPS * self.service.cores
            running = np.clip(self._held[ready], 1, self.service.batch) - 1
            ratios = (self._held[ready] + running / 2) / self.service.room  # as above, of a batch that runs
            current = len(staying) + self._missing
            wanted = self.controller.sync(now, current, ratios.tolist(), used.tolist(), current - len(ready))
            self._missing -= min(max(current - wanted, 0), self._missing)  # those that are not ready go first
            wanted -= self._missing
            if wanted > len(staying):
                self._add(now, len(staying), wanted - len(staying))
            elif wanted < len(staying):
                # those that are not ready go first, then the youngest
                order = np.lexsort((-self._began[staying], self._ready[staying] <= now))
                going = staying[order][: len(staying) - wanted]
                self._leaves[going] = np.where(self._ready[going] > now, now, now + self.cluster.notice)
        self._busy[:] = 0
        gone = (self._leaves <= now) & (self._held < 1e-9)
        for name in ("_began", "_ready", "_leaves", "_held", "_busy"):
            setattr(self, name, getattr(self, name)[~gone])
