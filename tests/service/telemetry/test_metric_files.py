"""The files in which workers count: a full disk loses counts, never a process."""

import errno
import json
import os
import struct
import subprocess
import sys

import pytest

from service.telemetry.metric_files import FILE_BYTES, PREFIXES, SHARED_FOLDER_VARIABLE, allocate_all, release
from tests.conftest import ROOT

COUNT = """
import os, sys
from pathlib import Path
from service.settings import Settings
from service.telemetry.logs import configure
from service.telemetry.metric_files import allocate_all
configure(Settings())
folder = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
try:
    allocate_all(folder)
except ValueError as error:
    sys.exit(str(error))
from service.telemetry.metrics import Metrics
metrics = Metrics()
if sys.argv[1:2] == ["full"]:
    (folder / "filler").write_bytes(b"")
    try:
        with (folder / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
    except OSError:
        pass
for number in range(int(sys.argv[2]) if sys.argv[2:] else 1):
    metrics.queue_seconds.labels(f"lane-{number}").observe(1)
metrics.requests.labels("/", "GET", "200").inc()
metrics.ready.set(1)
metrics.in_flight.set(1)
print(*sorted(file.name for file in folder.glob("*.db")))
print(metrics.text().decode().count("regard_queue_seconds_count"))
"""


def count(folder, *arguments):
    """Count something in a process of its own."""
    environment = os.environ | {SHARED_FOLDER_VARIABLE: str(folder)}
    command = [sys.executable, "-c", COUNT, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def test_all_files_of_a_worker_are_allocated_at_the_start(tmp_path):
    done = count(tmp_path)
    assert done.returncode == 0, done.stderr
    names = done.stdout.splitlines()[0].split()
    assert sorted(name.rpartition("_")[0] for name in names) == sorted(PREFIXES)
    for name in names:
        found = (tmp_path / name).stat()
        assert found.st_size == FILE_BYTES <= found.st_blocks * 512


def test_a_full_disk_ends_no_process_and_what_there_is_room_for_is_counted(small_disk):
    """Files that grow are allocated before they are mapped; before, the second page of a new map was a SIGBUS."""
    done = count(small_disk.folder, "full", 2000)
    assert done.returncode == 0, done.stderr
    line, _, counted = done.stdout.splitlines()
    assert json.loads(line)["event"] == "metrics are not counted, there is no room for them"
    assert 100 < int(counted) < 2000


def test_a_file_that_is_full_grows(tmp_path):
    done = count(tmp_path, "growing", 600)
    assert done.stdout.splitlines()[1] == "600", done.stdout
    (histogram,) = tmp_path.glob("histogram_*.db")
    assert histogram.stat().st_size >= 2 * FILE_BYTES <= histogram.stat().st_blocks * 512


def test_without_room_the_start_fails_with_the_reason(small_disk):
    small_disk.fill(leave=2 * FILE_BYTES)
    done = count(small_disk.folder)
    assert done.stderr == "TMPDIR: what workers share cannot be kept there: No space left on device\n"
    assert not list(small_disk.folder.glob("*.new"))


def test_no_file_without_content_is_left(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr("prometheus_client.values.MmapedDict", None)
    with pytest.raises(ValueError, match=r"^TMPDIR: what workers share cannot be kept there: No space left on device$"):
        allocate_all(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("counted", [True, False])
def test_the_files_of_a_process_that_has_ended_keep_only_what_was_counted(tmp_path, counted):
    for name in ("counter_7.db", "histogram_7.db", "gauge_livesum_7.db", "counter_77.db"):
        (tmp_path / name).write_bytes(struct.pack("i", 100) + bytes(996))
    release(tmp_path, 7, counted=counted)
    sizes = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    assert sizes == {"counter_77.db": 1000} | ({"counter_7.db": 100, "histogram_7.db": 100} if counted else {})
