"""Processes that serve, added up."""

import os
import subprocess
import sys

import pytest

from service.telemetry import metric_files
from service.telemetry.process_metrics import Processes


@pytest.fixture
def worker():
    """Return a process that waits."""
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as process:
        process.stdout.readline()
        yield process
        process.communicate(b"\n")


def test_workers_are_added_up_and_the_earliest_start_stands(tmp_path, worker):
    alone = {metric.name: metric.samples[0].value for metric in Processes().collect()}
    for name in (os.getpid(), worker.pid, metric_files.ENDED):
        (tmp_path / f"gauge_livesum_{name}.db").touch()
    both = {metric.name: metric.samples[0].value for metric in Processes(tmp_path).collect()}
    assert both["process_resident_memory_bytes"] > alone["process_resident_memory_bytes"] + (1 << 20)
    assert both["process_start_time_seconds"] == alone["process_start_time_seconds"]
