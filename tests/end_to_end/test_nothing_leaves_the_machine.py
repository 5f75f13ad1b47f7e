"""The service and the exporter talk to nobody and leave no file behind: onnxruntime would do both by its telemetry."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.conftest import ROOT
from tests.samples.http_requests import CLASSIFY, PNG, SEVEN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and strace is for Linux")

SYSTEM_CALLS = (
    "connect,sendto,sendmsg,sendmmsg,bind,open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat"
)
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|\b(creat|mkdir\w*|rename\w*|link\w*)\(")
MAY_BE_WRITTEN = re.compile(r'"(/dev/null|/proc/self/[\w/]+|/dev/shm/sem\.\w+)"')
"""The files that may be written, semaphores too, which are unlinked at once."""
TELEMETRY = "ORT_DISABLE_TELEMETRY"


@pytest.fixture
def home(tmp_path):
    """Empty folders for a process: its home, where it is started, and for temporary files."""
    for name in ("home", "cwd", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


def environment(home, **settings):
    """An environment in which somebody even asked for telemetry."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home / "home"),
        "TMPDIR": str(home / "tmp"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        TELEMETRY: "0",
        **{f"REGARD_{name}".upper(): str(value) for name, value in settings.items()},
    }


def start(home, *command, **settings):
    """Start a module, under strace where that is installed."""
    tracer = ["strace", "-f", "-qq", "-z", "-e", f"trace={SYSTEM_CALLS}", "-o", str(home / "calls")]
    return subprocess.Popen(
        [*(tracer if shutil.which("strace") else []), sys.executable, "-m", *command],
        cwd=home / "cwd",
        env=environment(home, **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left(home):
    """Return the files that a process left, but for empty folders of the temporary one."""
    files = [*(home / "home").rglob("*"), *(home / "cwd").rglob("*")]
    return files + [file for file in (home / "tmp").rglob("*") if not file.is_dir()]


def strangers(home, *allowed):
    """Return the calls that reached out, or wrote outside of the folder for temporary files and the allowed ones."""
    if not (home / "calls").exists():
        return []
    places = [f'"{place}' for place in (home / "tmp", *allowed)]
    calls = (home / "calls").read_text(errors="replace").splitlines()
    reaching = [call for call in calls if "sa_family=AF_INET" in call and "bind(" not in call]
    writing = [
        call
        for call in calls
        if WRITES.search(call) and not MAY_BE_WRITTEN.search(call) and not any(place in call for place in places)
    ]
    return reaching + writing


def family(pid):
    """Return a process and all that descends from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in family(int(child)))]


def sockets_of(pid):
    """Return the internet sockets of a process: table, and number of its state (10 is listening)."""
    descriptors = [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()]
    inodes = {name[8:-1] for name in descriptors if name.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        rows = [line.split() for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
        found += [(table, int(row[3], 16)) for row in rows if row[9] in inodes]
    return found


def test_a_service_opens_its_own_port_only_and_writes_no_file_outside_of_the_folder_for_temporary_ones(home, artifacts):
    process = start(home, "service", artifacts=artifacts, port=0, drain_seconds=0)
    url = None
    for line in process.stdout:
        assert "cannot" not in line, line
        url = url or next(iter(re.findall(r"http://127\.0\.0\.1:\d+", line)), None)
        if '"event":"ready"' in line:
            break
    with httpx.Client(base_url=url) as client:
        answer = client.post(CLASSIFY, content=SEVEN, headers=PNG, params={"attention": "raw"})
        assert answer.status_code == 200, answer.text
    time.sleep(1)  # the telemetry of onnxruntime asks for its host a while after the import
    pids = family(process.pid)
    listening = [
        socket for pid in pids for socket in sockets_of(pid) if socket != ("tcp", 6)
    ]  # 6: closed by the client
    os.kill(pids[1] if shutil.which("strace") else pids[0], signal.SIGTERM)
    process.communicate(timeout=30)
    assert listening == [("tcp", 10)]
    assert left(home) == []
    assert strangers(home) == []


@pytest.mark.slow
def test_an_export_talks_to_nobody_and_writes_its_target_only(home):
    target = home / "target"
    process = start(home, "export", "digits-plain", "--to", str(target))
    said, _ = process.communicate(timeout=500)
    assert process.returncode == 0, said
    assert (target / "digits-plain/1/manifest.json").exists()
    assert left(home) == []
    assert strangers(home, target) == []


@pytest.mark.parametrize("package", ["service", "export", "tests", "benchmarks"])
def test_every_package_that_imports_onnxruntime_turns_its_telemetry_off(home, package):
    code = f"import os, {package}; print(os.environ['{TELEMETRY}'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(home), cwd=home, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
