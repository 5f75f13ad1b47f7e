"""A decoder that a hostile image has taken over cannot do what a process can, and honest ones do not notice."""

import errno
import json
import platform
import struct
import subprocess
import sys

import pytest

from service.inputs.sandbox import decoder_process, seccomp
from tests.conftest import ROOT
from tests.samples.decoders import decoding
from tests.samples.http_requests import SEVEN
from tests.samples.images import INK

MISSING = seccomp.why_unavailable()
needs_seccomp = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
ENDING = {
    "read the parent's memory", "trace the parent", "signal the parent", "signal the parent's thread",
    "signal the parent by a descriptor", "signal all", "remove a file", "remove a folder", "rename a file",
    "link a file", "link a name", "change the mode of a file", "connect", "run a program", "fork", "start a thread",
}  # fmt: skip
"""Deeds that end a confined process; the others fail."""


@needs_seccomp
def test_nothing_that_a_decoder_which_was_taken_over_tries_succeeds(tmp_path):
    command = [sys.executable, "-m", "tests.samples.taken_over", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found) == 28
    assert {name: one["free"] for name, one in found.items()} == dict.fromkeys(found, "done"), "else it proves nothing"
    for name, one in found.items():
        assert one["confined"] == ("SIGSYS" if name in ENDING else "EPERM"), name


def run(machine, number, *arguments, pid=77, word=None):
    """Return what the filter answers to a system call."""
    words = struct.pack("<iIQ6Q", number, word or seccomp.ARCHITECTURES[machine][1], 0, *(*arguments, *[0] * 6)[:6])
    at = accumulator = 0
    program = seccomp._program(machine, pid)
    while True:
        code, if_so, if_not, operand = program[at]
        at += 1
        match code:
            case seccomp.LOAD:
                (accumulator,) = struct.unpack_from("<I", words, operand)
            case seccomp.JUMP_IF_EQUAL:
                at += if_so if accumulator == operand else if_not
            case seccomp.JUMP_IF_SET:
                at += if_so if accumulator & operand else if_not
            case seccomp.RETURN:
                return operand


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_the_filter_answers_every_call_as_its_table_says(machine, column):
    denied = seccomp.ERRNO | errno.EPERM
    numbers = {}
    for table in (seccomp.ALLOWED, seccomp.ENDING, seccomp.ALLOWED_UNLESS_EXECUTABLE, seccomp.ALLOWED_TO_SELF):
        for name, both in table.items():
            assert numbers.setdefault(both[column], name) == name or both[column] is None
            numbers[both[column]] = name
    for number, name in numbers.items():
        if number is None:
            continue
        if name in seccomp.ALLOWED_UNLESS_EXECUTABLE:
            assert run(machine, number, 0, 4096, 3) == seccomp.ALLOW
            assert run(machine, number, 0, 4096, 7) == denied
        elif name in seccomp.ALLOWED_TO_SELF:
            assert run(machine, number, 77) == seccomp.ALLOW
            assert run(machine, number, 78) == run(machine, number, 2**64 - 1) == seccomp.KILL_PROCESS
        else:
            assert run(machine, number) == (seccomp.ALLOW if name in seccomp.ALLOWED else seccomp.KILL_PROCESS), name
    assert {run(machine, number) for number in range(600) if number not in numbers} == {denied}


def test_calls_of_another_architecture_end_the_process():
    i386 = 0x40000003
    assert run("x86_64", 1, word=i386) == seccomp.KILL_PROCESS
    assert run("x86_64", 1 | 0x40000000) == seccomp.ERRNO | errno.EPERM, "a number of x32"


def test_a_system_that_cannot_is_told_from_one_that_can(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert seccomp.why_unavailable() == "the filter is not written for riscv64"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert seccomp.why_unavailable() == "darwin has no seccomp"


@pytest.mark.skipif(sys.platform != "linux", reason="calls prctl")
def test_a_kernel_that_refuses_is_named(monkeypatch):
    def refused(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(seccomp, "prctl", refused)
    assert seccomp.why_unavailable() == "the kernel or the container does not allow seccomp: Invalid argument"


@pytest.mark.anyio
async def test_without_seccomp_images_are_decoded_and_a_warning_says_so_once(monkeypatch):
    warnings = []
    monkeypatch.setattr(seccomp, "why_unavailable", lambda: "the filter is not written for riscv64")
    monkeypatch.setattr(decoder_process.log, "warning", lambda event, **values: warnings.append((event, values)))
    async with decoding() as (pool, _):
        await pool.decode(SEVEN, INK)
        pool._source.end_all()
        await pool.decode(SEVEN, INK)
    assert warnings == [
        ("image decoders are not confined by seccomp", {"reason": "the filter is not written for riscv64"})
    ]
