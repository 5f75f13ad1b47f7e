"""The files in which workers count: a full disk loses counts, never a process."""

import errno
import json
import os
import subprocess
import sys

import pytest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector

from service.telemetry.metric_files import (
    FILE_BYTES,
    PREFIXES,
    SHARED_FOLDER_VARIABLE,
    allocate_all,
    reading,
    release,
)
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
    metrics.queue_seconds.labels(f"model-{number}", "predictions").observe(1)
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
    done = count(small_disk.folder, "full", 4000)
    assert done.returncode == 0, done.stderr
    line, _, counted = done.stdout.splitlines()
    assert json.loads(line)["event"] == "metrics are not counted, there is no room for them"
    assert 100 < int(counted) < 4000


def test_a_file_that_is_full_grows(tmp_path):
    done = count(tmp_path, "growing", 1500)
    assert done.stdout.splitlines()[1] == "1500", done.stdout
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


def written(file, *values):
    """Write a file as a worker does."""
    mapped = MmapedDict(str(file))
    for key, value in values:
        mapped.write_value(json.dumps(["m", "m", {"a": key}, "help"], sort_keys=True), value, 1.0)
    mapped.close()


def totals(folder, files):
    """Return the values that prometheus-client reads, by label."""
    (metric,) = MultiProcessCollector.merge(map(str, folder.glob(files)))
    return {sample.labels["a"]: sample.value for sample in metric.samples}


@pytest.mark.parametrize("counted", [True, False])
def test_what_a_process_that_has_ended_counted_is_counted_on_and_its_files_are_gone(tmp_path, counted):
    for pid in (7, 8, 77):
        written(tmp_path / f"counter_{pid}.db", ("x", pid), (f"of {pid} é", 1))
        written(tmp_path / f"histogram_{pid}.db", ("x", 1))
        written(tmp_path / f"gauge_livesum_{pid}.db", ("x", 1))
    for pid in (7, 8):
        release(tmp_path, pid, counted=counted)
    kept = {"counter_77.db", "gauge_livesum_77.db", "histogram_77.db", "metrics.lock"}
    ended = {"counter_ended.db", "histogram_ended.db"} if counted else set()
    assert {file.name for file in tmp_path.iterdir()} == kept | ended
    assert totals(tmp_path, "counter_*") == {"x": 92.0 if counted else 77.0} | {
        f"of {pid} é": 1.0 for pid in ((7, 8, 77) if counted else (77,))
    }


def test_what_cannot_be_added_for_want_of_room_keeps_its_file(small_disk):
    written(small_disk.folder / "counter_7.db", *((f"{'x' * 1000}{number}", 1) for number in range(100)))
    small_disk.fill(leave=0)
    release(small_disk.folder, 7, counted=True)
    assert (small_disk.folder / "counter_7.db").exists()
    assert not list(small_disk.folder.glob("*.new"))


def test_nothing_is_released_while_somebody_reads(tmp_path):
    """A scrape once answered 500, since a file was gone between its name and its content."""
    written(tmp_path / "counter_7.db", ("x", 1))
    with reading(tmp_path), reading(tmp_path), pytest.raises(BlockingIOError):
        release(tmp_path, 7, counted=True)
    release(tmp_path, 7, counted=True)
