"""The simulation of many replicas against queueing theory, Kubernetes' rule by hand, and itself."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.scale import arrivals
from benchmarks.scale.autoscaler import Autoscaler, Policy, Rule, replicas_for_loads, replicas_for_total
from benchmarks.scale.events import Simulation
from benchmarks.scale.fleets import Fleet, shared
from benchmarks.scale.replicas import Cluster, Controller, Service

PLENTY = {"queue": 1 << 40, "deadline": 1e9}
"""Bounds that nothing reaches, as queueing theory has none."""


def poisson(rate, count, seed=0):
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))


def mean_wait(service, rate, count=60_000):
    """Return the mean wait of a long run, of one replica, without its beginning; and its standard error."""
    moments = poisson(rate, count)
    found = Simulation(service, moments, math.inf, 1, seed=1).run()
    order = np.argsort(found.arrived)
    waits = np.array(found.latencies)[order][count // 20 :] - service.first * np.mean(service.factors)
    means = waits[: len(waits) // 20 * 20].reshape(20, -1).mean(axis=1)
    return waits.mean(), means.std(ddof=1) / math.sqrt(20)


def erlang_c(servers, load):
    """Return the probability of a wait in M/M/c."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**n / math.factorial(n) for n in range(servers)) + last)


EXPONENTIAL = np.random.default_rng(7).exponential(1, 200_000)


@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize("servers", [1, 3])
def test_waits_are_those_of_erlang_c(servers, load):
    service = Service(first=1.0, each=1.0, most=1, abreast=servers, factors=EXPONENTIAL, **PLENTY)
    wanted = erlang_c(servers, servers * load) / (servers * (1 - load))
    found, error = mean_wait(service, rate=servers * load)
    assert abs(found - wanted) < 4 * error + 0.01


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_waits_at_a_constant_time_are_half_of_those(load):
    found, error = mean_wait(Service(first=1.0, each=1.0, most=1, **PLENTY), rate=load)
    assert abs(found - load / (2 * (1 - load))) < 4 * error + 0.01
