"""The memory of a service: a control group with a limit where one can be made, and a watch over what is held."""

import os
import threading
import time
from pathlib import Path

from tests.rigs.replica import Replica

SAMPLE_SECONDS = 0.05
PARTS_SECONDS = 0.5


class Group:
    """A control group with a memory limit in bytes, below that of this process. `kind` is `pss` if there is none."""

    def __init__(self, limit: int) -> None:
        self.kind, self.folder = "pss", Path()
        for kind, folder in _own_groups():
            group = folder / f"regard-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            try:
                name = "memory.limit_in_bytes" if kind == "cgroup v1" else "memory.max"
                (group / name).write_text(str(limit))
            except OSError:
                group.rmdir()
                continue
            self.kind, self.folder = kind, group
            return

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        if self.kind == "pss":
            return
        for _ in range(50):  # it is empty once the kernel has buried the last process
            try:
                self.folder.rmdir()
                return
            except OSError:
                time.sleep(0.1)

    @property
    def join(self) -> tuple[str, ...]:
        """What to put before a command so that it runs in the group."""
        if self.kind == "pss":
            return ()
        return ("sh", "-c", f'echo $$ > {self.folder}/cgroup.procs; exec "$@"', "sh")

    def held(self) -> int | None:
        """Return the bytes that cannot be reclaimed: of processes, files in memory, the kernel; None for `pss`."""
        if self.kind == "pss":
            return None
        stat = dict(line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        if self.kind == "cgroup v2":
            return sum(int(stat[name]) for name in ("anon", "shmem", "kernel", "sock") if name in stat)
        kernel = int((self.folder / "memory.kmem.usage_in_bytes").read_text())
        return int(stat["total_rss"]) + int(stat["total_shmem"]) + kernel

    def killed(self) -> int:
        """Return how many processes the kernel has ended for want of memory."""
        if self.kind == "pss":
            return 0
        name = "memory.oom_control" if self.kind == "cgroup v1" else "memory.events"
        lines = [line.split() for line in (self.folder / name).read_text().splitlines()]
        return next((int(value) for key, value in lines if key == "oom_kill"), 0)


class Watch:
    """Samples what a service holds, on a thread."""

    def __init__(self, replica: Replica, group: Group) -> None:
        self._replica, self._group = replica, group
        self.most = 0
        self.parts: dict[str, int] = {}
        self._largest = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Watch":
        return self

    def begin(self) -> None:
        """Start to watch."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def held(self) -> int:
        """Return the bytes that are held now."""
        held = self._group.held()
        return sum(self._replica.pss().values()) if held is None else held

    def _work(self) -> None:
        looked = 0.0
        while not self._stopped.wait(SAMPLE_SECONDS):
            self.most = max(self.most, self.held())
            if time.monotonic() > looked + PARTS_SECONDS:
                looked = time.monotonic()
                parts = self._replica.pss()
                if sum(parts.values()) > self._largest:
                    self._largest = sum(parts.values())
                    self.parts = {name: size >> 20 for name, size in parts.items()}


def _own_groups() -> list[tuple[str, Path]]:
    """Return the folders of this process's groups that count memory, with their kind."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if "memory" in names.split(","):
            found.append(("cgroup v1", Path("/sys/fs/cgroup/memory") / path.strip("/")))
        elif not names:
            found.append(("cgroup v2", Path("/sys/fs/cgroup") / path.strip("/")))
    return [(kind, folder) for kind, folder in found if (folder / "cgroup.procs").exists()]
