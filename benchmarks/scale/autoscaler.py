"""The rule of Kubernetes' HorizontalPodAutoscaler, with a metric of its own (as KEDA feeds it) or processor load.

It is that of kubernetes.io, "Horizontal Pod Autoscaling", and of the controller's source (replica_calculator.go,
horizontal.go of Kubernetes 1.31): proportional, with a tolerance, stabilization windows and scaling policies. KEDA
creates such an autoscaler and answers its questions for a metric; its own `pollingInterval` counts only between 0 and 1
replicas.
"""

import math
from dataclasses import dataclass

TOLERANCE = 0.1
"""A ratio that is closer to 1 changes nothing (--horizontal-pod-autoscaler-tolerance)."""
SYNC_SECONDS = 15.0
"""The seconds between two decisions (--horizontal-pod-autoscaler-sync-period)."""


def replicas_for_total(total, target, current):
    """Return the replicas that an external metric of the type AverageValue asks for."""
    if not current or abs(1 - total / (target * current)) <= TOLERANCE:
        return current
    return math.ceil(total / target)


def replicas_for_loads(loads, unready, target, current):
    """Return the replicas that a resource metric asks for: `loads` are those of the ready ones, as shares of requests.

    Replicas that are not ready count as idle when the number would grow.
    """
    if not loads:
        return current
    ratio = sum(loads) / len(loads) / target
    if not (unready and ratio > 1):
        return current if abs(1 - ratio) <= TOLERANCE else math.ceil(ratio * len(loads))
    counted = len(loads) + unready
    ratio = sum(loads) / counted / target
    wanted = math.ceil(ratio * counted)
    return current if ratio <= 1 + TOLERANCE or wanted < current else wanted


@dataclass(frozen=True)
class Policy:
    """How much may be added or removed within `seconds`: the larger of a number of pods and of per cent of them."""

    pods: int
    percent: int
    seconds: float = 15.0


@dataclass(frozen=True)
class Rule:
    """An autoscaler's specification; the defaults are Kubernetes'."""

    least: int
    most: int
    up: Policy = Policy(pods=4, percent=100)
    down: Policy = Policy(pods=0, percent=100)
    up_seconds: float = 0.0
    down_seconds: float = 300.0
    """The stabilization windows, up and down, in seconds."""


class Autoscaler:
    """Decides at every sync how many replicas there shall be."""

    def __init__(self, rule):
        self.rule = rule
        self._recommended = []
        self._changes = []

    def decide(self, now, current, wanted):
        """Return the number of replicas, given how many there are and how many the metric asks for."""
        rule = self.rule
        self._recommended = self._recommended or [(now, current)]
        self._recommended = [
            (at, count)
            for at, count in self._recommended
            if now - at < max(rule.up_seconds, rule.down_seconds, SYNC_SECONDS)
        ]
        up = min([wanted, *(count for at, count in self._recommended if now - at < rule.up_seconds)])
        down = max([wanted, *(count for at, count in self._recommended if now - at < rule.down_seconds)])
        self._recommended.append((now, wanted))
        stable = up if current < up else min(current, down)
        bounded = max(min(stable, rule.most), rule.least)
        if bounded > current:
            bounded = min(bounded, max(self._most(now, current), current))
        elif bounded < current:
            bounded = max(bounded, min(self._least(now, current), current))
        if bounded != current:
            self._changes.append((now, bounded - current))
        return bounded

    def _before(self, now, current, seconds):
        """Return how many there were at the beginning of a policy's period."""
        return current - sum(change for at, change in self._changes if now - at < seconds)

    def _most(self, now, current):
        before = self._before(now, current, self.rule.up.seconds)
        return max(before + self.rule.up.pods, math.ceil(before * (1 + self.rule.up.percent / 100)))

    def _least(self, now, current):
        before = self._before(now, current, self.rule.down.seconds)
        return min(before - self.rule.down.pods, math.floor(before * (1 - self.rule.down.percent / 100)))
