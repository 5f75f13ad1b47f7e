"""The number of threads that a session may use: the cores of this process, limited by cgroup quotas and a setting."""

import os
from pathlib import Path

from service.settings import Settings

MOST_DEFAULT_THREADS = 16
"""The most threads of a session where no setting says how many. The graphs that this service runs gain little from more
(each thread's part of a product becomes too small), while every session of every model has threads of its own: on 96
cores, ten sessions would have almost a thousand, more than the limits of processes in containers."""


def usable_cores() -> int:
    """Return the number of cores this process may use: its affinity, limited by the cgroup's quota; at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for read in (_quota_v2, _quota_v1):
        try:
            quota = read()
        except (OSError, ValueError):
            continue
        if quota is not None:
            return max(1, min(cores, round(quota)))
    return cores


def share_of_cores(settings: Settings) -> int:
    """Return the number of cores that this process may use: its part of those that all workers may use."""
    cores = usable_cores()
    return max(1, min(cores, settings.cores or cores) // settings.workers)


def cores_of_runs(settings: Settings) -> int:
    """Return how many cores runs may take together.

    They are all of this process if a setting says how many threads a run has. Otherwise, of few cores, one is left to
    the event loop and the decoders: for models whose runs take one thread, these do as much work as the runs. (A run of
    all cores then runs alone.)
    """
    cores = share_of_cores(settings)
    return cores if settings.threads or cores > MOST_DEFAULT_THREADS else max(1, cores - 1)


def default_threads(settings: Settings) -> int:
    """Return the number of threads of a session where no setting says it: the cores of this process, bounded."""
    return min(share_of_cores(settings), MOST_DEFAULT_THREADS)


def _quota_v2() -> float | None:
    quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    return None if quota == "max" else int(quota) / int(period)


def _quota_v1() -> float | None:
    folder = Path("/sys/fs/cgroup/cpu")
    quota = int((folder / "cpu.cfs_quota_us").read_text())
    return None if quota < 0 else quota / int((folder / "cpu.cfs_period_us").read_text())
