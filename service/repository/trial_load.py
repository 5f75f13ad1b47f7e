"""The trial load: artifacts are first loaded in a child process, because loading one may crash the process.

A graph can end the process that loads it, or take all its memory, whatever its hash says. The child reports each
artifact's outcome as JSON. If it ends without a report, the artifact that it was loading is at fault.
"""

import json
import multiprocessing
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from contract.artifact import ArtifactError, read_artifact
from service.repository.tasks import TASKS
from service.runtime.runtime_errors import ProviderError, SessionError
from service.settings import Settings

SECONDS_PER_ARTIFACT = 60.0
"""The child is killed if an artifact takes longer to load."""
MEMORY_FACTOR = 4
SPARE_BYTES = 1 << 30
"""Beside the memory that it has at its start, the child may take MEMORY_FACTOR times the bytes of the artifact, and
SPARE_BYTES."""


class Trial:
    """A child process that loads artifacts one after the other, always on the CPU.

    The method `fork` is quick, but needs a process without threads and sessions; any other process needs `spawn`.
    """

    def __init__(self, folders: Sequence[Path], settings: Settings, method: Literal["fork", "spawn"]) -> None:
        context: Any = multiprocessing.get_context(method if sys.platform != "win32" else "spawn")
        self._reports, child_end = context.Pipe(duplex=False)
        self._process = context.Process(target=_load_all, args=(list(folders), settings, child_end), daemon=True)
        self._process.start()
        child_end.close()

    def outcome(self, folder: Path, *, exact: bool) -> None:
        """Wait for the next artifact. Raises the error of loading it, and ArtifactError if the child died of it.

        Unless `exact`, the error of loading is ignored, since another device may run what the CPU cannot.
        """
        try:
            if not self._reports.poll(SECONDS_PER_ARTIFACT):
                self._process.kill()
                raise ArtifactError(folder, f"loading it took more than {SECONDS_PER_ARTIFACT:g} seconds")
            report = json.loads(self._reports.recv_bytes())
        except (EOFError, ConnectionError) as error:
            self._process.join(1)
            raise ArtifactError(folder, f"loading it ends a process: {_exit_words(self._process.exitcode)}") from error
        if not exact or not report:
            return
        if report["kind"] == "ProviderError":
            raise ProviderError(report["reason"])
        if report["kind"] == "SessionError":
            raise SessionError(report["reason"])
        raise ArtifactError(Path(report.get("file", folder)), report["reason"])

    def close(self) -> None:
        """Kill the child."""
        self._process.kill()
        self._process.join()
        self._reports.close()


def _exit_words(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"status {code}"


def _load_all(folders: Sequence[Path], settings: Settings, connection: Connection) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    for folder in folders:
        report: dict[str, str] = {}
        try:
            artifact = read_artifact(folder)
            _limit_memory(MEMORY_FACTOR * sum(file.bytes for file in artifact.manifest.all_files()) + SPARE_BYTES)
            TASKS[artifact.manifest.task](artifact, "cpu", settings)
        except ArtifactError as error:
            report = {"kind": "ArtifactError", "file": str(error.file), "reason": error.reason}
        except (ProviderError, SessionError) as error:
            report = {"kind": type(error).__name__, "reason": str(error)}
        except Exception as error:
            report = {"kind": "ArtifactError", "reason": f"cannot be loaded: {error}"}
        connection.send_bytes(json.dumps(report).encode())


def _limit_memory(more_bytes: int) -> None:
    """Limit the address space of this process to what it has now and `more_bytes`. Linux only."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    limit = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
