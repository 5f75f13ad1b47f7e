import asyncio
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import orjson
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from service.errors import NotReady
from service.inputs.model_input import Pair
from service.settings import Settings
from service.store import open_store
from service.store.memory_store import MemoryStore
from service.store.redis_store import ENTRY, RedisStore
from service.store.shared_file_store import SharedFileStore
from service.store.stored_request import StoredRequest, pack, unpack
from tests.conftest import ROOT, served, start

TEXTS = st.text(st.characters(), max_size=20)
KEPT = st.builds(
    StoredRequest,
    model=st.text(max_size=9),
    version=st.text(max_size=9),
    inputs=st.lists(st.binary(max_size=50) | TEXTS | st.builds(Pair, TEXTS, TEXTS), max_size=4).map(tuple),
    truncate=st.booleans(),
    targets=st.none() | st.lists(st.lists(st.integers(0, 2**31), max_size=5).map(tuple), max_size=4).map(tuple),
)


class Server:
    """A Redis server of the test's own, on a socket in a folder."""

    def __init__(self, folder):
        self.path = f"{folder}/redis.sock"
        self.url = f"unix://{self.path}"
        self.start()

    def start(self):
        """Start the server, empty, and wait until it listens."""
        options = f"--port 0 --unixsocket {self.path} --save '' --appendonly no --dir {Path(self.path).parent}"
        command = ["redis-server", *options.replace("''", "").split(" ")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert any("ready to accept" in line for line in self.process.stdout)

    def kill(self):
        """End the server at once."""
        self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()

    @contextmanager
    def hung(self):
        """Let the server take what is sent and answer nothing, for the length of a block."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ask(self, *words):
        """Return the lines that the server answers a command."""
        done = subprocess.run(
            ["redis-cli", "-s", self.path, *map(str, words)], capture_output=True, text=True, check=True
        )
        return done.stdout.split()


@pytest.fixture(scope="module")
def one_server():
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed: apt-get install redis-server")
    pytest.importorskip("redis")
    with tempfile.TemporaryDirectory() as folder:  # pytest's are too long for the path of a socket
        server = Server(folder)
        yield server
        server.kill()


@pytest.fixture
def server(one_server):
    """A Redis server that holds nothing."""
    one_server.ask("FLUSHALL")
    return one_server


class InMemory:
    """Makes stores in memory, whose clock is set."""

    def __init__(self):
        self.now = 0.0

    def store(self, count=100, size=1_000_000, seconds=60.0):
        return MemoryStore(count, size, seconds, clock=lambda: self.now)

    async def wait(self, seconds):
        self.now += seconds

    def run(self, coroutine):
        asyncio.run(coroutine)


class InFile(InMemory):
    """Makes stores in one file, as workers do; their clock is set too."""

    def __init__(self, file=":memory:"):
        super().__init__()
        self.file = file

    def store(self, count=100, size=1_000_000, seconds=60.0):
        return SharedFileStore(self.file, count, size, seconds, clock=lambda: self.now)


class InRedis:
    """Makes stores on a server; time passes as it does."""

    def __init__(self, server):
        self.server = server

    def store(self, count=100, size=1_000_000, seconds=60.0, url=None):
        return RedisStore(url or self.server.url, count, size, seconds, patience=1.0)

    async def wait(self, seconds):
        await asyncio.sleep(seconds)

    def run(self, coroutine):
        uvloop.run(coroutine)  # as the service does


@pytest.fixture(params=["memory", "file", "redis"])
def place(request, tmp_path):
    """Where requests are kept."""
    if request.param == "redis":
        return InRedis(request.getfixturevalue("server"))
    return InFile(tmp_path / "kept.sqlite") if request.param == "file" else InMemory()


@pytest.fixture
def redis(server):
    return InRedis(server)


@asynccontextmanager
async def closing(*stores):
    try:
        yield stores[0] if len(stores) == 1 else stores
    finally:
        for store in stores:
            await store.close()


def of_size(size, fill=b"x"):
    """Return a request that counts for so many bytes."""
    kept = StoredRequest("m" * (size - len(pack(StoredRequest("", "1", (fill,))))), "1", (fill,))
    assert len(pack(kept)) == size
    return kept


async def there(store, ids):
    """Return which ids are kept."""
    return "".join([id_ for id_ in ids if await store.get(id_)])


@given(KEPT)
def test_what_is_unpacked_is_what_was_packed(kept):
    assert unpack(pack(kept)) == kept


@given(KEPT, st.data())
def test_a_packed_request_that_was_cut_or_continued_is_not_read(kept, data):
    packed = pack(kept)
    assert unpack(packed[:-1]) is None
    assert unpack(packed[: data.draw(st.integers(0, len(packed) - 1))]) is None
    assert unpack(packed + data.draw(st.binary(min_size=1, max_size=5))) is None


@given(st.binary(max_size=200))
def test_other_bytes_are_not_read(data):
    assert unpack(data) is None


PACKED = orjson.loads(
    pack(StoredRequest("dates", "1", ("one", Pair("a", "b")), targets=((1,), (2, 3)))).split(b"\n")[0]
)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"color": 1},
        {"model": 1},
        {"truncate": "no"},
        {"targets": [1]},
        {"targets": [[1.5]]},
        {"inputs": [["video", 5]]},
        {"inputs": [["text", 3, 2]]},
        {"inputs": [["pair", 5]]},
        {"inputs": [["text", 6], ["text", -1]]},
        {"inputs": [["text", 4]]},
    ],
)
def test_a_header_of_another_version_is_not_read(change):
    assert unpack(orjson.dumps(PACKED) + b"\noneab") is not None
    assert unpack(orjson.dumps(PACKED | change) + b"\noneab") is None


def test_a_text_that_is_no_utf_8_is_not_read():
    header = orjson.dumps(PACKED | {"inputs": [["text", 1]]})
    assert unpack(header + b"\n\xff") is None
    assert unpack(header.replace(b'"text"', b'"image"') + b"\n\xff").inputs == (b"\xff",)


@pytest.mark.parametrize(
    "kept",
    [
        StoredRequest("digits", "1", (b"\x89PNG\r\n\x00\xff", b"")),
        StoredRequest("dates", "2", ("ein Text\nmit ü", "\x00", "\ud800", ""), targets=((1, 2), (), (3,), (4,))),
        StoredRequest("nli", "1", (Pair("a premise", "a hypothesis"), Pair("", "")), truncate=True),
    ],
    ids=["images", "texts", "pairs"],
)
def test_a_request_is_kept_as_it_was(place, kept):
    async def main():
        async with closing(place.store()) as store:
            assert await store.get("A-1._") is None
            await store.put("A-1._", kept)
            assert await store.get("A-1._") == kept

    place.run(main())


def test_the_oldest_go_when_there_are_more_than_the_count(place):
    async def main():
        async with closing(place.store(count=3)) as store:
            for id_ in "dcba":
                await store.put(id_, of_size(200))
            assert await there(store, "abcd") == "abc"
            await store.put("e", of_size(200))
            assert await there(store, "abcde") == "abe"

    place.run(main())


def test_being_asked_for_makes_nothing_younger(place):
    async def main():
        async with closing(place.store(count=2)) as store:
            await store.put("a", of_size(200))
            await store.put("b", of_size(200))
            assert await store.get("a")
            await store.put("c", of_size(200))
            assert await there(store, "abc") == "bc"

    place.run(main())


def test_the_oldest_go_until_the_bytes_suffice_and_no_more(place):
    async def main():
        async with closing(place.store(size=1000)) as store:
            for id_ in "abcd":
                await store.put(id_, of_size(250))
            assert await there(store, "abcd") == "abcd"
            await store.put("e", of_size(251))
            assert await there(store, "abcde") == "cde"
            await store.put("f", of_size(1000))
            assert await there(store, "abcdef") == "f"

    place.run(main())


def test_a_request_larger_than_all_bytes_is_not_kept_and_removes_no_other(place):
    async def main():
        async with closing(place.store(size=1000)) as store:
            await store.put("a", of_size(200))
            await store.put("b", of_size(1001))
            assert await there(store, "ab") == "a"

    place.run(main())


def test_an_id_put_again_stands_for_what_was_put_last_even_if_that_is_too_large(place):
    async def main():
        async with closing(place.store(size=1000)) as store:
            await store.put("a", of_size(200))
            await store.put("a", of_size(1001))
            assert await store.get("a") is None
            for id_ in "bcdef":
                await store.put(id_, of_size(200))
            assert await there(store, "bcdef") == "bcdef"

    place.run(main())


def test_an_id_put_again_counts_once_and_is_the_youngest(place):
    async def main():
        async with closing(place.store(count=2, size=1000)) as store:
            await store.put("a", of_size(300))
            await store.put("b", of_size(300))
            await store.put("a", of_size(700, b"y"))
            assert await store.get("a") == of_size(700, b"y")
            assert await there(store, "ab") == "ab"
            await store.put("c", of_size(300))
            assert await there(store, "abc") == "ac"

    place.run(main())


def test_a_request_is_gone_past_its_age_and_holds_no_bytes(place):
    async def main():
        async with closing(place.store(count=2, size=1000, seconds=0.4)) as store:
            await store.put("a", of_size(600))
            await place.wait(0.25)
            await store.put("b", of_size(300))
            assert await there(store, "ab") == "ab"
            await place.wait(0.25)
            assert await there(store, "ab") == "b"
            await store.put("c", of_size(700))
            assert await there(store, "abc") == "bc"

    place.run(main())


def test_an_id_put_again_is_as_young_as_the_last_time(place):
    async def main():
        async with closing(place.store(seconds=0.4)) as store:
            await store.put("a", of_size(200))
            await place.wait(0.25)
            await store.put("a", of_size(200))
            await place.wait(0.25)
            assert await store.get("a")

    place.run(main())


@pytest.mark.parametrize("bounds", [{"count": 0}, {"size": 0}])
def test_a_bound_of_nothing_keeps_nothing(place, bounds):
    async def main():
        async with closing(place.store(**bounds)) as store:
            await store.put("a", of_size(200))
            assert await store.get("a") is None

    place.run(main())


@pytest.mark.parametrize("id_", ["", "a b", "a" * 65, "ü", "a\n", "\ud800", "../times"])
def test_what_is_no_id_is_refused_and_never_found(place, id_):
    async def main():
        async with closing(place.store()) as store:
            assert await store.get(id_) is None
            with pytest.raises(ValueError, match=r"^id: must match \S+, given another$"):
                await store.put(id_, of_size(200))

    place.run(main())


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(150, 1100), st.sampled_from([0, 0, 1, 4])), max_size=30
)


@pytest.mark.parametrize("kind", [InMemory, InFile])
@given(OPERATIONS, st.integers(0, 4))
def test_a_store_holds_what_its_bounds_say_after_any_puts(kind, operations, count):
    """Against a model that knows the rules and nothing else."""
    place, model = kind(), OrderedDict()

    async def main():
        store = place.store(count=count, size=1000, seconds=10)
        for id_, size, seconds in operations:
            await place.wait(seconds)
            await store.put(id_, of_size(size))
            model.pop(id_, None)
            if size <= 1000:
                model[id_] = (place.now, size)
            young = [name for name, (since, _) in model.items() if since > place.now - 10]
            young = young[len(young) - count :] if count < len(young) else young
            while sum(model[name][1] for name in young) > 1000:
                young.pop(0)
            for name in set(model) - set(young):
                del model[name]
            assert await there(store, "abcdefgh") == "".join(sorted(model))
            held = store._held if kind is InMemory else store._file.execute("SELECT size FROM held").fetchone()[0]
            assert held == sum(size for _, size in model.values())

    place.run(main())


def test_in_memory_whatever_is_asked_for_lets_go_of_what_is_past_its_age():
    place = InMemory()

    async def main():
        store = place.store(seconds=10)
        await store.put("a", of_size(200))
        await place.wait(10)
        assert await store.get("z") is None
        assert not store._entries
        await store.put("b", of_size(200))
        await store.close()
        assert await store.get("b") is None

    place.run(main())


@pytest.mark.parametrize("place", ["file", "redis"], indirect=True)
def test_replicas_and_workers_see_what_the_others_keep_and_share_the_bounds(place):
    async def main():
        async with closing(place.store(count=3), place.store(count=3)) as (one, other):
            for id_ in "ab":
                await one.put(id_, of_size(200))
            for id_ in "cd":
                await other.put(id_, of_size(300))
            assert await there(one, "abcd") == await there(other, "abcd") == "bcd"
            await other.put("b", of_size(250))
            assert await one.get("b") == of_size(250)

    place.run(main())


def test_a_replica_that_keeps_nothing_leaves_the_others_theirs(redis):
    async def main():
        async with closing(redis.store(), redis.store(count=0), redis.store(size=0)) as (one, none, nothing):
            await one.put("a", of_size(200))
            with capture_logs() as logs:
                await none.put("b", of_size(200))
                await nothing.put("c", of_size(200))
            assert await there(one, "abc") == "a"
            assert logs == []

    redis.run(main())


def test_what_is_too_large_is_not_sent(redis):
    async def main():
        async with closing(redis.store(size=1000)) as store:
            await store.put("a", of_size(1_000_000))

    before = received(redis.server)
    redis.run(main())
    assert received(redis.server) - before < 10_000


def received(server):
    """Return how many bytes a server has been sent."""
    return next(int(line.split(":")[1]) for line in server.ask("INFO", "stats") if "total_net_input_bytes" in line)


def test_many_at_once_keep_to_the_bounds(redis):
    async def main():
        async with closing(redis.store(count=50, size=5000), redis.store(count=50, size=5000)) as stores:
            ids = [f"id-{number}" for number in range(100)]
            await asyncio.gather(*(store.put(id_, of_size(200)) for id_ in ids for store in stores))
            found = await asyncio.gather(*(stores[0].get(id_) for id_ in ids))
            assert sum(one is not None for one in found) == 25

    redis.run(main())
    assert len(redis.server.ask("KEYS", f"{ENTRY}*")) == 25


def test_in_redis_the_same_is_kept_as_in_memory_after_any_puts(redis):
    chance = random.Random(0)

    async def main():
        async with closing(redis.store(count=4, size=1000)) as store:
            model = InMemory().store(count=4, size=1000)
            for _ in range(300):
                id_, kept = chance.choice("abcdefgh"), of_size(chance.randint(150, 1100))
                await store.put(id_, kept)
                await model.put(id_, kept)
                assert [await store.get(id_) for id_ in "abcdefgh"] == [await model.get(id_) for id_ in "abcdefgh"]
            assert redis.server.ask("HGET", "regard:sizes", "*") == [str(model._held)]

    redis.run(main())


def test_in_redis_nothing_stays_past_its_age_though_nobody_asks(redis):
    async def main():
        async with closing(redis.store(seconds=0.3)) as store:
            await store.put("a", of_size(200))
            assert len(redis.server.ask("KEYS", "regard:*")) == len(redis.server.ask("KEYS", "*")) == 3
            await redis.wait(0.35)

    redis.run(main())
    assert redis.server.ask("KEYS", "*") == []


@pytest.mark.parametrize("lost", ["regard:times", "regard:sizes"])
def test_in_redis_a_lost_half_of_the_index_does_not_count_for_ever(redis, lost):
    async def main():
        async with closing(redis.store(count=3, size=1000)) as store:
            for id_ in "ab":
                await store.put(id_, of_size(400))
            redis.server.ask("DEL", lost)
            for id_ in "cdef":
                await store.put(id_, of_size(400))
            assert await there(store, "cdef") == "ef"

    redis.run(main())


def test_in_redis_what_another_version_of_the_service_keeps_is_not_found(redis):
    async def main():
        async with closing(redis.store()) as store:
            redis.server.ask("SET", f"{ENTRY}a", '{"format":2}')
            assert await store.get("a") is None
            await store.put("a", of_size(200))
            assert await store.get("a") == of_size(200)

    redis.run(main())


async def fails_within_a_second(store):
    """Check that nothing can be kept, that reading says so, and that there is one line of it in the log."""
    start = time.monotonic()
    with capture_logs() as logs:
        await store.put("a", of_size(200))
        assert time.monotonic() - start < 1
        start = time.monotonic()
        with pytest.raises(NotReady, match=r"^id: what it stands for is kept on a server") as refused:
            await store.get("a")
        assert time.monotonic() - start < 1
    assert refused.value.headers == {"Retry-After": "5"}
    assert [(line["event"], line["operation"], line["log_level"]) for line in logs] == [
        ("redis failed", "put", "warning")
    ]
    return logs[0]["error"]


@pytest.mark.parametrize("loop", [asyncio, uvloop])
def test_a_store_outlives_its_server(redis, loop):
    async def main():
        async with closing(redis.store()) as store:
            await asyncio.gather(*(store.put(id_, of_size(200)) for id_ in "abc"))
            redis.server.kill()
            assert await fails_within_a_second(store) in ("ConnectionError", "ConnectionRefusedError")
            redis.server.start()
            await asyncio.gather(*(store.put(id_, of_size(200)) for id_ in "de"))
            assert await there(store, "abcde") == "de"
            redis.server.kill()
            redis.server.start()
            assert await store.get("a") is None

    loop.run(main())


@pytest.mark.parametrize("loop", [asyncio, uvloop])
@pytest.mark.parametrize("connected", [True, False])
def test_a_server_that_hangs_is_given_up_and_answers_nothing_late(redis, loop, connected):
    async def main():
        async with closing(redis.store()) as store:
            if connected:
                await store.put("b", of_size(300))
            with redis.server.hung():
                assert await fails_within_a_second(store) == "TimeoutError"
            await store.put("b", of_size(300))
            assert await store.get("z") is None
            assert await store.get("b") == of_size(300)

    loop.run(main())


def test_an_answer_does_not_wait_long_for_a_server_that_hangs(redis):
    async def main():
        async with closing(RedisStore(redis.server.url, 10, 1000, 60)) as store:
            await store.put("a", of_size(200))
            with redis.server.hung():
                start = time.monotonic()
                await store.put("b", of_size(300))
                assert time.monotonic() - start < 0.4  # of half a second
            assert await store.get("b") == of_size(300)  # what was sent is kept once the server goes on

    redis.run(main())


@pytest.mark.parametrize("loop", [asyncio, uvloop])
def test_a_store_can_be_closed_while_its_server_hangs(redis, loop):
    async def main():
        store = redis.store()
        await store.put("a", of_size(200))
        with redis.server.hung():
            waiting = asyncio.create_task(store.get("a"))
            await asyncio.sleep(0.05)
            start = time.monotonic()
            await store.close()
            assert time.monotonic() - start < 1
            with pytest.raises(NotReady):
                await waiting

    loop.run(main())


def test_a_store_that_never_found_its_server_can_be_closed(redis, tmp_path):
    async def main():
        async with closing(redis.store(url=f"unix://{tmp_path}/none.sock")) as store:
            await fails_within_a_second(store)

    redis.run(main())


def test_a_caller_that_is_cancelled_leaves_the_next_one_its_own_answer(redis):
    async def main():
        async with closing(redis.store()) as store:
            await asyncio.gather(*(store.put(id_, of_size(200, id_.encode())) for id_ in "ab"))
            for wait in range(20):
                task = asyncio.create_task(store.get("a"))
                await asyncio.sleep(wait * 5e-5)
                task.cancel()
                assert await store.get("b") == of_size(200, b"b")

    redis.run(main())


def test_failures_are_logged_again_after_a_while_and_never_with_the_password(redis, monkeypatch):
    monkeypatch.setattr("service.store.QUIET_SECONDS", 0.05)

    async def main():
        async with closing(redis.store(url=f"{redis.server.url}?password=s3cret")) as store:
            for _ in range(2):
                await store.put("a", of_size(200))
                await redis.wait(0.06)
            with pytest.raises(NotReady) as refused:
                await store.get("a")
            assert "s3cret" not in refused.value.detail

    redis.server.ask("CONFIG", "SET", "requirepass", "right")
    try:
        with capture_logs() as logs:
            redis.run(main())
    finally:
        redis.server.ask("-a", "right", "CONFIG", "SET", "requirepass", "")
    assert logs == [
        {"event": "redis failed", "operation": operation, "error": "AuthenticationError", "log_level": "warning"}
        for operation in ("put", "put", "get")
    ]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://:s3cret@host",
        "redis://:s3c/ret@host:6379",
        "redis://:s3cret@host?db=s3cret",
        "redis://host?s3cret=1",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_not_repeated(url):
    pytest.importorskip("redis")
    with pytest.raises(ValueError, match=r"^REGARD_REDIS_URL: must be redis://") as refused:
        open_store(Settings(redis_url=url))
    assert "s3c" not in str(refused.value)
    assert refused.value.__suppress_context__
    assert refused.value.__cause__ is None


def test_a_file_that_is_locked_or_broken_costs_what_is_kept_and_no_answer(tmp_path):
    place = InFile(tmp_path / "kept.sqlite")

    async def main():
        async with closing(place.store()) as store:
            await store.put("a", of_size(200))
            with sqlite3.connect(place.file) as other:
                other.execute("BEGIN IMMEDIATE")
                with capture_logs() as logs:
                    await store.put("b", of_size(200))
            assert [line["event"] for line in logs] == ["request is not kept"]
            assert await there(store, "ab") == "a"
            await store.put("b", of_size(200))
            assert await there(store, "ab") == "ab"
            with sqlite3.connect(place.file) as other:
                other.execute("DROP TABLE kept")
            with pytest.raises(NotReady):
                await store.get("a")

    place.run(main())


def test_without_a_url_requests_are_kept_in_memory():
    assert isinstance(open_store(Settings()), MemoryStore)


def test_with_a_url_requests_are_kept_in_redis():
    pytest.importorskip("redis")
    assert isinstance(open_store(Settings(redis_url="redis://localhost")), RedisStore)


def test_without_the_extra_keeping_in_memory_works_and_in_redis_names_the_extra():
    program = """if True:
        import sys
        sys.modules["redis"] = None
        from service.store import open_store
        from service.settings import Settings
        open_store(Settings())
        open_store(Settings(redis_url="redis://:s3cret@localhost"))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1
    assert "needs its client: pip install regard[redis]" in done.stderr.splitlines()[-1]
    assert "s3cret" not in done.stderr.splitlines()[-1]


def test_redis_is_imported_only_where_it_is_used():
    program = "import sys, service.store; sys.exit('redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


# The service


def test_what_one_replica_answered_another_looks_at(server, artifacts):
    """And a server that is gone takes nothing with it but this."""
    image = (ROOT / "tests/data/digits/seven.png").read_bytes()
    with served(artifacts, redis_url=server.url) as one, served(artifacts, redis_url=server.url) as other:
        answered = one.post(
            "/v1/models/digits/classify?attention=norm", content=image, headers={"Content-Type": "image/png"}
        )
        later = other.get(f"/v1/attention/{answered.json()['id']}?method=norm").json()
        assert later["results"][0]["attention"] == answered.json()["results"][0]["attention"]
        generated = other.post("/v1/models/dates/generate", json={"inputs": "3/23/21"}).json()
        assert one.get(f"/v1/attention/{generated['id']}?kind=cross&model=dates").status_code == 200
        server.kill()
        try:
            gone = other.get(f"/v1/attention/{answered.json()['id']}")
            assert (gone.status_code, gone.headers["Retry-After"]) == (503, "5")
            again = one.post("/v1/models/digits/classify", content=image, headers={"Content-Type": "image/png"})
            assert again.json()["results"][0]["labels"][0]["label"] == "7"
        finally:
            server.start()


def test_a_service_whose_redis_url_cannot_be_used_says_so_and_ends(artifacts):
    process = start(artifacts, redis_url="http://:s3cret@host")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "settings cannot be used:\nREGARD_REDIS_URL: must be redis://" in said
    assert "s3cret" not in said
