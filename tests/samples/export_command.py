"""`python -m export` within this process, which has already imported what takes seconds."""

import runpy
import sys
from unittest import mock

from tests.conftest import ROOT


def export_command(*arguments):
    """Run the command with these arguments; return its exit status."""
    with mock.patch.object(sys, "argv", ["export", *map(str, arguments)]):
        try:
            return runpy.run_path(str(ROOT / "export/command.py"))["main"]()  # anew: takes what tests replace
        except SystemExit as end:
            return end.code
