"""The conventional metrics of processes, `process_*`, of the process that serves or of all workers together."""

import os
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

EARLIEST = "process_start_time_seconds"
"""Of several workers, the earliest stands; all other figures are added up."""
WORKERS = "gauge_livesum_[0-9]*.db"
"""The files of workers that run, which end in the number of their process."""


class Processes(Collector):
    """Reads `/proc` when somebody asks. Processes that decode files and the supervisor of workers are left out."""

    def __init__(self, shared: Path | None = None) -> None:
        """Count this process, or all workers that have files in a folder."""
        self._shared = shared

    def collect(self) -> Iterable[Metric]:
        """Return a metric of each name; none on a system without `/proc`."""
        found = dict[str, Metric]()
        for pid in self._processes():
            of_pid = ProcessCollector(pid=lambda pid=pid: pid, registry=None)  # type: ignore[misc]
            for metric in of_pid.collect():
                found[metric.name] = _together(found[metric.name], metric) if metric.name in found else metric
        return found.values()

    def _processes(self) -> list[int]:
        if self._shared is None:
            return [os.getpid()]
        return [int(file.stem.rpartition("_")[2]) for file in self._shared.glob(WORKERS)]


def _together(first: Metric, second: Metric) -> Metric:
    (one,), (other,) = first.samples, second.samples
    of_both = min if first.name == EARLIEST else sum
    first.samples = [one._replace(value=of_both((one.value, other.value)))]
    return first
