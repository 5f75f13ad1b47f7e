import asyncio
import sqlite3
import sys
import time

import pytest
from structlog.testing import capture_logs

from service.errors import NotReady
from tests.conftest import ROOT
from tests.samples.stores import InFile, closing, of_size, there

pytestmark = pytest.mark.anyio


async def test_a_locked_or_broken_file_loses_a_stored_request_and_fails_no_answer(tmp_path):
    place = InFile(tmp_path / "kept.sqlite")

    async with closing(place.store()) as store:
        await store.put("a", None, of_size(200))
        with sqlite3.connect(place.file) as other:
            other.execute("BEGIN IMMEDIATE")
            with capture_logs() as logs:
                await store.put("b", None, of_size(200))
                await asyncio.sleep(2 * store.LOCK_SECONDS)
        assert [line["event"] for line in logs] == ["request is not kept"]
        assert await there(store, "ab") == "a"
        await store.put("b", None, of_size(200))
        assert await there(store, "ab") == "ab"
        with sqlite3.connect(place.file) as other:
            other.execute("DROP TABLE requests")
        with capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(NotReady):
                    await store.get("a", None)
        assert [line["event"] for line in logs] == ["kept requests cannot be read"], "once for many clients"
        with pytest.raises(NotReady):
            await store.get("a", None)


async def test_answers_do_not_wait_one_after_the_other_for_a_file_that_another_worker_holds(tmp_path):
    place = InFile(tmp_path / "kept.sqlite")
    async with closing(place.store()) as store:
        with sqlite3.connect(place.file) as other:
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            await asyncio.gather(*[store.put(f"{number}", None, of_size(200)) for number in range(50)])
            assert time.monotonic() - began < 10 * store.LOCK_SECONDS
            waiting = len(store._puts)
            await store.put("x", None, of_size(200))
            assert len(store._puts) <= waiting, "no more wait"
            other.rollback()
        assert await there(store, "9") == "9", "it was stored, later"
        await store.put("y", None, of_size(200))
        assert await there(store, "y") == "y"


async def test_all_of_many_answers_at_once_are_stored(tmp_path):
    async with closing(InFile(tmp_path / "kept.sqlite").store(count=1000)) as store:
        await asyncio.gather(*[store.put(f"{number}", None, of_size(200)) for number in range(200)])
        assert [number for number in range(200) if await store.get(f"{number}", None) is None] == []


FULL = """
import asyncio, sys
from tests.samples.stores import InFile, of_size

async def puts():
    store = InFile(sys.argv[1]).store(count=10_000)
    for number in range(200):
        await store.put(str(number), None, of_size(3000))
    print(sum([await store.get(str(number), None) is not None for number in range(200)]))

asyncio.run(puts())
"""


async def test_a_full_disk_loses_stored_requests_and_ends_no_process(small_disk):
    place = InFile(small_disk.folder / "kept.sqlite")
    async with closing(place.store()) as store:
        await store.put("a", None, of_size(3000))
        small_disk.fill()
        command = [sys.executable, "-c", FULL, place.file]
        output = {"cwd": ROOT, "stdout": asyncio.subprocess.PIPE}
        working = [await asyncio.create_subprocess_exec(*command, **output) for _ in "abc"]
        said = [(await process.communicate())[0] for process in working]
        assert [process.returncode for process in working] == [0, 0, 0]
        assert all(0 < text.count(b"request is not kept") < 100 for text in said)
        small_disk.empty()
        await store.put("b", None, of_size(3000))
        assert await store.get("b", None)
