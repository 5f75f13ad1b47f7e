"""A pipe that nobody reads, or nobody can read, stops nothing: its lines wait, or are dropped and counted."""

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from service.telemetry import log_output
from service.telemetry.log_output import LogOutput, never_block
from tests.conftest import ROOT

F_SETPIPE_SZ = 1031


@pytest.fixture
def pipe():
    """Both ends of a pipe; the writing one does not block."""
    reader, writer = os.pipe()
    never_block(writer)
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            continue


def lines(reader):
    """Return what can be read now."""
    os.set_blocking(reader, False)
    found = b""
    try:
        while piece := os.read(reader, 1 << 20):
            found += piece
    except BlockingIOError:
        pass
    return found.decode().splitlines()


def fill(output, count, size=99):
    for number in range(count):
        output.write(f"{number}".ljust(size) + "\n")


def test_lines_are_written_at_once_and_in_order(pipe):
    output = LogOutput(pipe[1])
    fill(output, 100)
    assert [int(line) for line in lines(pipe[0])] == list(range(100))
    assert output.dropped == 0


def test_lines_that_nobody_reads_wait_are_dropped_and_counted_and_the_rest_keeps_its_order(pipe, monkeypatch):
    monkeypatch.setattr(log_output, "MOST_WAITING_BYTES", 10_000)
    output = LogOutput(pipe[1], "dropped {}\n".format)
    fill(output, 3000)
    assert output.dropped > 1000
    told, dropped = [], output.dropped
    for _ in range(3):
        told += lines(pipe[0])
        output.flush()
    output.write("last\n")
    told += lines(pipe[0])
    assert [int(line) for line in told[:-2]] == list(range(3000 - dropped))
    assert told[-2:] == [f"dropped {dropped}", "last"]
    assert output.dropped == dropped


def test_a_line_that_was_begun_is_finished_before_the_next_one(pipe):
    fcntl.fcntl(pipe[1], F_SETPIPE_SZ, 4096)
    output = LogOutput(pipe[1])
    fill(output, 3, size=50_000)
    told = b""
    while len(told) < 3 * 50_001:
        told += os.read(pipe[0], 1000)
        output.flush()
    assert [int(line) for line in told.decode().splitlines()] == [0, 1, 2]


@pytest.mark.parametrize("full", [False, True])
def test_an_output_that_nobody_can_read_loses_lines_and_fails_nothing(pipe, full):
    if full:
        writer = os.open("/dev/full", os.O_WRONLY)
    else:
        os.close(pipe[0])
        writer = pipe[1]
    output = LogOutput(writer)
    fill(output, 10)
    output.close(1)
    assert output.dropped == 10


def test_an_end_waits_for_a_reader_but_not_for_ever(pipe):
    output = LogOutput(pipe[1])
    fill(output, 3000)
    output.close(0.05)
    assert output._waiting
    found = bytearray()

    def read():
        while len(found) < 3000 * 100:
            found.extend(os.read(pipe[0], 1 << 20))

    reading = threading.Thread(target=read)
    reading.start()
    output.close(60)
    reading.join()
    assert [int(line) for line in found.decode().splitlines()] == list(range(3000))


def test_a_line_that_comes_in_the_middle_of_another_is_written_after_it(pipe, monkeypatch):
    """The garbage collector can run anywhere, and what it finds may be logged."""
    output, write = LogOutput(pipe[1]), os.write

    def interrupted(descriptor, data):
        if data == b"outer\n":
            output.write("inner\n")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", interrupted)
    output.write("outer\n")
    output.write("next\n")
    assert lines(pipe[0]) == ["outer", "inner", "next"]


def test_threads_do_not_mix_their_lines(pipe):
    output = LogOutput(pipe[1])
    threads = [threading.Thread(target=fill, args=(output, 200, 20)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, lines(pipe[0]))) == sorted([*range(200)] * 3)


def test_a_child_process_does_not_write_what_waits_in_its_parent(pipe):
    output = LogOutput(pipe[1])
    fill(output, 1000)
    child = os.fork()
    if not child:
        lines(pipe[0])
        output.write("of the child\n")
        os._exit(0 if lines(pipe[0]) == ["of the child"] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_pipe_of_others_stays_as_it_was():
    reader, writer = os.pipe()
    shared = os.dup(writer)
    never_block(writer)
    assert (os.get_blocking(writer), os.get_blocking(shared)) == (False, True)
    for end in (reader, writer, shared):
        os.close(end)


def test_a_pipe_of_another_user_and_a_socket_do_not_block_either(monkeypatch):
    def denied(*_):
        raise PermissionError

    one, other = socket.socketpair()
    never_block(one.fileno())
    assert not os.get_blocking(one.fileno())
    output = LogOutput(one.fileno())
    fill(output, 20_000)
    assert output._waiting
    one.close()
    other.close()
    reader, writer = os.pipe()
    monkeypatch.setattr(os, "open", denied)
    never_block(writer)
    assert not os.get_blocking(writer)
    os.close(reader)
    os.close(writer)


def test_a_regular_file_stays_as_it_is(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        file.write(b"before\n")
        file.flush()
        never_block(file.fileno())
        LogOutput(file.fileno()).write("after\n")
    assert (tmp_path / "log").read_bytes() == b"before\nafter\n"


CLOSED = """
import os, sys
from service.settings import Settings
from service.telemetry.logs import OUTPUT, configure
configure(Settings())
kept = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
import structlog, warnings
structlog.get_logger().error("for nobody")
warnings.warn("for nobody")
sys.exit(0 if kept > 2 and os.fstat(kept).st_size == 0 else 1)
"""


@pytest.mark.parametrize("how", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_output_is_never_taken_for_another_file(how, tmp_path):
    command = f'"{sys.executable}" -c "$1" "$2" {how}'
    done = subprocess.run(["sh", "-c", command, "sh", CLOSED, tmp_path / "other"], cwd=ROOT, timeout=60)
    assert done.returncode == 0


def test_warnings_and_the_count_of_dropped_lines_are_lines_of_the_log():
    program = """
import warnings
from service.settings import Settings
from service.telemetry import log_output
from service.telemetry.logs import OUTPUT, configure
configure(Settings())
warnings.warn("beware")
OUTPUT._untold = 7
OUTPUT.close(5)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    warned, dropped = map(json.loads, done.stdout.splitlines())
    assert "beware" in warned["event"]
    assert (dropped["count"], dropped["level"]) == (7, "warning")
    assert done.stderr == ""
