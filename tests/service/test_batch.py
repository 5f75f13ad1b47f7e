import asyncio
import contextlib
import ctypes
import threading

import pytest

from service.batching import batcher as batch
from service.batching.admission import Budget
from service.batching.batcher import Lane, bucket_of
from service.errors import Broken, Busy, DeviceFull
from service.runtime.device import Device
from service.telemetry.metrics import Metrics


class Recorder:
    """A stand-in for a session: records its batches, and waits before each one until told to go on."""

    def __init__(self):
        self.batches = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, items):
        self.go.wait(5)
        self.batches.append(list(items))
        return [item * 10 for item in items]


def play(scenario, limit=100, run=None):
    """Run a scenario with a lane that is being worked on; returns the recorder."""
    recorder = run or Recorder()

    async def main():
        device = Device()
        lane = Lane("toy", device, recorder, limit, Budget("toy", 1000), Metrics())
        worker = asyncio.create_task(lane.work())
        try:
            await asyncio.wait_for(scenario(lane, recorder), 10)
        finally:
            worker.cancel()
            device.close()

    asyncio.run(main())
    return recorder


async def while_busy(lane, recorder, *submissions):
    """Submit while a first batch runs, so that the others gather; returns the results of the others."""
    recorder.go.clear()
    first = asyncio.create_task(lane.submit(0, 1))
    await asyncio.sleep(0.05)
    tasks = [asyncio.create_task(submission) for submission in submissions]
    await asyncio.sleep(0.05)
    recorder.go.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_a_lone_item_runs_at_once():
    async def scenario(lane, recorder):
        assert await lane.submit(4, 1) == 40

    assert play(scenario).batches == [[4]]


def test_what_arrives_while_a_batch_runs_is_the_next_batch():
    async def scenario(lane, recorder):
        assert await while_busy(lane, recorder, *(lane.submit(item, 1) for item in (1, 2, 3))) == [10, 20, 30]

    assert play(scenario).batches == [[0], [1, 2, 3]]


def test_a_batch_is_cut_by_what_its_padding_costs():
    async def scenario(lane, recorder):
        sizes = [(1, 10), (2, 30), (3, 10), (4, 10)]
        await while_busy(lane, recorder, *(lane.submit(item, size) for item, size in sizes))

    assert play(scenario, limit=60).batches == [[0], [1, 2], [3, 4]]


def test_an_item_larger_than_the_limit_runs_alone():
    async def scenario(lane, recorder):
        await while_busy(lane, recorder, lane.submit(1, 500), lane.submit(2, 1))

    assert play(scenario, limit=60).batches == [[0], [1], [2]]


def test_items_of_a_bucket_run_together_and_the_oldest_leads():
    async def scenario(lane, recorder):
        items = [(1, 64), (2, 8), (3, 64), (4, 8)]
        await while_busy(lane, recorder, *(lane.submit(item, 1, bucket) for item, bucket in items))

    assert play(scenario).batches == [[0], [1, 3], [2, 4]]


def test_a_cancelled_item_never_runs():
    async def scenario(lane, recorder):
        recorder.go.clear()
        first = asyncio.create_task(lane.submit(0, 1))
        await asyncio.sleep(0.05)
        gone, kept = (asyncio.create_task(lane.submit(item, 1)) for item in (1, 2))
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0)
        recorder.go.set()
        assert await kept == 20
        await first

    assert play(scenario).batches == [[0], [2]]


def test_a_failed_batch_is_answered_and_the_next_one_runs():
    calls = []

    def run(items):
        calls.append(items)
        if len(calls) == 1:
            raise ValueError("secret words")
        return items

    async def scenario(lane, recorder):
        with pytest.raises(RuntimeError, match=r"^toy: the batch failed$"):
            await lane.submit(1, 1)
        assert await lane.submit(2, 1) == 2

    play(scenario, run=run)


def test_one_bad_item_of_a_batch_fails_alone():
    def run(items):
        if 2 in items:
            raise ValueError("secret words")
        return [item * 10 for item in items]

    recorder = Recorder()

    async def scenario(lane, _):
        first, second, third = await while_busy(lane, recorder, *(lane.submit(item, 1) for item in (1, 2, 3)))
        assert (first, third) == (10, 30)
        assert str(second) == "toy: the batch failed"

    play(scenario, run=lambda items: run(recorder(items) and items))
    assert recorder.batches == [[0], [1, 2, 3], [1], [2], [3]]


def test_a_result_that_is_a_refusal_is_that_items_alone():
    recorder = Recorder()

    async def scenario(lane, _):
        good, bad = await while_busy(lane, recorder, lane.submit(1, 1), lane.submit(2, 1))
        assert good == 1
        assert isinstance(bad, Broken)
        assert lane._metrics.faults.labels("toy", "not_finite")._value.get() == 1

    play(scenario, run=lambda items: recorder(items) and [Broken("toy") if item == 2 else item for item in items])


def test_out_of_memory_makes_batches_smaller():
    def run(items):
        if len(items) > 2:
            raise DeviceFull("no room", 1)
        return items

    recorder = Recorder()

    async def scenario(lane, _):
        for _ in range(2):
            assert await while_busy(lane, recorder, *(lane.submit(item, 1) for item in range(1, 5))) == [1, 2, 3, 4]

    play(scenario, limit=5, run=lambda items: run(recorder(items) and items))
    assert recorder.batches == [[0], [1, 2, 3, 4], [1], [2], [3], [4], [0], [1, 2], [3, 4]]


@pytest.mark.parametrize("death", [SystemExit, KeyboardInterrupt, type("PanicException", (BaseException,), {})])
def test_what_ends_a_thread_ends_one_batch(death):
    calls = []

    def run(items):
        calls.append(items)
        if len(calls) == 1:
            raise death("secret words")
        return items

    async def scenario(lane, recorder):
        with pytest.raises(RuntimeError, match=r"^toy: the batch failed$"):
            await lane.submit(1, 1)
        assert await lane.submit(2, 1) == 2
        assert lane._metrics.faults.labels("toy", "worker")._value.get() == 1

    play(scenario, run=run)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exception_thrown_into_the_devices_thread_loses_nobody():
    """Wherever it is thrown: the watch looks once a second."""

    async def main():
        device = Device()

        async def watch():
            while True:
                await asyncio.sleep(0.05)
                device.revive()

        watching = asyncio.create_task(watch())
        for _ in range(50):
            thread = ctypes.c_ulong(device._thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(SystemExit))
            async with device.turn() as run:
                with contextlib.suppress(RuntimeError):
                    assert await asyncio.wait_for(run(lambda: 7), 5) == 7
        watching.cancel()
        device.close()

    asyncio.run(main())


def test_a_batch_that_nobody_waits_for_is_stopped_and_the_next_one_runs():
    stopped = threading.Event()

    def run(items):
        if items == [1]:
            assert stopped.wait(5)
            raise ValueError("terminated")
        return items

    async def main():
        device, metrics = Device(), Metrics()
        lane = Lane("toy", device, run, 100, Budget("toy", 1000), metrics, stopped.set)
        worker = asyncio.create_task(lane.work())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lane.submit(1, 1), 0.1)
        assert await asyncio.wait_for(lane.submit(2, 1), 5) == 2
        assert metrics.faults.labels("toy", "exception")._value.get() == 0
        worker.cancel()
        device.close()

    asyncio.run(main())


def test_the_device_is_nobodys_until_what_was_left_behind_has_returned():
    running = threading.Event()
    go_on = threading.Event()

    def slow():
        running.set()
        go_on.wait(5)

    async def main():
        device = Device()

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
        device.close()

    asyncio.run(main())


def test_interactive_work_goes_first_and_batch_work_does_not_starve(monkeypatch):
    async def scenario(lane, recorder):
        async def submit(item, priority, patience):
            monkeypatch.setattr(batch, "PATIENCE", patience)
            batch.PRIORITY.set(priority)
            return await lane.submit(item, 100)

        order = [(1, "batch", 60), (2, "batch", 0), (3, "interactive", 60), (4, "interactive", 60)]
        await while_busy(lane, recorder, *(submit(*one) for one in order))

    assert play(scenario).batches == [[0], [2], [3], [4], [1]]


def test_batch_work_leaves_room_for_what_is_interactive():
    budget = Budget("queue", 100)
    budget.take(45)
    batch.PRIORITY.set("batch")
    with pytest.raises(Busy, match="queue: at most 50 may wait, given 10 more on top of 45"):
        budget.take(10)
    batch.PRIORITY.set("interactive")
    budget.take(55)


def test_two_lanes_take_turns_on_one_device_and_never_run_at_once():
    running, most = 0, 0

    def run(items):
        nonlocal running, most
        running += 1
        most = max(most, running)
        threading.Event().wait(0.01)
        running -= 1
        return items

    async def main():
        device = Device()
        lanes = [Lane(name, device, run, 1, Budget(name, 100), Metrics()) for name in ("a", "b")]
        workers = [asyncio.create_task(lane.work()) for lane in lanes]
        await asyncio.wait_for(asyncio.gather(*(lane.submit(item, 1) for item in range(10) for lane in lanes)), 10)
        for worker in workers:
            worker.cancel()
        device.close()

    asyncio.run(main())
    assert most == 1


def test_a_full_budget_refuses_and_says_when_to_come_again():
    budget = Budget("queue", 100)
    budget.spent(5, seconds=2.0)  # 2.5 a second
    with budget.permit(90):
        with (
            pytest.raises(Busy, match="queue: at most 100 may wait, given 20 more on top of 90") as refused,
            budget.permit(20),
        ):
            pass
        assert refused.value.headers == {"Retry-After": "4"}
        with budget.permit(10):
            assert budget.held == 100
    assert budget.held == 0


def test_a_budget_is_given_back_when_the_work_fails():
    budget = Budget("queue", 100)
    with pytest.raises(ValueError, match="broken"), budget.permit(60):
        raise ValueError("broken")
    assert budget.held == 0


@pytest.mark.parametrize(("length", "bucket"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_buckets_are_powers_of_two(length, bucket):
    assert bucket_of(length) == bucket
