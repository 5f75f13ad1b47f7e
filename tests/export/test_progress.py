"""What an export prints, and the memory that it gives back."""

import gc
import weakref

import pytest

from export.progress import peak_bytes, received_signals, return_memory, say, timed_step


def test_a_step_is_printed_with_its_details_and_seconds(capsys):
    with timed_step("  trace     base") as details:
        assert capsys.readouterr().out == "  trace     base     "
        details.append("12 nodes")
    assert capsys.readouterr().out.split() == ["12", "nodes", "0.0", "s"]
    say("  done", since=0)
    assert capsys.readouterr().out.endswith(" s\n")


def test_an_interrupt_that_a_library_swallowed_ends_the_step(monkeypatch):
    monkeypatch.setattr("export.progress.received_signals", [*received_signals, 2])
    with pytest.raises(KeyboardInterrupt), timed_step("  trace"):
        pass


class Cycle:
    """It refers to itself."""

    def __init__(self):
        self.self = self


def test_what_refers_to_itself_is_freed():
    gc.disable()
    try:
        held = weakref.ref(Cycle())
        assert held() is not None
        return_memory()
        assert held() is None
    finally:
        gc.enable()


def test_the_peak_is_in_bytes():
    assert 10 << 20 < peak_bytes() < 1 << 40
