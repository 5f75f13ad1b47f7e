"""What an export says of the comparisons of its graphs; that they are compared is tested where graphs are made."""

from pathlib import Path

import pytest

from export import progress, verification
from export.checks.verify import FACTOR

FOUND = {"raw": 2e-7, "libra": 7.5e-7, f"integrated: {FACTOR}": 3.0}


@pytest.mark.parametrize("verbose", [False, True])
def test_the_worst_comparison_is_printed_or_each_of_them(verbose, monkeypatch, capsys):
    monkeypatch.setattr(verification, "verify", lambda *_: FOUND)
    monkeypatch.setattr(verification, "rounds_of", lambda *_: [()])
    monkeypatch.setattr(progress, "verbose", verbose)
    assert verification.verify_files(None, Path(), "fp32", "usual") == FOUND
    said = capsys.readouterr().out
    assert "  verified  2 comparisons, at most 7.5e-07 apart (libra)\n" in said
    assert f"NOT EXACT  integrated: {FACTOR} 3.0" in said
    assert ("differs by at most 2.0e-07" in said) == verbose
