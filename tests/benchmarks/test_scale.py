"""The simulation of many replicas against queueing theory, Kubernetes' rule by hand, and itself."""

import math

import numpy as np
import pytest

from benchmarks.peers import ROOT
from benchmarks.scale import arrivals, costs, plan
from benchmarks.scale.autoscaler import Autoscaler, Policy, Rule, replicas_for_loads, replicas_for_total
from benchmarks.scale.events import Simulation
from benchmarks.scale.fleets import Fleet, shared
from benchmarks.scale.replicas import Cluster, Controller, Service

PLENTY = {"queue": 1 << 40, "deadline": 1e9}
"""Bounds that nothing reaches, as queueing theory has none."""

PAGE = (ROOT / "docs/capacity.md").read_text()

TARGETS = {"queue": 0.3, "processor": 0.7}


def poisson(rate, count, seed=0):
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))


def mean_wait(service, rate, count=30_000):
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
    service = Service(first=1.0, each=1.0, most=1, servers=servers, factors=EXPONENTIAL, **PLENTY)
    wanted = erlang_c(servers, servers * load) / (servers * (1 - load))
    found, error = mean_wait(service, rate=servers * load)
    assert abs(found - wanted) < 4 * error + 0.01


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_waits_at_a_constant_time_are_half_of_those(load):
    found, error = mean_wait(Service(first=1.0, each=1.0, most=1, **PLENTY), rate=load)
    assert abs(found - load / (2 * (1 - load))) < 4 * error + 0.01


def test_batches_answer_more_than_single_requests_would():
    alone = Service(first=0.1, each=0.1, most=1, **PLENTY)
    batched = Service(first=0.1, each=0.02, most=8, **PLENTY)
    moments = poisson(12, 3_000)
    waits = [np.mean(Simulation(one, moments, math.inf, 1).run().latencies) for one in (alone, batched)]
    assert waits[0] > 10 > 1 > waits[1]
    assert batched.capacity == pytest.approx(8 / (0.1 + 7 * 0.02))


# The autoscaler's rule


@pytest.mark.parametrize(
    ("total", "target", "current", "wanted"),
    [
        (400, 100, 2, 4),  # kubernetes.io: 200m of a wanted 100m doubles
        (100, 100, 2, 1),  # and 50m halves
        (1.26, 0.3, 4, 4),  # 1.05 of the target: within the tolerance of a tenth
        (1.44, 0.3, 4, 5),  # 1.2 of it: 4.8, rounded up
        (0, 0.3, 2, 0),
    ],
)
def test_a_metric_of_all_replicas_asks_for_its_share_of_the_target(total, target, current, wanted):
    assert replicas_for_total(total, target, current) == wanted


@pytest.mark.parametrize(
    ("loads", "unready", "current", "wanted"),
    [
        ([0.9] * 50, 0, 50, 60),  # the example of Kubernetes' release notes on tolerance, at a target of 75 %
        ([0.8] * 4, 0, 4, 4),
        ([1.0] * 4, 0, 4, 6),  # 5.3
        ([1.0] * 4, 2, 6, 6),  # those that are not ready count as idle: 4 of 6 is 0.89 of the target
        ([1.5] * 4, 2, 6, 8),  # and still too much
        ([0.3] * 4, 2, 6, 2),  # they do not count when it shrinks
        ([], 3, 3, 3),
    ],
)
def test_loads_ask_for_their_mean_of_the_target(loads, unready, current, wanted):
    assert replicas_for_loads(loads, unready, 0.75, current) == wanted


def test_what_is_added_is_bounded_by_four_or_all_within_fifteen_seconds():
    scaler, current, seen = Autoscaler(Rule(2, 100)), 2, []
    for number in range(5):
        current = scaler.decide(15.0 * number, current, 90)
        seen.append(current)
    assert seen == [6, 12, 24, 48, 90]


def test_what_was_added_within_the_period_counts():
    scaler = Autoscaler(Rule(2, 100, up=Policy(pods=4, percent=0, seconds=60)))
    seen, current = [], 10
    for number in range(6):
        current = scaler.decide(15.0 * number, current, 50)
        seen.append(current)
    assert seen == [14, 14, 14, 14, 18, 18]


def test_nothing_is_removed_until_the_highest_of_five_minutes_has_passed():
    scaler, current, seen = Autoscaler(Rule(2, 20)), 2, {}
    for number in range(41):
        now = 15.0 * number
        current = scaler.decide(now, current, 8 if now == 60 else 3)
        seen[now] = current
    assert seen[45] == 3
    assert seen[60] == 7  # four more than there were
    assert seen[345] == 7  # a recommendation of the past adds none
    assert seen[360] == 3


def test_of_two_metrics_the_one_counts_that_asks_for_more_and_each_is_that_of_the_scrape_before():
    controller, seen = Controller({"queue": 0.3, "processor": 0.5}, Rule(2, 20)), []
    for at, (ratio, load) in enumerate([(0, 0.5), (0.6, 0.5), (0, 0.9), (0, 0.5), (0, 0.5), (0, 0.5)]):
        seen.append(controller.sync(15.0 * at, 4, [ratio] * 4, [load] * 4, 0))
    assert seen == [4, 4, 8, 8, 8, 8]  # 8 replicas for the queue, 4 x 0.9 / 0.5 = 7.2 for the cores


# Nothing is lost, or counted twice


def totals(found):
    return sum(found.counts[name] for name in ("answered", "refused", "expired", "broken", "in flight"))


@pytest.mark.parametrize("metric", ["queue", "processor"])
def test_every_request_is_counted_once(metric):
    service = Service(first=0.1, each=0.08, tokens=197)
    rates = 2 * service.capacity * arrivals.flash(300, None, at=30)
    counted = arrivals.counts(rates, chance := np.random.default_rng(3))
    moments = arrivals.moments(counted, chance)
    controller = Controller({metric: TARGETS[metric]}, Rule(3, 9))
    found = Simulation(service, moments, 300, 3, controller=controller, deaths=[(100, 0.4)], renewals=[200]).run()
    assert found.counts["arrived"] == len(moments) == totals(found)
    assert all(found.counts[name] for name in ("answered", "refused", "broken", "in flight"))
    assert found.counts["answered"] == len(found.latencies)
    steps = Fleet(
        service, counted, 3, controller=Controller({metric: TARGETS[metric]}, Rule(3, 9)), deaths=[(100, 0.4)]
    ).run()
    assert steps.counts["arrived"] == pytest.approx(
        sum(value for name, value in steps.counts.items() if name != "arrived")
    )


def test_one_that_is_too_full_refuses_and_nobody_waits_past_the_deadline():
    service = Service(first=0.1, each=0.1, tokens=100, most=100, queue=1_000, deadline=30)
    found = Simulation(service, poisson(20, 4_000), math.inf, 1).run()
    assert found.counts["refused"] / 4_000 == pytest.approx(0.5, abs=0.03)
    assert max(found.latencies) == pytest.approx(10 * 0.1, abs=0.11)  # ten fit


def drained(cluster):
    service = Service(first=0.2, each=0.2, tokens=100, most=100)
    moments = poisson(8, 1_600)
    return Simulation(service, moments, math.inf, 4, cluster, renewals=[20, 110]).run()


def test_a_replacement_of_all_replicas_loses_no_request():
    found = drained(Cluster())
    assert found.counts["answered"] == found.counts["arrived"] == 1_600
    assert len(found.replicas) == 4


def test_a_drain_that_is_shorter_than_the_proxy_needs_loses_requests():
    assert drained(Cluster(drain=0.5)).counts["broken"] > 0


def test_a_replica_is_not_ended_while_it_answers():
    assert drained(Cluster(notice=0, drain=0, grace=0)).counts["broken"] > 0
    assert drained(Cluster(notice=0, drain=0, grace=1)).counts["broken"] == 0


def test_a_node_that_dies_loses_what_is_in_flight_and_delays_what_comes_until_it_is_noticed():
    service = Service(first=0.1, each=0.1, tokens=100, most=100)
    found = Simulation(service, poisson(24, 2_000), math.inf, 3, deaths=[(30, 1 / 3)]).run()
    assert 0 < found.counts["broken"] < 10
    assert found.counts["answered"] == 2_000 - found.counts["broken"]
    arrived, latencies = np.array(found.arrived), np.array(found.latencies)
    assert max(latencies[arrived < 28]) < 2 < max(latencies[(arrived > 30) & (arrived < 32)])


@pytest.mark.parametrize(("replaced", "there"), [(50, 4), (200, 2)])
def test_the_replicas_of_a_dead_node_are_made_anew_once_it_is_given_up(replaced, there):
    service = Service(first=0.1, each=0.1, tokens=100, most=100)
    cluster = Cluster(replaced=replaced, start=5)
    found = Simulation(service, poisson(2, 180), 100, 4, cluster, deaths=[(10, 0.5)]).run()
    assert sum(replica.listed for replica in found.replicas) == there


# Many replicas


def test_what_arrives_is_given_to_those_with_the_fewest():
    assert shared(np.array([5.0, 0, 2]), 6).tolist() == [0, 4, 2]
    assert shared(np.array([1.0, 1, 1]), 6).tolist() == [2, 2, 2]
    assert shared(np.array([3.0]), 2).tolist() == [2]


@pytest.mark.parametrize(("metric", "height"), [(None, 2.5), ("queue", 2.5), ("processor", 1.0)])
def test_the_simulation_in_steps_finds_what_that_of_every_request_finds(metric, height):
    def controller():
        return Controller({metric: TARGETS[metric]}, Rule(4, 12)) if metric else None

    service = Service(first=0.1, each=0.09, tokens=197)
    rates = 0.6 * 4 * service.capacity * arrivals.step(400, None, at=60, until=180, height=height)
    late, refused, sizes = np.zeros(2), np.zeros(2), np.zeros(2)
    for seed in range(3):
        counted = arrivals.counts(rates, chance := np.random.default_rng(seed))
        moments = arrivals.moments(counted, chance)
        events = Simulation(service, moments, 400, 4, controller=controller()).run()
        steps = Fleet(service, counted, 4, controller=controller()).run()
        late += np.array([sum(one > 1 for one in events.latencies), steps.late]) / len(moments) / 3
        refused += np.array([events.counts["refused"], steps.counts["refused"]]) / len(moments) / 3
        if metric:
            sizes += [np.mean([size for _, size, _ in found.sizes]) / 3 for found in (events, steps)]
    assert late[1] == pytest.approx(late[0], abs=0.03)
    assert refused[1] == pytest.approx(refused[0], abs=0.02)
    assert sizes[1] == pytest.approx(sizes[0], abs=0.5)
    assert (height == 1) == (late[0] < 0.01)


def test_loads_have_the_mean_that_they_say():
    chance = np.random.default_rng(0)
    assert arrivals.bursts(200_000, chance).mean() == pytest.approx(1, abs=0.05)
    assert arrivals.step(1000, chance).max() == 5
    assert arrivals.flash(1000, chance).max() == pytest.approx(10, rel=0.01)
    assert arrivals.day(1000, chance).mean() == pytest.approx(0.625, abs=0.01)
    counted = arrivals.counts(np.full(1000, 50.0), chance)
    moments = arrivals.moments(counted, chance)
    assert counted.sum() == len(moments) == pytest.approx(10_000, abs=400)
    assert np.histogram(moments, 1000, (0, 200))[0].tolist() == counted.tolist()


# The page


def rows(table):
    """Return the lines of the table of the page that begins with the first line of this one."""
    return PAGE[PAGE.index(table.split("\n", 1)[0]) :].split("\n\n", 1)[0].splitlines()


def test_the_page_shows_the_costs_that_were_measured():
    table = costs.table(costs.read().values())
    assert rows(table) == table.splitlines()


def test_the_page_shows_what_plan_prints(capsys):
    plan.main([10, 1000, 20000], ["digits", "deit-s"])
    table = capsys.readouterr().out
    assert rows(table) == [line for line in table.splitlines() if "| rollout |" not in line]


def test_the_page_shows_what_was_answered_beside_what_the_plan_takes():
    """The share of two cores that was used, and the answers a second: as measured and as the plan has them."""
    table = "| model | request | share used, measured | s, assumed | answers/s, measured | most, computed |"
    assert rows(table)[2:] == [
        f"| {cost.model} | {cost.name} | {cost.processor_ms / cost.every_ms / plan.CORES:.2f} "
        f"| {plan.USED.get(cost.model, 1.0)} | {1000 / cost.every_ms:.1f} | {plan.most(cost):.1f} |"
        for cost in costs.read().values()
        if cost.model in ("digits", "deit-s") and cost.name != "rollout"
    ]
