import sqlite3

import pytest
from structlog.testing import capture_logs

from service.errors import NotReady
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
        assert [line["event"] for line in logs] == ["request is not kept"]
        assert await there(store, "ab") == "a"
        await store.put("b", None, of_size(200))
        assert await there(store, "ab") == "ab"
        with sqlite3.connect(place.file) as other:
            other.execute("DROP TABLE requests")
        with pytest.raises(NotReady):
            await store.get("a", None)
