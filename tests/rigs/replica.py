"""The service as a process under watch: its memory, files, threads and gauges, seen from outside."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import httpx
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from service.settings import Settings
from tests.conftest import COLD, ROOT
from tests.samples.ports import free_port
from tests.samples.warm_start import WarmPopen

START_SECONDS = 60


class Replica:
    """One process of the service on a port of this machine."""

    def __init__(
        self,
        artifacts: Path,
        *,
        port: int = 0,
        cores: Sequence[int] = (),
        program: Sequence[str] = COLD,
        before: Sequence[str] = (),
        warm: bool = False,
        **settings: object,
    ) -> None:
        self.port = port or free_port()
        self.admin_port = settings.get("admin_port", self.port)
        given = {"artifacts": artifacts, "port": self.port, **settings}
        unknown = given.keys() - Settings.model_fields.keys()
        assert not unknown, f"{', '.join(unknown)}: are no settings"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
        environment |= {f"REGARD_{name}".upper(): str(value) for name, value in given.items()}
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 # closed once the process has ended
        self.process = (WarmPopen if warm else subprocess.Popen)(
            [*before, sys.executable, *program],
            cwd=ROOT,
            env=environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
        )
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)
        self.admin = httpx.Client(base_url=f"http://127.0.0.1:{self.admin_port}", timeout=60)

    def __enter__(self) -> "Replica":
        return self.wait_ready()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self) -> "Replica":
        """Wait until every model has run once."""
        last = time.monotonic() + START_SECONDS
        while time.monotonic() < last:
            try:
                if self.http.get("/health/ready").status_code == 200:
                    return self
            except httpx.TransportError:
                if self.process.poll() is not None:
                    self.kill()
                    raise RuntimeError(f"the service has ended: {self.said()[-2000:]}") from None
            time.sleep(0.05)
        self.kill()
        raise TimeoutError(f"the service is not ready after {START_SECONDS} seconds")

    def said(self) -> str:
        """Return what was logged."""
        if not self._log.closed:
            # the service writes where the file's position is, which `pread` does not move
            self._said = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()
        return self._said

    def stop(self, seconds: float = 40) -> int:
        """Tell it to stop, and kill it should it not; return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._close()
        return self.process.returncode

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self._close()

    def _close(self) -> None:
        self.process.wait()
        self.http.close()
        self.admin.close()
        self.said()
        self._log.close()

    def rss(self) -> int:
        """Return the bytes of memory that it and its children hold."""
        return sum(_number(pid, "VmRSS") << 10 for pid in self._family())

    def pss(self) -> dict[str, int]:
        """Return the bytes of memory that it and each of its children hold, by role; shared pages are divided."""
        found: dict[str, int] = {}
        for number, pid in enumerate(self._family()):
            found[f"{'service' if not number else 'child'} {pid}"] = _number(pid, "Pss", "smaps_rollup") << 10
        return found

    def files(self) -> int:
        """Return how many files it holds open."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        try:
            return len(list(folder.iterdir()))
        except PermissionError:  # it keeps its own user from inspecting it; since Linux 6.2 the size is their number
            return folder.stat().st_size

    def threads(self) -> int:
        """Return how many threads it has."""
        return _number(self.process.pid, "Threads")

    def metrics(self) -> Iterable[Metric]:
        """Return what it says of itself."""
        return text_string_to_metric_families(self.admin.get("/metrics").text)

    def gauges(self) -> dict[str, float]:
        """Return every gauge of its own, by name and labels."""
        return {
            f"{sample.name}{sorted(sample.labels.items())}": sample.value
            for family in self.metrics()
            if family.type == "gauge" and family.name.startswith("regard_")
            for sample in family.samples
        }

    def counted(self, name: str, **labels: str) -> float:
        """Return the sum of a counter or of a histogram's part over all labels but those given."""
        return sum(
            sample.value
            for family in self.metrics()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def _family(self) -> list[int]:
        found = [self.process.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    found += [int(child) for child in task.read_text().split()]
                except OSError:  # it ended between two looks
                    continue
        return found


def _number(pid: int, name: str, file: str = "status") -> int:
    """Return a number that the kernel says of a process; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def two_cores() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the cores of the service and those of who loads it; the same where there is but one."""
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0],), tuple(cores[1:2] or cores)
