"""Lanes: which items run together, in which order, and what a failure costs the others."""

import asyncio
import contextlib
import threading
import time

import pytest

from service.batching import batcher
from service.batching.admission import Budget
from service.batching.batcher import Lane, bucket_of
from service.batching.fair_queue import Caller
from service.errors import Broken, DeviceFull
from service.runtime.device import Device, Turn, this_turn
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
async def working_lane(limit=100, run=None, cores=1, **more):
    """Give a lane, and what runs its batches: a recorder unless another is given."""
    recorder, device = run or Recorder(), Device(cores)
    lane = Lane("toy/predict", device, recorder, limit, Budget("toy", 1000), Metrics(), **more)
    try:
        async with asyncio.timeout(10):
            yield lane, recorder
    finally:
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


GATHERED = {  # the items, sizes and buckets that arrive while a batch runs, and the batches after it
    "what arrives while a batch runs is the next batch": ({}, [(1, 1), (2, 1), (3, 1)], [[1, 2, 3]]),
    "a batch is cut by what its padding costs": ({"limit": 60}, [(1, 10), (2, 30), (3, 10), (4, 10)], [[1, 2], [3, 4]]),
    "no batch is larger than what runs at once": ({"at_once": 4}, [(1, 2), (2, 2), (3, 2), (4, 9)], [[1, 2], [3], [4]]),
    "an item larger than the limit runs alone": ({"limit": 60}, [(1, 500), (2, 1)], [[1], [2]]),
    "the oldest item leads its bucket": ({}, [(1, 1, 64), (2, 1, 8), (3, 1, 64), (4, 1, 8)], [[1, 3], [2, 4]]),
}


@pytest.mark.parametrize(("settings", "submitted", "batches"), GATHERED.values(), ids=GATHERED)
async def test_items_that_gather_while_a_batch_runs_are_divided_into_batches(settings, submitted, batches):
    async with working_lane(**settings) as (lane, recorder):
        found = await while_busy(lane, recorder, *(lane.submit(*one) for one in submitted))
    assert found == [10 * item for item, *_ in submitted]
    assert recorder.batches == [[0], *batches]


async def test_the_next_batch_begins_before_the_callers_of_the_one_before_go_on():
    first_answered, running = asyncio.Event(), []
    second_may_end = threading.Event()

    def run(items):
        if items == [2]:
            second_may_end.wait(5)
        return items

    async with working_lane(run=run) as (lane, _):

        async def first():
            await lane.submit(1, 1, bucket=1)
            running.append(lane._device.busy_seconds() > 0)
            first_answered.set()

        tasks = [asyncio.create_task(first()), asyncio.create_task(lane.submit(2, 1, bucket=2))]
        await first_answered.wait()
        second_may_end.set()
        await asyncio.gather(*tasks)
    assert running == [True]


async def test_batches_that_are_small_for_their_turns_run_beside_one_another():
    """The limit is for all of them; what runs at once is of each."""
    together = threading.Barrier(2, timeout=30)

    def run(items):
        if items != [0]:
            together.wait()
        return items

    async with working_lane(limit=8, run=run, cores=2, at_once=4) as (lane, _):
        await asyncio.gather(*(lane.submit(item, 2) for item in (1, 2, 3, 4)))


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


async def test_one_bad_item_of_a_batch_fails_alone():
    def run(items):
        if 2 in items:
            raise ValueError("secret words")
        return [item * 10 for item in items]

    recorder = Recorder()

    async with working_lane(run=lambda items: run(recorder(items) and items)) as (lane, _):
        first, second, third = await while_busy(lane, recorder, *(lane.submit(item, 1) for item in (1, 2, 3)))
        assert (first, third) == (10, 30)
        assert str(second) == "toy/predict: the batch failed"
    assert recorder.batches == [[0], [1, 2, 3], [1], [2], [3]]


async def test_a_result_that_is_a_refusal_fails_that_item_alone():
    recorder = Recorder()

    async with working_lane(
        run=lambda items: recorder(items) and [Broken("toy") if item == 2 else item for item in items]
    ) as (lane, _):
        good, bad = await while_busy(lane, recorder, lane.submit(1, 1), lane.submit(2, 1))
        assert good == 1
        assert isinstance(bad, Broken)
        assert lane._metrics.faults.labels("toy", "predict", "not_finite")._value.get() == 1


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


async def test_batches_grow_again_once_the_device_may_have_room(monkeypatch):
    recorder, full = Recorder(), [True]

    def run(items):
        recorder(items)
        if full[0] and len(items) > 1:
            raise DeviceFull("no room", 1)
        return items

    async with working_lane(limit=5, run=run) as (lane, _):
        for limit in (2, 1):
            await while_busy(lane, recorder, *(lane.submit(item, 1) for item in range(1, 5)))
            assert lane._limit == limit
        full[0] = False
        monkeypatch.setattr(batcher, "SMALLER_SECONDS", 0.0)
        lane._larger_at = 0.0
        for limit in (2, 4, 5, 5):
            await lane.submit(1, 1)
            assert lane._limit == limit


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError, "exception"),
        *((one, "worker") for one in (SystemExit, KeyboardInterrupt, type("PanicException", (BaseException,), {}))),
    ],
)
async def test_a_failed_batch_is_answered_and_the_next_one_runs(error, cause):
    calls = []

    def run(items):
        calls.append(items)
        if len(calls) == 1:
            raise error("secret words")
        return items

    async with working_lane(run=run) as (lane, _):
        with pytest.raises(RuntimeError, match=r"^toy/predict: the batch failed$"):
            await lane.submit(1, 1)
        assert await lane.submit(2, 1) == 2
        assert lane._metrics.faults.labels("toy", "predict", cause)._value.get() == 1


class Stoppable:
    """A stand-in for a run of onnxruntime: a function that ends when its options say so, or when it is let go."""

    terminate = False

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def run(self):
        with this_turn().running(self):
            self.begun.set()
            until = time.monotonic() + 30
            while not self.terminate and not self.go_on.is_set() and time.monotonic() < until:
                time.sleep(0.001)
        if self.terminate:
            raise ValueError("terminated")


async def test_a_batch_that_nobody_waits_for_is_stopped_and_the_next_one_runs():
    endless = Stoppable()

    def run(items):
        if items == [1]:
            endless.run()
        return items

    async with working_lane(run=run) as (lane, _):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lane.submit(1, 1), 0.1)
        assert await asyncio.wait_for(lane.submit(2, 1), 3) == 2
        assert lane._metrics.faults.labels("toy", "predict", "exception")._value.get() == 0


async def test_of_two_batches_beside_one_another_the_one_that_nobody_waits_for_is_stopped():
    runs = {1: Stoppable(), 2: Stoppable()}

    def run(items):
        runs[items[0]].run()
        return items

    async with working_lane(run=run, cores=2) as (lane, _):
        gone, kept = asyncio.create_task(lane.submit(1, 1)), asyncio.create_task(lane.submit(2, 1))
        for batch in runs.values():
            assert await asyncio.to_thread(batch.begun.wait, 5)
        gone.cancel()
        await asyncio.sleep(0.05)
        assert [one.terminate for one in runs.values()] == [True, False]
        runs[2].go_on.set()
        assert await kept == 2


async def test_a_batch_whose_last_item_is_still_wanted_is_not_stopped():
    one = Stoppable()

    def run(items):
        one.run()
        return items

    async with working_lane(run=run) as (lane, _):
        gone, kept = asyncio.create_task(lane.submit(1, 1)), asyncio.create_task(lane.submit(2, 1))
        assert await asyncio.to_thread(one.begun.wait, 5)
        gone.cancel()
        await asyncio.sleep(0.05)
        assert not one.terminate
        one.go_on.set()
        assert await kept == 2


async def test_what_waits_is_divided_among_the_cores():
    async with working_lane(cores=2) as (lane, recorder):
        assert await asyncio.gather(*(lane.submit(item, 1) for item in range(5))) == [0, 10, 20, 30, 40]
    assert sorted(recorder.batches) == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize(("sizes", "most"), [((50, 50, 50, 50), 100), ((60, 60, 60), 60), ((500, 10, 10), 500)])
async def test_the_limit_holds_for_all_batches_together(sizes, most):
    held, seen = [], []

    def run(items):
        held.append(sum(items))
        seen.append(sum(held))
        time.sleep(0.03)
        held.remove(sum(items))
        return items

    async with working_lane(limit=100, run=run, cores=4) as (lane, _):
        await asyncio.gather(*(lane.submit(size, size) for size in sizes))
    assert max(seen) == most


async def test_a_large_item_is_not_passed_by_forever():
    """It waits for room beside what runs; small items that come later wait behind it."""
    order = []

    def run(items):
        order.extend(items)
        time.sleep(0.01)
        return items

    async with working_lane(limit=100, run=run, cores=2) as (lane, _):
        small = [asyncio.create_task(lane.submit(30, 30)) for _ in range(2)]
        await asyncio.sleep(0.005)
        large = asyncio.create_task(lane.submit(90, 90))
        later = [asyncio.create_task(lane.submit(20, 20)) for _ in range(10)]
        await asyncio.gather(*small, large, *later)
    assert order.index(90) <= 2


async def test_results_belong_to_their_items_whichever_batch_ends_first():
    def run(items):
        time.sleep(0.002 * (items[0] % 3))
        return [item * 10 for item in items]

    async with working_lane(run=run, cores=3, limit=4) as (lane, _):
        found = await asyncio.gather(*(lane.submit(item, 1) for item in range(100)))
    assert found == [item * 10 for item in range(100)]


async def test_batch_work_holds_up_what_is_interactive_by_one_run_at_most_and_does_not_starve():
    async with working_lane() as (lane, recorder):
        order = [(1, "batch"), (2, "batch"), *((number, "interactive") for number in range(3, 15))]
        await while_busy(
            lane, recorder, *(lane.submit(item, 100, caller=Caller(priority=priority)) for item, priority in order)
        )
    assert [one[0] for one in recorder.batches] == [0, *range(3, 12), 12, 1, 13, 14, 2]


async def test_a_client_with_much_to_do_shares_the_lane_with_others():
    async def submit(client, item):
        return await lane.submit(item, 100, caller=Caller(client, item))

    async with working_lane() as (lane, recorder):
        submitted = [submit("flood", number) for number in range(1, 9)] + [submit("other", 9), submit("another", 10)]
        await while_busy(lane, recorder, *submitted)
    assert [one[0] for one in recorder.batches] == [0, 1, 9, 10, *range(2, 9)]


@pytest.mark.parametrize("cores", [1, 2])
async def test_lanes_take_turns_and_run_at_most_one_batch_a_core(cores):
    running, most, order = 0, 0, []

    def run(items):
        nonlocal running, most
        running += 1
        most = max(most, running)
        order.append(items[0][0])
        time.sleep(0.01)
        running -= 1
        return items

    device = Device(cores)
    lanes = [Lane(name, device, run, 10, Budget(name, 100), Metrics()) for name in ("a/predict", "b/predict")]
    work = [lane.submit((lane.name, item), 1, bucket=item) for lane in lanes for item in range(10)]
    await asyncio.wait_for(asyncio.gather(*work), 10)
    device.close()
    assert most == cores
    assert abs(order[:10].count("a/predict") - 5) <= 1


async def test_a_batch_of_several_cores_runs_alone_and_is_not_passed_by():
    running, beside, order = set(), [], []

    def run_for(name):
        def run(items):
            running.add(name)
            beside.append(frozenset(running))
            order.append(name)
            time.sleep(0.01)
            running.discard(name)
            return items

        return run

    device = Device(2)
    light = Lane("light/predict", device, run_for("light"), 10, Budget("light", 100), Metrics())
    heavy = Lane("heavy/predict", device, run_for("heavy"), 10, Budget("heavy", 100), Metrics(), cores=2)
    work = [light.submit(item, 1, bucket=item) for item in range(6)] + [heavy.submit(item, 1) for item in range(2)]
    await asyncio.wait_for(asyncio.gather(*work), 10)
    device.close()
    assert frozenset({"light", "heavy"}) not in beside
    assert order.index("heavy") <= 2


@pytest.mark.parametrize(("length", "bucket"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_buckets_are_powers_of_two(length, bucket):
    assert bucket_of(length) == bucket


async def test_a_caller_that_leaves_as_its_run_ends_stops_no_run_after_it(monkeypatch):
    tasks, finish, slow = {}, Turn._finish, Stoppable()

    def leave_behind(turn, done, outcome):
        finish(turn, done, outcome)
        if outcome[0] == [10]:
            tasks[1].cancel()  # in the round in which the outcome comes, behind it

    def run(items):
        if len(items) > 1:
            raise ValueError
        if items == [2]:
            threading.Timer(0.1, slow.go_on.set).start()
            slow.run()
        return [items[0] * 10]

    monkeypatch.setattr(Turn, "_finish", leave_behind)
    async with working_lane(run=run) as (lane, _):
        for item in (1, 2):
            tasks[item] = asyncio.create_task(lane.submit(item, 1))
        gone, found = await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert isinstance(gone, asyncio.CancelledError)
    assert found == 20


async def test_an_item_whose_caller_leaves_while_it_runs_is_counted_once():
    endless = Stoppable()
    async with working_lane(run=lambda items: endless.run()) as (lane, _):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lane.submit(1, 1), 0.1)
        async with lane._device.turn():
            pass  # its run has ended
        counted = {stage: lane._metrics.cancelled.labels(stage)._value.get() for stage in ("queued", "running")}
    assert counted == {"queued": 0, "running": 1}


@contextlib.asynccontextmanager
async def room_for_one(lane, go_on):
    """Run an item that leaves room for a size of 1, with a larger one that waits for room, which is yielded."""
    first = asyncio.create_task(lane.submit("first", 9))
    await asyncio.sleep(0.05)
    large = asyncio.create_task(lane.submit("large", 5, caller=Caller(priority="batch")))
    await asyncio.sleep(0.05)
    try:
        yield large
        assert not first.done()
    finally:
        go_on.set()
        await first


@pytest.mark.parametrize("leaves", [True, False], ids=["the one before it leaves", "it is more urgent"])
async def test_an_item_that_there_is_room_for_waits_no_longer_for_one_that_it_need_not_wait_for(leaves):
    go_on = threading.Event()

    def run(items):
        if items == ["first"]:
            go_on.wait(5)
        return items

    async with working_lane(10, run, cores=4) as (lane, _), room_for_one(lane, go_on) as large:
        small = asyncio.create_task(
            lane.submit("small", 1, caller=Caller(priority="batch" if leaves else "interactive"))
        )
        await asyncio.sleep(0.05)
        assert small.done() is not leaves
        if leaves:
            large.cancel()
        assert await asyncio.wait_for(small, 2) == "small"
