"""The command that measures how many threads a run should have."""

import sys

import pytest

from service import tune


@pytest.fixture(autouse=True)
def arguments(monkeypatch):
    """The arguments of the command, none unless a test adds some."""
    given = ["tune"]
    monkeypatch.setattr(sys, "argv", given)
    return given


def test_help_measures_nothing(arguments, capsys, monkeypatch):
    monkeypatch.setattr(tune, "load", None)
    arguments.append("--help")
    with pytest.raises(SystemExit) as ended:
        tune.main()
    assert ended.value.code == 0
    assert "REGARD_ARTIFACTS" in capsys.readouterr().out


def test_every_graph_is_measured_with_one_thread_and_with_all(light, monkeypatch, capsys):
    monkeypatch.setenv("REGARD_ARTIFACTS", str(light))
    monkeypatch.setattr(tune, "SECONDS", 0.05)
    monkeypatch.setattr(tune, "share_of_cores", lambda settings: 2)
    assert tune.main() == 0
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if " ms" not in line]
    rows = [row for row in rows if len(row) == 6 and row[0] in ("digits", "dates")]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (name, role, threads)
        for name, role in (("dates", "encode"), ("dates", "decode"), ("digits", "predict"))
        for threads in ("1 (default)", "2")
    ]
    assert all(float(row[4]) > 0 and float(row[5]) > 0 for row in rows)
    assert "REGARD_THREADS=1 runs " in out


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [("REGARD_ARTIFACTS", "/nonexistent", "nonexistent"), ("REGARD_THREADS", "-1", "REGARD_THREADS")],
)
def test_what_cannot_be_measured_is_said(setting, value, reason, monkeypatch, capsys):
    monkeypatch.setenv(setting, value)
    assert tune.main() == 2
    assert reason in capsys.readouterr().out
