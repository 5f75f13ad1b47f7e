"""The device runs as many functions at a time as have cores, whatever happens to its threads or its callers."""

import asyncio
import contextlib
import ctypes
import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest
import structlog

from service.runtime.device import Device, run_beside, this_turn
from service.runtime.runtime_errors import DeviceLost
from tests.conftest import ROOT

pytestmark = pytest.mark.anyio


@pytest.fixture
def device():
    """A device that runs one function at a time."""
    with contextlib.closing(Device()) as device:
        yield device


@pytest.fixture
def two_cores():
    """A device that runs two functions at a time."""
    with contextlib.closing(Device(2)) as device:
        yield device


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_exception_thrown_into_the_devices_thread_loses_no_caller(device):
    """Wherever it is thrown: the watch looks once a second."""

    async def watch():
        while True:
            await asyncio.sleep(0.05)
            device.revive()

    watching = asyncio.create_task(watch())
    for _ in range(50):
        for worker in device._threads:
            thread = ctypes.c_ulong(worker._thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(SystemExit))
        async with device.turn() as run:
            with contextlib.suppress(RuntimeError):
                assert await asyncio.wait_for(run(lambda: 7), 5) == 7
    watching.cancel()


async def test_the_device_stays_locked_until_a_function_whose_caller_left_has_returned(device):
    running = threading.Event()
    go_on = threading.Event()

    def slow():
        running.set()
        go_on.wait(5)

    async def leave():
        async with device.turn() as run:
            await run(slow)

    leaving = asyncio.create_task(leave())
    await asyncio.to_thread(running.wait, 5)
    leaving.cancel()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(device.turn().__aenter__(), 0.1)
    assert device.busy_seconds() > 0.1
    go_on.set()
    async with device.turn() as run:
        assert await run(lambda: 7) == 7


async def test_turns_of_one_core_run_beside_one_another_and_busy_seconds_tell_the_longest(two_cores):
    both = threading.Barrier(2)

    async def meet():
        async with two_cores.turn(cores=1, share=0.5) as run:
            await run(both.wait, 5)

    await asyncio.gather(meet(), meet())
    assert two_cores.busy_seconds() == 0
    hung = threading.Event()
    async with two_cores.turn(cores=1, share=0.5) as run:
        work = run(hung.wait, 5)
        await asyncio.sleep(0.2)
        async with two_cores.turn(cores=1, share=0.5) as beside:
            await beside(lambda: 7)
            assert two_cores.busy_seconds() > 0.15
        hung.set()
        await work


async def test_a_turn_of_all_cores_waits_for_all_and_is_not_passed_by(two_cores):
    order = []

    async def take(name, cores, share):
        async with two_cores.turn(cores, share) as run:
            order.append(name)
            await run(threading.Event().wait, 0.05)
            order.append(name)

    first = asyncio.create_task(take("first", 1, 0.5))
    await asyncio.sleep(0.01)
    whole = asyncio.create_task(take("whole", 2, 1.0))
    await asyncio.sleep(0.01)
    last = asyncio.create_task(take("last", 1, 0.5))
    await asyncio.gather(first, whole, last)
    assert order == ["first", "first", "whole", "whole", "last", "last"]


async def test_a_run_that_is_stopped_before_it_begins_is_stopped(device):
    def work():
        options = type("Options", (), {"terminate": False})()
        with this_turn().running(options):
            return options.terminate

    async with device.turn() as run:
        waiting = threading.Event()
        blocked = run(lambda: waiting.wait(5) and work())
        run.stop()
        waiting.set()
        assert await blocked is True
        assert await run(work) is False


async def test_functions_beside_one_another_are_of_one_turn_which_stops_them_all(device):
    begun, stopped = threading.Barrier(3, timeout=30), threading.Event()

    def work(item):
        options = type("Options", (), {"terminate": False})()
        with this_turn().running(options):
            if item < 2:
                begun.wait()
                stopped.wait(5)
            return item, options.terminate

    async with device.turn() as run:
        several = run(run_beside, work, range(5), 2)
        await asyncio.to_thread(begun.wait)
        run.stop()
        stopped.set()
        assert await several == [(item, True) for item in range(5)]
        assert await run(run_beside, work, range(2, 6), 2) == [(item, False) for item in range(2, 6)]


def test_what_fails_beside_others_ends_them_all():
    begun = []

    def work(item):
        begun.append(item)
        if item == 0:
            raise ValueError(item)
        time.sleep(0.2)

    with pytest.raises(ValueError, match="0"):
        run_beside(work, range(100), 2)
    assert len(begun) < 100


def test_no_run_goes_on_if_a_thread_cannot_be_started(monkeypatch):
    begun, start = [], threading.Thread.start

    def start_one(thread):
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    def work(item):
        ran.append(item)
        time.sleep(0.01)

    ran = []
    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start"):
        run_beside(work, range(100), 3)
    (helper,) = begun
    assert not helper.is_alive()
    assert len(ran) < 100


def test_a_run_that_hangs_beside_another_keeps_no_process_from_its_end():
    program = """
import threading, time
from service.runtime.device import run_beside
hang = lambda item: begun[item].set() or time.sleep(1000)
begun = [threading.Event(), threading.Event()]
threading.Thread(target=run_beside, args=(hang, range(2), 2), daemon=True).start()
print(all(one.wait(10) for one in begun))
"""
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, cwd=ROOT, timeout=60, check=True, capture_output=True).stdout == b"True\n"


async def test_a_caller_that_leaves_while_it_waits_gives_its_turn_back(device):
    async with device.turn():
        gone = asyncio.create_task(device.turn().__aenter__())
        await asyncio.sleep(0.01)
        assert device.wanted == 1
        gone.cancel()
    async with asyncio.timeout(5), device.turn() as run:
        assert await run(lambda: 7) == 7
    assert device.free == 1


async def test_a_device_that_is_lost_says_so(device):
    def lose():
        raise DeviceLost("gone")

    async with device.turn() as run:
        with pytest.raises(DeviceLost):
            await run(lose)
    assert isinstance(device.lost, DeviceLost)


async def test_a_caller_that_waits_for_the_cores_of_several_turns_is_awaited_by_each(two_cores):
    async with two_cores.turn(1, 0.5) as one, two_cores.turn(1, 0.5) as other:
        assert (one.awaited, other.awaited) == (False, False)
        waiting = asyncio.create_task(two_cores.turn(2).__aenter__())
        await asyncio.sleep(0.01)
        assert (one.awaited, other.awaited) == (True, True)
    (await waiting).release()


async def test_a_caller_that_leaves_as_its_turn_comes_leaves_no_line_in_the_log(device):
    with structlog.testing.capture_logs() as logs:
        async with device.turn():
            gone = asyncio.create_task(device.turn().__aenter__())
            await asyncio.sleep(0.01)
            gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
    assert logs == []
    assert device.free == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_an_idle_thread_keeps_nothing_of_its_last_run(fails, two_cores):
    """Some threads may be idle for hours: a batch and its answers would stay, and a session after a reload."""

    class Batch:
        """Something that can be referred to weakly."""

    kept = []

    def answer(batch):
        if fails:
            raise ValueError
        found = Batch()
        kept.append(weakref.ref(found))
        return found

    async def ask():
        batch = Batch()
        kept.append(weakref.ref(batch))
        async with two_cores.turn() as run:
            with contextlib.suppress(ValueError):
                await run(answer, batch)

    await ask()
    async with asyncio.timeout(5):
        while any(one() for one in kept):
            gc.collect()
            await asyncio.sleep(0.01)
