import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_a_process_whose_parent_has_gone_ends():
    code = (
        f"from service.child_processes import end_with_parent; end_with_parent({os.getpid() + 1}); print('still here')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whether a process is dumpable")
def test_a_process_that_forbids_inspection_is_not_dumpable():
    code = (
        "import ctypes; from service.child_processes import forbid_inspection; forbid_inspection(); "
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
