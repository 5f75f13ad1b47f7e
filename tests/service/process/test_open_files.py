"""The limit of open files is raised to what connections need; where that is not allowed, a warning says so."""

import resource
import sys

import pytest
from structlog.testing import capture_logs

from service.process.open_files import OWN_FILES, allow_open_files, files_needed
from service.settings import Settings
from tests.conftest import COLD, served

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
NEEDED = OWN_FILES + 2 * 1000 + 64


def settings(**others):
    return Settings(max_connections=1000, **others)


@pytest.fixture
def limits(monkeypatch):
    """The limits of a process that does not exist: [soft, hard]."""
    held = [0, 0]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(held))
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: held.__setitem__(slice(None), given))
    return held


def test_every_port_has_connections_of_its_own():
    assert files_needed(settings()) == OWN_FILES + 1000
    assert files_needed(settings(admin_port=0, probe_port=0)) == NEEDED


@pytest.mark.parametrize(
    ("soft", "hard", "allowed"),
    [
        (1024, 524288, NEEDED),
        (1024, resource.RLIM_INFINITY, NEEDED),
        (1024, 1500, 1500),
        (4096, 524288, 4096),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    ],
)
def test_the_soft_limit_becomes_what_is_needed_if_the_hard_one_allows_it(limits, soft, hard, allowed):
    limits[:] = soft, hard
    with capture_logs() as logs:
        allow_open_files(settings(admin_port=0, probe_port=0), warns=True)
    assert limits == [allowed, hard]
    assert [(line["limit"], line["needed"]) for line in logs] == ([(1500, NEEDED)] if allowed == 1500 else [])
    assert all("raise the hard limit" in line["do"] for line in logs)


def test_a_system_that_refuses_the_limit_gets_the_warning(limits, monkeypatch):
    def refuse(*_):
        raise ValueError("not allowed to raise maximum limit")

    limits[:] = 1024, resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "setrlimit", refuse)
    with capture_logs() as logs:
        allow_open_files(settings(), warns=True)
        allow_open_files(settings(), warns=False)
    assert [line["limit"] for line in logs] == [1024]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the limits of another process")
def test_a_service_raises_its_limit(light):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # the service inherits it
    try:
        with served(light, max_connections=300, program=COLD) as client:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert resource.prlimit(client.process.pid, resource.RLIMIT_NOFILE) == (OWN_FILES + 300, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
