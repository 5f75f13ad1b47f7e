"""What an export prints, and the memory that it gives back."""

import contextlib
import gc
import io
import os
import pty
import re
import sys
import time
import weakref
from types import SimpleNamespace

import pytest

from export import progress
from export.progress import (
    collecting_only_new_objects,
    peak_bytes,
    received_signals,
    return_memory,
    say,
    timed_step,
    waiting,
)


def test_a_step_is_printed_with_its_details_and_seconds(capsys):
    with timed_step("  trace     base") as step:
        step.details.append("12 nodes")
    assert capsys.readouterr().out.split() == ["trace", "base", "12", "nodes", "0.0", "s"]
    say("  done", since=0)
    assert capsys.readouterr().out.endswith(" s\n")


def test_a_step_that_fails_is_named(capsys):
    with pytest.raises(ValueError, match="broken"), timed_step("  trace     base"):
        raise ValueError("broken")
    assert capsys.readouterr().out == "  trace     base\n"


def test_without_a_terminal_a_silent_step_says_now_and_then_what_it_does(capsys, monkeypatch):
    assert 10 <= progress.SILENT_SECONDS <= 20
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.01)
    said = ""
    with timed_step("  verify    attention") as step:
        step.doing("shape 2 of 3: batch 2")
        while said.count("\n") < 2 or "shape" not in said:
            said += capsys.readouterr().out
            time.sleep(0.01)
    lines = said.splitlines()
    assert re.fullmatch(r"  verify    attention shape 2 of 3: batch 2 +\d+ s so far", lines[-1])
    assert not re.search("[\r\x1b]", said)


def test_lines_stay_whole_whichever_thread_prints(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    with waiting("  write"):
        for _ in range(2000):
            say("  a whole line")
    lines = capsys.readouterr().out.splitlines()
    ticks = [line for line in lines if line != "  a whole line"]
    assert len(lines) - len(ticks) == 2000
    assert ticks
    assert all(re.fullmatch(r"  write +\d+ s so far", line) for line in ticks)


def test_a_step_is_shown_while_what_libraries_print_goes_elsewhere(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.01)
    said = ""
    with timed_step("  trace     base"), contextlib.redirect_stdout(io.StringIO()) as elsewhere:
        sys.stdout.write("noise")
        while "so far" not in said:
            said += capsys.readouterr().out
            time.sleep(0.01)
    assert elsewhere.getvalue() == "noise"


class Terminal:
    """A terminal of a width, which stands for the output, and what was written to it."""

    def __init__(self):
        self.end, side = pty.openpty()
        self.file, self.said = os.fdopen(side, "w"), ""

    def read_until(self, pattern):
        while not re.search(pattern, self.said):
            self.said += os.read(self.end, 4096).decode()

    def screen(self):
        """Return the lines that a person sees: what follows a return to the line's start, and its erasure, is new."""
        return [line.rsplit(progress.ERASE, 1)[-1] for line in self.said.replace("\r\n", "\n").split("\n")]


@pytest.fixture
def terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stdout=terminal.file))  # pytest sets that of sys anew
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    yield terminal
    terminal.file.close()
    os.close(terminal.end)


def test_on_a_terminal_one_line_is_rewritten_and_ends_as_the_steps_line(terminal):
    say("digits: 3 graphs")
    with timed_step("  verify    predict") as step:
        terminal.read_until(r"verify    predict")
        step.doing("shape 1 of 3: batch 1")
        terminal.read_until(r"shape 1 of 3")
        step.doing("shape 2 of 3: batch 2")
        terminal.read_until(r"shape 2 of 3")
        assert terminal.screen()[0] == "digits: 3 graphs"
        assert len(terminal.screen()) == 2, "the progress is one line"
        step.details.append("12 nodes")
    with waiting("  write     predict"):
        pass
    say("  done")
    terminal.read_until("done")
    _, second, third, rest = terminal.screen()
    assert re.fullmatch(r"  verify    predict +12 nodes +\d+\.\d s", second)
    assert (third, rest) == ("  done", "")


def test_a_line_fits_a_narrow_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    with waiting("  verify") as step:
        step.doing("x" * 100)
        terminal.read_until("x{4}")
    say("  done")
    terminal.read_until("done")
    assert max(len(line) for line in re.split(r"[\n\r]|\x1b\[K", terminal.said)) == 29


def test_a_step_that_fails_on_a_terminal_is_named_in_a_line_of_its_own(terminal):
    with pytest.raises(ValueError, match="broken"), timed_step("  trace     base"):
        raise ValueError("broken")
    say("digits: not exported")
    terminal.read_until("exported")
    assert terminal.screen() == ["  trace     base", "digits: not exported", ""]


def test_a_terminal_that_cannot_rewrite_a_line_gets_lines(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with timed_step("  trace     base"):
        pass
    terminal.read_until(" s\r\n")
    assert "\x1b" not in terminal.said


def test_an_interrupt_that_a_library_swallowed_ends_the_step(monkeypatch):
    monkeypatch.setattr("export.progress.received_signals", [*received_signals, 2])
    with pytest.raises(KeyboardInterrupt), timed_step("  trace"):
        pass


class Cycle:
    """It refers to itself."""

    def __init__(self):
        self.itself = self


def cycle():
    return weakref.ref(Cycle())


def test_what_refers_to_itself_is_freed():
    gc.disable()
    try:
        held = cycle()
        assert held() is not None
        return_memory()
        assert held() is None
    finally:
        gc.enable()


def test_the_peak_is_in_bytes():
    assert 10 << 20 < peak_bytes() < 1 << 40


def test_objects_that_exist_before_are_not_collected_until_the_end_and_new_ones_are():
    gc.disable()  # or it may free the first before
    try:
        old = cycle()
        with collecting_only_new_objects():
            new = cycle()
            gc.collect()
            assert old() is not None
            assert new() is None
        gc.collect()
        assert old() is None
    finally:
        gc.enable()


def test_escape_codes_of_a_file_are_written_as_words(capsys):
    say("tensor \x1b[2Jname\x9b\r")
    assert capsys.readouterr().out == "tensor \\x1b[2Jname\\x9b\\x0d\n"
