"""Lanes: which items run together, in which order, and what a failure costs the others."""

import asyncio
import contextlib
import threading

import pytest

from service.batching import admission
from service.batching.admission import Budget
from service.batching.batcher import Lane, bucket_of
from service.errors import Broken, DeviceFull
from service.runtime.device import Device
from service.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio


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


@contextlib.asynccontextmanager
async def working_lane(limit=100, run=None):
    """Give a lane that is being worked on, and what runs its batches: a recorder unless another is given."""
    recorder, device = run or Recorder(), Device()
    lane = Lane("toy", device, recorder, limit, Budget("toy", 1000), Metrics())
    worker = asyncio.create_task(lane.work())
    try:
        async with asyncio.timeout(10):
            yield lane, recorder
    finally:
        worker.cancel()
        device.close()


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


async def test_a_lone_item_runs_at_once():
    async with working_lane() as (lane, recorder):
        assert await lane.submit(4, 1) == 40
    assert recorder.batches == [[4]]


async def test_what_arrives_while_a_batch_runs_is_the_next_batch():
    async with working_lane() as (lane, recorder):
        assert await while_busy(lane, recorder, *(lane.submit(item, 1) for item in (1, 2, 3))) == [10, 20, 30]
    assert recorder.batches == [[0], [1, 2, 3]]


async def test_a_batch_is_cut_by_what_its_padding_costs():
    async with working_lane(limit=60) as (lane, recorder):
        sizes = [(1, 10), (2, 30), (3, 10), (4, 10)]
        await while_busy(lane, recorder, *(lane.submit(item, size) for item, size in sizes))
    assert recorder.batches == [[0], [1, 2], [3, 4]]


async def test_an_item_larger_than_the_limit_runs_alone():
    async with working_lane(limit=60) as (lane, recorder):
        await while_busy(lane, recorder, lane.submit(1, 500), lane.submit(2, 1))
    assert recorder.batches == [[0], [1], [2]]


async def test_items_of_a_bucket_run_together_and_the_oldest_leads():
    async with working_lane() as (lane, recorder):
        items = [(1, 64), (2, 8), (3, 64), (4, 8)]
        await while_busy(lane, recorder, *(lane.submit(item, 1, bucket) for item, bucket in items))
    assert recorder.batches == [[0], [1, 3], [2, 4]]


async def test_a_cancelled_item_never_runs():
    async with working_lane() as (lane, recorder):
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
    assert recorder.batches == [[0], [2]]


async def test_a_failed_batch_is_answered_and_the_next_one_runs():
    calls = []

    def run(items):
        calls.append(items)
        if len(calls) == 1:
            raise ValueError("secret words")
        return items

    async with working_lane(run=run) as (lane, _):
        with pytest.raises(RuntimeError, match=r"^toy: the batch failed$"):
            await lane.submit(1, 1)
        assert await lane.submit(2, 1) == 2


async def test_one_bad_item_of_a_batch_fails_alone():
    def run(items):
        if 2 in items:
            raise ValueError("secret words")
        return [item * 10 for item in items]

    recorder = Recorder()

    async with working_lane(run=lambda items: run(recorder(items) and items)) as (lane, _):
        first, second, third = await while_busy(lane, recorder, *(lane.submit(item, 1) for item in (1, 2, 3)))
        assert (first, third) == (10, 30)
        assert str(second) == "toy: the batch failed"
    assert recorder.batches == [[0], [1, 2, 3], [1], [2], [3]]


async def test_a_result_that_is_a_refusal_fails_that_item_alone():
    recorder = Recorder()

    async with working_lane(
        run=lambda items: recorder(items) and [Broken("toy") if item == 2 else item for item in items]
    ) as (lane, _):
        good, bad = await while_busy(lane, recorder, lane.submit(1, 1), lane.submit(2, 1))
        assert good == 1
        assert isinstance(bad, Broken)
        assert lane._metrics.faults.labels("toy", "not_finite")._value.get() == 1


async def test_out_of_memory_makes_batches_smaller():
    def run(items):
        if len(items) > 2:
            raise DeviceFull("no room", 1)
        return items

    recorder = Recorder()

    async with working_lane(limit=5, run=lambda items: run(recorder(items) and items)) as (lane, _):
        for _ in range(2):
            assert await while_busy(lane, recorder, *(lane.submit(item, 1) for item in range(1, 5))) == [1, 2, 3, 4]
    assert recorder.batches == [[0], [1, 2, 3, 4], [1], [2], [3], [4], [0], [1, 2], [3, 4]]


@pytest.mark.parametrize("death", [SystemExit, KeyboardInterrupt, type("PanicException", (BaseException,), {})])
async def test_an_exception_that_would_end_the_thread_fails_one_batch(death):
    calls = []

    def run(items):
        calls.append(items)
        if len(calls) == 1:
            raise death("secret words")
        return items

    async with working_lane(run=run) as (lane, _):
        with pytest.raises(RuntimeError, match=r"^toy: the batch failed$"):
            await lane.submit(1, 1)
        assert await lane.submit(2, 1) == 2
        assert lane._metrics.faults.labels("toy", "worker")._value.get() == 1


async def test_a_batch_that_nobody_waits_for_is_stopped_and_the_next_one_runs():
    stopped = threading.Event()

    def run(items):
        if items == [1]:
            assert stopped.wait(5)
            raise ValueError("terminated")
        return items

    device, metrics = Device(), Metrics()
    lane = Lane("toy", device, run, 100, Budget("toy", 1000), metrics, stopped.set)
    worker = asyncio.create_task(lane.work())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lane.submit(1, 1), 0.1)
    assert await asyncio.wait_for(lane.submit(2, 1), 5) == 2
    assert metrics.faults.labels("toy", "exception")._value.get() == 0
    worker.cancel()
    device.close()


async def test_interactive_work_goes_first_and_batch_work_does_not_starve(monkeypatch):
    async with working_lane() as (lane, recorder):

        async def submit(item, priority, patience):
            monkeypatch.setattr(admission, "BATCH_DELAY_SECONDS", patience)
            return await lane.submit(item, 100, priority=priority)

        order = [(1, "batch", 60), (2, "batch", 0), (3, "interactive", 60), (4, "interactive", 60)]
        await while_busy(lane, recorder, *(submit(*one) for one in order))
    assert recorder.batches == [[0], [2], [3], [4], [1]]


async def test_two_lanes_take_turns_on_one_device_and_never_run_at_once():
    running, most = 0, 0

    def run(items):
        nonlocal running, most
        running += 1
        most = max(most, running)
        threading.Event().wait(0.01)
        running -= 1
        return items

    device = Device()
    lanes = [Lane(name, device, run, 1, Budget(name, 100), Metrics()) for name in ("a", "b")]
    workers = [asyncio.create_task(lane.work()) for lane in lanes]
    await asyncio.wait_for(asyncio.gather(*(lane.submit(item, 1) for item in range(10) for lane in lanes)), 10)
    for worker in workers:
        worker.cancel()
    device.close()
    assert most == 1


@pytest.mark.parametrize(("length", "bucket"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_buckets_are_powers_of_two(length, bucket):
    assert bucket_of(length) == bucket
