"""The process of the service before there is a server: a stop that is asked for, and what the trial may read of it."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.conftest import served as serving
from tests.samples.waiting import until


def served(artifacts, *before):
    """Run the service after some lines of Python, in their process."""
    program = ("import os, runpy, signal, sys", *before, "sys.argv = ['service']")
    environment = os.environ | {"REGARD_ARTIFACTS": str(artifacts), "REGARD_PORT": "0", "REGARD_DECODE": "threads"}
    return subprocess.run(
        [sys.executable, "-c", "\n".join([*program, "runpy.run_module('service', run_name='__main__')"])],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_stop_that_comes_in_a_callback_of_a_fork_is_not_lost_and_prints_nothing(light):
    """Python drops what a handler raises there, and prints it."""
    kill = "os.kill(os.getpid(), signal.SIGTERM)"
    done = served(light, f"os.register_at_fork(after_in_parent=lambda: {kill})")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"event":"settings"' in done.stdout
    assert "listening" not in done.stdout


STOP_IN_AN_IMPORT = """
class Extension:
    def find_spec(self, name, *_):
        if name == {name!r}:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except SystemExit:
                raise ImportError("initialization failed")
sys.meta_path.insert(0, Extension())
"""


@pytest.mark.parametrize("name", ["pydantic", "structlog", "service.process.memory_limit", "onnxruntime", "fastapi"])
def test_a_stop_that_comes_in_an_import_is_no_failure(light, name):
    """pybind11 makes an ImportError of what the handler raises while an extension module is initialized."""
    done = served(light, STOP_IN_AN_IMPORT.format(name=name))
    assert (done.returncode, done.stderr) == (0, "")
    assert "listening" not in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whether a process is dumpable")
def test_the_trial_cannot_read_the_memory_of_the_service(light):
    tell = "print('dumpable', __import__('ctypes').CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)"
    confined = "os.environ['REGARD_DECODE'] = 'confined'"
    done = served(light, confined, f"os.register_at_fork(before=lambda: ({tell}, os._exit(0)))")
    assert [line for line in done.stdout.splitlines() if line.startswith("dumpable")] == ["dumpable 0"], done.stderr


def test_a_reload_that_is_asked_for_while_models_load_comes_once_they_are_there(light):
    code = """if True:
        import os, runpy, signal, sys
        asked = []
        def ask():
            if not asked:
                asked.append(os.kill(os.getpid(), signal.SIGHUP))
        os.register_at_fork(after_in_parent=ask)  # the trial of the first artifact
        sys.argv = ["service"]
        runpy.run_module("service", run_name="__main__")
    """
    with serving(light, program=["-c", code]) as client:
        until(lambda: "reload" in [json.loads(line)["event"] for line in client.lines()])
