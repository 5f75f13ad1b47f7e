"""Trial: artifacts are loaded in a process of their own first, which may die of them.

A graph can end the process that loads it, or take all its memory, whatever its hash says. The child tells in JSON what
became of each; when it falls silent, the one it was at is to blame.
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

SECONDS = 60.0
"""For one artifact."""
ROOM = 1 << 30
"""Bytes that a child may take beside what it has at its start and four times the artifact's own."""
WEIGHTS = 4


class Trial:
    """A child that loads artifacts one after the other, always on the CPU.

    `fork` is quick, for a process that has no threads and no sessions yet; else it must be `spawn`.
    """

    def __init__(self, folders: Sequence[Path], settings: Settings, method: Literal["fork", "spawn"]) -> None:
        context: Any = multiprocessing.get_context(method if sys.platform != "win32" else "spawn")
        self._ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_load_all, args=(list(folders), settings, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def outcome(self, folder: Path, *, exact: bool) -> None:
        """Wait for the next artifact. Raises what loading it raised, and ArtifactError if the child died of it.

        Unless `exact`, what was raised is no fault: another device may well run what this one cannot.
        """
        try:
            if not self._ours.poll(SECONDS):
                self._process.kill()
                raise ArtifactError(folder, f"loading it took more than {SECONDS:g} seconds")
            said = json.loads(self._ours.recv_bytes())
        except (EOFError, ConnectionError) as error:
            self._process.join(1)
            raise ArtifactError(folder, f"loading it ends a process: {_end(self._process.exitcode)}") from error
        if not exact or not said:
            return
        if said["kind"] == "ProviderError":
            raise ProviderError(said["reason"])
        if said["kind"] == "SessionError":
            raise SessionError(said["reason"])
        raise ArtifactError(Path(said.get("file", folder)), said["reason"])

    def close(self) -> None:
        """End the child."""
        self._process.kill()
        self._process.join()
        self._ours.close()


def _end(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"status {code}"


def _load_all(folders: Sequence[Path], settings: Settings, into: Connection) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    for folder in folders:
        said: dict[str, str] = {}
        try:
            artifact = read_artifact(folder)
            _limit(WEIGHTS * sum(file.bytes for file in artifact.manifest.all_files()) + ROOM)
            TASKS[artifact.manifest.task](artifact, "cpu", settings)
        except ArtifactError as error:
            said = {"kind": "ArtifactError", "file": str(error.file), "reason": error.reason}
        except (ProviderError, SessionError) as error:
            said = {"kind": type(error).__name__, "reason": str(error)}
        except Exception as error:
            said = {"kind": "ArtifactError", "reason": f"cannot be loaded: {error}"}
        into.send_bytes(json.dumps(said).encode())


def _limit(room: int) -> None:
    """Bound the addresses that this process may take to what it has and so many bytes; on Linux."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    most = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
