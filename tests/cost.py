"""What tests cost, in processor time: a limit for each item, and a list of the dearest items and fixtures."""

import functools
import os
import threading
import time

import pytest

LIMIT = 30
"""Seconds of processor time that an item may take that is not marked `slow`, on a machine as quick as LOOP_SECONDS."""

LOOP_SECONDS = 0.065
"""What `loop` takes on a Zen 5 that does nothing else."""

SHOWN = 10


def processor_seconds():
    """Return the processor time of this process and of the children that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def loop():
    """Do the same work on every machine."""
    return sum(number * number % 7 for number in range(1_500_000))


@functools.cache
def slowness():
    """Return how many times as long as LOOP_SECONDS the loop takes here, at least 1."""
    start = time.process_time()
    loop()
    return max(1.0, (time.process_time() - start) / LOOP_SECONDS)


class Costs:
    """Measures items and fixtures in each process that runs tests, and lists them at the end."""

    def __init__(self):
        self.items, self.fixtures = {}, {}
        self.shared = 0.0
        """Seconds that fixtures took since the last item began."""

    def pytest_sessionstart(self):
        slowness()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        name = f"{fixturedef.baseid}::{fixturedef.argname}" if fixturedef.baseid else fixturedef.argname
        begun = {}

        def spend(start, shared):
            """Add what a fixture took, less what fixtures took that it asked for itself."""
            spent = processor_seconds() - start - (self.shared - shared)
            self.fixtures[name] = self.fixtures.get(name, 0.0) + spent
            self.shared += spent

        # finalizers run in the reverse order: this one after the fixture's own, `begin` before
        fixturedef.addfinalizer(lambda: spend(*begun.pop("end")))
        start = processor_seconds(), self.shared
        try:
            return (yield)
        finally:
            spend(*start)
            fixturedef.addfinalizer(lambda: begun.update(end=(processor_seconds(), self.shared)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        start, shared = processor_seconds(), self.shared
        try:
            result = yield
        finally:
            spent = processor_seconds() - start - (self.shared - shared)
            self.items[item.nodeid] = spent
        limit = LIMIT * slowness()
        if spent > limit and not item.get_closest_marker("slow"):
            beside = ", ".join(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
            pytest.fail(
                f"took {spent:.0f} s of processor time, that of other threads included ({beside or 'none is left'}); "
                f"an item that is not marked slow may take {limit:.0f} s here",
                pytrace=False,
            )
        return result

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["costs"] = self.items, self.fixtures

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        items, fixtures = getattr(node, "workeroutput", {}).get("costs", ({}, {}))
        self.items |= items
        for name, spent in fixtures.items():
            self.fixtures[name] = self.fixtures.get(name, 0.0) + spent

    def pytest_terminal_summary(self, terminalreporter):
        for title, costs in (("items", self.items), ("fixtures", self.fixtures)):
            dearest = sorted(costs.items(), key=lambda pair: -pair[1])[: int(os.environ.get("COSTS_SHOWN", SHOWN))]
            terminalreporter.section(f"dearest {title}: {sum(costs.values()):.0f} s of processor time in all")
            for name, spent in dearest:
                terminalreporter.write_line(f"{spent:7.1f} s  {name}")


def pytest_configure(config):
    config.pluginmanager.register(Costs(), "costs")
