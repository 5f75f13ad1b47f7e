"""Memory that is held and not used: it is noticed, and the heap gives it back. In processes of their own."""

import subprocess
import sys

import pytest

from service.runtime import memory
from service.runtime.memory import GROWTH_BYTES, PAUSE_SECONDS, Growth
from tests.conftest import ROOT

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the figures are of Linux and glibc")
FREED_BLOCKS = """
import sys
from service.runtime.memory import resident_bytes, return_large_blocks
if sys.argv[1] == "returned":
    return_large_blocks()
bytearray(30 << 20)  # from its end on, glibc takes blocks of up to 30 MiB from the heap
before = resident_bytes()
large = b"x" * (16 << 20)
blocks = [(bytearray(large), bytearray(100_000)) for _ in range(8)]
kept = [small for _, small in blocks]  # between the large ones, so that the heap cannot end below those
del blocks, large
print((resident_bytes() - before) >> 20)
"""


def _mebibytes(code: str, *arguments: str) -> int:
    run = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(run.stdout)


@ON_LINUX
def test_large_blocks_go_back_to_the_system_when_they_are_freed():
    assert _mebibytes(FREED_BLOCKS, "returned") < 8
    assert _mebibytes(FREED_BLOCKS, "kept") > 32, "by default the C library keeps them"


@ON_LINUX
def test_trimming_gives_back_what_lies_between_blocks_in_use():
    grown = _mebibytes(
        "from service.runtime.memory import resident_bytes, trim_heap\n"
        "before = resident_bytes()\n"
        "blocks = [bytearray(b'x' * 60_000) for _ in range(2000)]\n"
        "del blocks[1::2], blocks[:900]\n"
        "held = resident_bytes()\n"
        "trim_heap()\n"
        "print((held - resident_bytes()) >> 20)"
    )
    assert grown > 16


@ON_LINUX
def test_the_resident_memory_is_that_of_this_process():
    grown = _mebibytes(
        "from service.runtime.memory import resident_bytes\n"
        "before = resident_bytes()\n"
        "block = b'x' * (64 << 20)\n"
        "print((resident_bytes() - before) >> 20)"
    )
    assert 60 <= grown <= 70


def test_growth_is_large_once_it_passes_a_bound_and_never_twice_within_a_pause(monkeypatch):
    held, now = 100 << 20, 0.0
    monkeypatch.setattr(memory, "resident_bytes", lambda: held)
    monkeypatch.setattr(memory.time, "monotonic", lambda: now)
    growth = Growth()
    now, held = PAUSE_SECONDS, held + GROWTH_BYTES - 1
    assert not growth.is_large, "light runs leave the memory as it is"
    held += 1
    assert growth.is_large
    growth.reset()
    assert not growth.is_large, "what could not be given back is in use"
    held += GROWTH_BYTES
    assert not growth.is_large, "the pause is not over"
    now += PAUSE_SECONDS
    assert growth.is_large
    growth.pause()
    assert not growth.is_large
    now += PAUSE_SECONDS
    assert growth.is_large, "nothing was given back"
