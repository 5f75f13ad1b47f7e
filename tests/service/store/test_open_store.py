"""Which store the settings choose, and which settings are refused."""

import os
import subprocess
import sys

import pytest

from service.settings import Settings
from service.store import open_store
from service.store.memory_store import MemoryStore
from service.store.redis_store import RedisStore


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
    assert "needs its client: pip install --editable '.[redis]'" in done.stderr.splitlines()[-1]
    assert "s3cret" not in done.stderr.splitlines()[-1]


def test_redis_is_imported_only_where_it_is_used():
    program = "import sys, service.store; sys.exit('redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
