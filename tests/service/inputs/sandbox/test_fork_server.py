"""What a decoder may do: nothing but decode."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from service.inputs.sandbox import seccomp
from service.inputs.sandbox.decoder_process import FORK_SERVER_MODULE
from service.inputs.sandbox.fork_server import COMMAND
from tests.samples.decoders import children, decoding, outcome, replaced
from tests.samples.http_requests import SEVEN
from tests.samples.images import INK
from tests.samples.waiting import until

pytestmark = pytest.mark.anyio


def confinement(number):
    """Return what a process is limited to, what is said of it, and what it has open."""
    process = Path(f"/proc/{number}")
    limits = dict(re.findall(r"^Max (.+?) {2,}(.+?) {2,}", process.joinpath("limits").read_text(), re.MULTILINE))
    status = dict(line.split(":\t", 1) for line in process.joinpath("status").read_text().splitlines())
    score = int(process.joinpath("oom_score_adj").read_text())
    try:
        opened = [str(one.readlink()) for one in sorted(process.joinpath("fd").iterdir())]
    except PermissionError:  # only root may look
        opened = None
    return limits, status, score, opened


def is_confined(limits, status, *_):
    """Return whether the last right is taken."""
    return limits["processes"] == "0" and (status["Seccomp"] == "2" or seccomp.why_unavailable() is not None)


@pytest.mark.usefixtures("hostile")
async def test_a_decoder_reaches_no_file_no_socket_and_no_secret(monkeypatch):
    monkeypatch.setenv("REGARD_SECRET", "secret")

    async with decoding() as (pool, _):
        assert await outcome(pool.decode(b"reach", INK)) == ("Unacceptable", "reached: ")


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="reads /proc")
async def test_a_decoder_is_confined():
    async with decoding() as (pool, _):
        await pool.decode(SEVEN, INK)
        _, *forked = children(os.getpid())
        assert len(forked) == 2
        for number in forked:  # of which one waits, and may still be taking its rights from itself
            until(lambda number=number: is_confined(*confinement(number)))
            limits, status, score, opened = confinement(number)
            for name in ("core file size", "file size", "open files", "processes"):
                assert limits[name] == "0"
            assert int(limits["address space"]) < 4 << 30
            assert status["NoNewPrivs"] == "1"
            assert score == 1000
            assert os.sched_getscheduler(number) == os.SCHED_BATCH
            assert status["Seccomp"] == "2" or seccomp.why_unavailable()
            if os.geteuid():
                assert opened is None, "it is not dumpable, so its files in /proc belong to root"
                continue
            assert opened[:3] == ["/dev/null"] * 3
            assert [name.partition(":")[0] for name in opened[3:]] == ["socket"], "its own, and no other's"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whether a process is dumpable")
async def test_a_process_that_has_decoders_is_not_dumpable():
    library = ctypes.CDLL(None)
    library.prctl(4, 1, 0, 0, 0)
    async with decoding() as (pool, _):
        await pool.decode(SEVEN, INK)
        assert library.prctl(3, 0, 0, 0, 0) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_to_all_processes_leaves_decoders_to_what_is_in_flight(number):
    async with decoding() as (pool, metrics):
        await pool.decode(SEVEN, INK)
        for child in children(os.getpid()):
            os.kill(child, number)
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {}


@pytest.mark.parametrize("answered", [False, True])
def test_a_service_that_ends_before_it_reads_an_answer_ends_it_quietly(answered):
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", FORK_SERVER_MODULE, str(theirs.fileno()), "5", str(1 << 30)],
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        )
    with ours:
        ours.sendall(COMMAND.pack(1))  # no decoder of its own
        if answered:
            ours.recv(COMMAND.size, socket.MSG_PEEK)
    assert process.communicate(timeout=60) == (None, b"")
    assert process.returncode == 0
