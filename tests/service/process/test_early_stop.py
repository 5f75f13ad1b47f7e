"""A stop that is asked for before there is a server to stop."""

import os
import subprocess
import sys

from tests.conftest import ROOT


def test_a_stop_that_comes_in_a_callback_of_a_fork_is_not_lost(artifacts):
    """Python drops what the handler raises there."""
    program = (
        "import os, runpy, signal, sys\n"
        "os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        "sys.argv = ['service']; runpy.run_module('service', run_name='__main__')"
    )
    environment = os.environ | {"REGARD_ARTIFACTS": str(artifacts), "REGARD_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "SystemExit" in done.stderr, "the signal came in the callback"
    assert '"event":"settings"' in done.stdout
    assert "listening" not in done.stdout
