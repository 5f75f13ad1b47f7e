"""Waiting for several tasks, and work that several callers share. What `together` does is in test_batcher.py."""

import asyncio
import threading
import time

import pytest

from service.concurrency import RESTS, SharedWork

pytestmark = pytest.mark.anyio


async def test_whoever_asks_before_a_run_begins_shares_it_and_others_get_a_later_one():
    begun, go_on, runs = threading.Event(), threading.Event(), []

    def run():
        runs.append(threading.current_thread())
        begun.set()
        assert go_on.wait(20)
        return len(runs)

    work = SharedWork(run)
    first = [asyncio.create_task(work.result()) for _ in range(3)]
    assert await asyncio.to_thread(begun.wait, 20)
    later = [asyncio.create_task(work.result()) for _ in range(3)]
    first[0].cancel()
    await asyncio.sleep(0.01)
    assert len(runs) == 1
    go_on.set()
    assert await asyncio.gather(*first[1:], *later) == [1, 1, 2, 2, 2]
    assert threading.main_thread() not in runs


async def test_shared_work_rests_after_a_run_and_goes_on_after_a_failure():
    def run():
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        raise ValueError("once")

    work = SharedWork(run)
    for _ in range(2):
        with pytest.raises(ValueError, match="once"):
            await work.result()
    begun = time.monotonic()
    with pytest.raises(ValueError, match="once"):
        await work.result()
    assert time.monotonic() - begun > RESTS * 0.02
