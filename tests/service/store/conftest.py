"""What the tests of stores share."""

import pytest

from tests.samples.stores import InFile, InMemory, InRedis


@pytest.fixture(scope="session")
def anyio_backend():
    """The event loop that the service runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(params=["memory", "file", "redis"])
def place(request, tmp_path):
    """Where requests are stored."""
    if request.param == "redis":
        return InRedis(request.getfixturevalue("redis_server"))
    return InFile(tmp_path / "kept.sqlite") if request.param == "file" else InMemory()


@pytest.fixture
def redis(redis_server):
    """A store in Redis, beside the server that holds nothing else."""
    return InRedis(redis_server)
