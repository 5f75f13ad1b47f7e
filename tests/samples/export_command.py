"""`python -m export` within this process, which has already imported what takes seconds."""

import runpy
import sys
from unittest import mock


def export_command(*arguments):
    """Run the command with these arguments; return its exit status."""
    with mock.patch.object(sys, "argv", ["export", *map(str, arguments)]):
        try:
            runpy.run_module("export", run_name="__main__")
        except SystemExit as end:
            return end.code
    raise AssertionError("the command returned without an exit status")
