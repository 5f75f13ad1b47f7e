"""What is stored in Redis: bounds that replicas share, and a server that fails, hangs or is gone."""

import asyncio
import contextlib
import random
import time

import pytest
from structlog.testing import capture_logs

from service.errors import NotReady
from service.store.redis_store import ENTRY_KEY_PREFIX, RedisStore
from service.store.stored_request import ID_PATTERN
from tests.samples.stores import InMemory, closing, of_size, there

pytestmark = pytest.mark.anyio

MOST_BYTES = 3 << 20
ON_BOTH_EVENT_LOOPS = pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
    ids=["asyncio", "uvloop"],
)


async def test_a_replica_that_stores_nothing_does_not_remove_what_others_stored(redis):
    async with closing(redis.store(), redis.store(count=0), redis.store(size=0)) as (one, none, nothing):
        await one.put("a", None, of_size(200))
        with capture_logs() as logs:
            await none.put("b", None, of_size(200))
            await nothing.put("c", None, of_size(200))
        assert await there(one, "abc") == "a"
        assert logs == []


async def test_a_request_that_is_too_large_is_not_sent_to_redis(redis):
    before = received(redis.server)
    async with closing(redis.store(size=1000)) as store:
        await store.put("a", None, of_size(1_000_000))
    assert received(redis.server) - before < 10_000


def received(server):
    """Return how many bytes a server has been sent."""
    return next(int(line.split(":")[1]) for line in server.ask("INFO", "stats") if "total_net_input_bytes" in line)


async def test_concurrent_puts_keep_to_the_bounds(redis):
    async with closing(redis.store(count=50, size=5000), redis.store(count=50, size=5000)) as stores:
        ids = [f"id-{number}" for number in range(100)]
        await asyncio.gather(*(store.put(id_, None, of_size(200)) for id_ in ids for store in stores))
        found = await asyncio.gather(*(stores[0].get(id_, None) for id_ in ids))
        assert sum(one is not None for one in found) == 25
    assert len(redis.server.ask("KEYS", f"{ENTRY_KEY_PREFIX}*")) == 25


async def test_in_redis_the_same_is_stored_as_in_memory_after_any_puts(redis):
    chance = random.Random(0)

    async with closing(redis.store(count=4, size=1000)) as store:
        model = InMemory().store(count=4, size=1000)
        for _ in range(300):
            id_, kept = chance.choice("abcdefgh"), of_size(chance.randint(150, 1100))
            await store.put(id_, None, kept)
            await model.put(id_, None, kept)
            assert [await store.get(id_, None) for id_ in "abcdefgh"] == [
                await model.get(id_, None) for id_ in "abcdefgh"
            ]
        assert redis.server.ask("HGET", "regard:sizes", "*") == [str(model._size)]


async def test_redis_drops_what_is_past_its_age_by_itself(redis):
    async with closing(redis.store(seconds=0.3)) as store:
        await store.put("a", None, of_size(200))
        assert len(redis.server.ask("KEYS", "regard:*")) == len(redis.server.ask("KEYS", "*")) == 3
        await redis.wait(0.35)
    assert redis.server.ask("KEYS", "*") == []


@pytest.mark.parametrize("lost", ["regard:times", "regard:sizes"])
async def test_in_redis_a_lost_half_of_the_index_does_not_count_for_ever(redis, lost):
    async with closing(redis.store(count=3, size=1000)) as store:
        for id_ in "ab":
            await store.put(id_, None, of_size(400))
        redis.server.ask("DEL", lost)
        for id_ in "cdef":
            await store.put(id_, None, of_size(400))
        assert await there(store, "cdef") == "ef"


async def test_in_redis_what_another_version_of_the_service_keeps_is_not_found(redis):
    async with closing(redis.store()) as store:
        redis.server.ask("SET", f"{ENTRY_KEY_PREFIX}a", '{"format":2}')
        assert await store.get("a", None) is None
        await store.put("a", None, of_size(200))
        assert await store.get("a", None) == of_size(200)


async def fails_within_a_second(store):
    """Check that nothing can be kept, that reading says so, and that there is one line of it in the log."""
    start = time.monotonic()
    with capture_logs() as logs:
        await store.put("a", None, of_size(200))
        assert time.monotonic() - start < 1
        start = time.monotonic()
        with pytest.raises(NotReady, match=r"^id: what it stands for is kept on a server") as refused:
            await store.get("a", None)
        assert time.monotonic() - start < 1
    assert refused.value.headers == {"Retry-After": "5"}
    assert [(line["event"], line["operation"], line["log_level"]) for line in logs] == [
        ("redis failed", "put", "warning")
    ]
    return logs[0]["error"]


@ON_BOTH_EVENT_LOOPS
async def test_a_store_outlives_its_server(redis):
    async with closing(redis.store()) as store:
        await asyncio.gather(*(store.put(id_, None, of_size(200)) for id_ in "abc"))
        redis.server.kill()
        assert await fails_within_a_second(store) in ("ConnectionError", "ConnectionRefusedError")
        redis.server.start()
        await asyncio.gather(*(store.put(id_, None, of_size(200)) for id_ in "de"))
        assert await there(store, "abcde") == "de"
        redis.server.kill()
        redis.server.start()
        assert await store.get("a", None) is None


@ON_BOTH_EVENT_LOOPS
@pytest.mark.parametrize("connected", [True, False])
async def test_a_server_that_hangs_is_given_up_and_answers_nothing_late(redis, connected):
    async with closing(redis.store()) as store:
        if connected:
            await store.put("b", None, of_size(300))
        with redis.server.hung():
            assert await fails_within_a_second(store) == "TimeoutError"
        await store.put("b", None, of_size(300))
        assert await store.get("z", None) is None
        assert await store.get("b", None) == of_size(300)


async def test_an_answer_does_not_wait_long_for_a_server_that_hangs(redis):
    async with closing(RedisStore(redis.server.url, 10, 1000, 60)) as store:
        await store.put("a", None, of_size(200))
        with redis.server.hung():
            start = time.monotonic()
            await store.put("b", None, of_size(300))
            assert time.monotonic() - start < 0.4  # of half a second
        assert await store.get("b", None) == of_size(300)  # what was sent is kept once the server goes on


@ON_BOTH_EVENT_LOOPS
async def test_a_store_can_be_closed_while_its_server_hangs(redis):
    store = redis.store()
    await store.put("a", None, of_size(200))
    with redis.server.hung():
        waiting = asyncio.create_task(store.get("a", None))
        await asyncio.sleep(0.05)
        start = time.monotonic()
        await store.close()
        assert time.monotonic() - start < 1
        with pytest.raises(NotReady):
            await waiting


async def test_a_store_that_never_found_its_server_can_be_closed(redis, tmp_path):
    async with closing(redis.store(url=f"unix://{tmp_path}/none.sock")) as store:
        await fails_within_a_second(store)


async def test_a_caller_that_is_cancelled_leaves_the_next_one_its_own_answer(redis):
    async with closing(redis.store()) as store:
        await asyncio.gather(*(store.put(id_, None, of_size(200, id_.encode())) for id_ in "ab"))
        for wait in range(20):
            task = asyncio.create_task(store.get("a", None))
            await asyncio.sleep(wait * 5e-5)
            task.cancel()
            assert await store.get("b", None) == of_size(200, b"b")


async def test_failures_are_logged_again_after_a_while_and_never_with_the_password(redis, monkeypatch):
    monkeypatch.setattr("service.store.redis_store.QUIET_SECONDS", 0.05)
    redis.server.ask("CONFIG", "SET", "requirepass", "right")
    try:
        with capture_logs() as logs:
            async with closing(redis.store(url=f"{redis.server.url}?password=s3cret")) as store:
                for _ in range(2):
                    await store.put("a", None, of_size(200))
                    await redis.wait(0.06)
                with pytest.raises(NotReady) as refused:
                    await store.get("a", None)
                assert "s3cret" not in refused.value.detail
    finally:
        redis.server.ask("-a", "right", "CONFIG", "SET", "requirepass", "")
    assert [(line["event"], line["operation"], line["error"], line["log_level"]) for line in logs] == [
        ("redis failed", operation, "AuthenticationError", "warning") for operation in ("put", "put", "get")
    ]
    assert all("REGARD_REDIS_URL names a server that runs" in line["do"] for line in logs)


async def test_a_server_that_hangs_is_left_alone_and_tried_again(redis, monkeypatch):
    monkeypatch.setattr("service.store.redis_store.OPEN_SECONDS", 600)
    async with closing(RedisStore(redis.server.url, 10, 10_000, 60, timeout=0.2, patience=9)) as store:
        await store.put("a", None, of_size(200))
        with capture_logs() as logs:
            with redis.server.hung():
                for _ in range(5):
                    await store.put("b", None, of_size(200))
                sent = len(store._putting)
                await store.put("c", None, of_size(200))
                assert len(store._putting) == sent == 0, "nothing is sent while the server is left alone"
                with pytest.raises(NotReady) as refused:
                    await store.get("a", None)
                assert 595 < int(refused.value.headers["Retry-After"]) <= 600
            with pytest.raises(NotReady):
                await store.get("a", None)
            store._breaker._probe_at = time.monotonic()
            assert await store.get("a", None) == of_size(200)
            await store.put("c", None, of_size(200))
            assert await there(store, "ac") == "ac"
    assert [line["event"] for line in logs] == ["redis failed", "redis is left alone", "redis answers again"]


async def test_a_server_that_answers_with_errors_is_not_left_alone(redis):
    redis.server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
    try:
        async with closing(redis.store()) as store:
            with capture_logs() as logs:
                for _ in range(10):
                    await store.put("a", None, of_size(200))
            assert [line["event"] for line in logs] == ["redis failed"]
            assert await store.get("a", None) is None
    finally:
        redis.server.ask("CONFIG", "SET", "min-replicas-to-write", "0")


@pytest.mark.parametrize("make", [["LPUSH"], ["HSET", "x"], ["SET"]], ids=["list", "hash", "garbage"])
async def test_a_value_that_is_no_stored_request_is_none_and_is_replaced(redis, make):
    command, *words = make
    async with closing(redis.store()) as store:
        redis.server.ask(command, f"{ENTRY_KEY_PREFIX}a", *words, "\udcff garbage")
        with capture_logs() as logs:
            assert await store.get("a", None) is None
            await store.put("a", None, of_size(200))
        assert await store.get("a", None) == of_size(200)
        assert logs == []


@pytest.mark.parametrize("key", ["regard:times", "regard:sizes"])
@pytest.mark.parametrize("make", [["SET"], ["LPUSH"], ["HSET", "*"]], ids=["string", "list", "hash"])
async def test_an_index_that_is_something_else_is_made_anew(redis, key, make):
    command, *words = make
    async with closing(redis.store(count=2)) as store:
        redis.server.ask(command, key, *words, "garbage")
        with capture_logs() as logs:
            for id_ in "abc":
                await store.put(id_, None, of_size(200))
        assert await there(store, "abc") == "bc"
        assert logs == []


async def test_replicas_of_a_version_without_owners_share_what_has_none_and_find_nothing_else(redis):
    """Such a version stores under `regard:kept:<id>`, and looks up nothing that is not an id."""
    async with closing(redis.store()) as store:
        await store.put("a", None, of_size(200))
        await store.put("b", "alice", of_size(300))
        keys = set(redis.server.ask("KEYS", f"{ENTRY_KEY_PREFIX}*"))
        assert keys == {f"{ENTRY_KEY_PREFIX}a", f"{ENTRY_KEY_PREFIX}alice:b"}
        assert not ID_PATTERN.fullmatch("alice:b")
        redis.server.ask("RENAME", f"{ENTRY_KEY_PREFIX}alice:b", f"{ENTRY_KEY_PREFIX}b")
        assert await store.get("b", "alice") is None, "what has no owner is nobody's who has a key"
        assert await store.get("b", None) == of_size(300)


async def test_a_full_redis_that_evicts_nothing_refuses_a_put_and_keeps_to_its_memory(redis):
    """Redis refuses only the first write of a script, and never one that deletes."""
    redis.server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", MOST_BYTES)
    try:
        async with closing(redis.store(count=10_000, size=1 << 30)) as store:
            with capture_logs() as logs:
                for number in range(200):
                    await store.put(f"id-{number}", None, of_size(40_000))
            assert await there(store, ["id-0", "id-199"]) == "id-0"
        used = next(int(line.split(":")[1]) for line in redis.server.ask("INFO", "memory") if "used_memory:" in line)
        assert used < MOST_BYTES + (1 << 20)
        assert [(line["event"], line["error"]) for line in logs] == [("redis failed", "OutOfMemoryError")]
        assert "has memory for what REGARD_KEEP_BYTES allows" in logs[0]["do"]
    finally:
        redis.server.ask("CONFIG", "SET", "maxmemory", 0)


@pytest.mark.parametrize(
    "answer", [b":abc\r\n", b"$abc\r\n", b"*1\r\n" * 5000, b"\x00\xff\r\n", b"-MOVED 1 x:1\r\n", b""]
)
async def test_a_server_that_answers_nonsense_is_one_that_fails(answer):
    async def talk(reader, writer):
        with contextlib.suppress(ConnectionError):
            while await reader.readline():
                writer.write(answer)
                if not answer:
                    break
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    url = "redis://{}:{}".format(*server.sockets[0].getsockname())
    async with server, closing(RedisStore(url, 10, 1000, 60)) as store:
        with capture_logs() as logs:
            with pytest.raises(NotReady, match=r"^id: what it stands for is kept on a server that cannot be reached$"):
                await store.get("a", None)
            await store.put("b", None, of_size(200))
        assert [line["event"] for line in logs][:1] == ["redis failed"]
