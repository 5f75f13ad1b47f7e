import json
import subprocess
import sys
from pathlib import Path

import pytest

from service.telemetry import logs
from tests.conftest import ROOT


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_holds_no_local_values(form):
    """Of the outermost layers these are the request's headers."""
    program = f"""
import structlog
from service.telemetry.logs import configure
from service.settings import Settings
configure(Settings(log_format={form!r}))
try:
    headers = "".join(("sec", "ret"))
    headers.absent
except AttributeError:
    structlog.get_logger().exception("failed")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "AttributeError" in done.stdout, done.stderr
    assert "secret" not in done.stdout


def test_a_name_of_a_file_that_is_no_utf_8_is_written_escaped():
    assert json.loads(logs._to_json({"file": "a\udcff", "path": Path("b")})) == {"file": "a\udcff", "path": "b"}
