"""The trial: artifacts are copied, loaded and asked for an answer in a child process first, because that may crash it.

A graph can end the process that loads or runs it, or take all its memory, whatever its hash says; and a manifest may
not fit its graphs. The child copies an artifact while it checks the hashes, and the service then loads this very copy.
The child reports each step and each artifact's outcome as JSON. If it ends without an outcome, the artifact at hand is
at fault.
"""

import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from contract.artifact import MANIFEST, Artifact, ArtifactError, NoRoomError, read_artifact, read_copy
from contract.manifest import Manifest
from service.child_processes import COPIES_PREFIX, SHARED_COPIES, end_with_parent
from service.errors import DeviceFull
from service.repository.loading.sample_answer import answer_sample
from service.repository.models.tasks import class_of
from service.runtime.runtime_errors import ProviderError, SessionError
from service.settings import Settings

SECONDS_PER_STEP = 60.0
"""The child is killed if copying, loading or answering takes longer."""
MEMORY_FACTOR = 4
SPARE_BYTES = 1 << 30
"""Beside the memory that it has at its start, the child may take MEMORY_FACTOR times the bytes of the artifact and of
the maps of its longest input, and SPARE_BYTES."""
THREADS = 1
"""Each thread of a session would set aside address space, which is what the child's limit of memory counts: with 56
threads nothing was left."""


class Trial:
    """A child process that tries artifacts one after the other, always on the CPU.

    The method `fork` is quick, but needs a process without threads and sessions; any other process needs `spawn`.
    Raises OSError if there is no process or no folder for temporary files to be had.
    """

    def __init__(self, folders: Sequence[Path], settings: Settings, method: Literal["fork", "spawn"]) -> None:
        self._copies = Path(tempfile.mkdtemp(prefix=f"{COPIES_PREFIX}{os.getpid()}-"))
        self._folders = set(folders)
        self._ends: dict[str, dict[str, object]] = {}
        """What was reported of artifacts that nobody has asked for yet: those between a model and its partner."""
        self._ended = self._stopped = False
        try:
            context: Any = multiprocessing.get_context(method)
            self._reports, child_end = context.Pipe(duplex=False)
            arguments = (list(folders), self._copies, shared_copies(), settings, os.getpid(), child_end)
            self._process = context.Process(target=_try_all, args=arguments, daemon=True)
            self._process.start()
            child_end.close()
        except OSError:
            shutil.rmtree(self._copies, ignore_errors=True)
            raise

    def tries(self, folder: Path) -> bool:
        """True if this artifact is one of those to be tried, and none before it has ended the child."""
        return folder in self._folders and not self._ended

    def outcome(self, folder: Path, *, exact: bool) -> Artifact:
        """Wait for this artifact, and return its copy. Raises why it cannot be used, and if the child died of it.

        Unless `exact`, errors of loading and of lacking memory are ignored: another device may run what the CPU cannot.
        """
        step = "copying"
        try:
            while not (report := self._ends.pop(str(folder), {})):
                if not self._reports.poll(SECONDS_PER_STEP):
                    self._process.kill()
                    self._ended = True
                    raise ArtifactError(folder, f"{step} it took more than {SECONDS_PER_STEP:g} seconds")
                said = json.loads(self._reports.recv_bytes())
                if "step" not in said:  # it tries every one that was there when it began
                    self._ends[said["folder"]] = said
                elif said["folder"] == str(folder):
                    step = said["step"]
        except (EOFError, ConnectionError) as error:
            self._ended = True
            if self._stopped:
                raise ArtifactError(folder, "its trial was ended, since the service stops") from error
            self._process.join(1)
            raise ArtifactError(folder, f"{step} it ends a process: {_exit_words(self._process.exitcode)}") from error
        kind = report.get("kind")
        if kind == "NoRoomError":
            raise NoRoomError(Path(str(report["file"])), int(str(report["needed"])))
        if kind == "ArtifactError":
            raise ArtifactError(Path(str(report["file"])), str(report["reason"]))
        if kind and exact:
            raise (ProviderError if kind == "ProviderError" else SessionError)(str(report["reason"]))
        return read_copy(folder, _copy_of(folder, self._copies))

    def stop(self) -> None:
        """End the child now; `outcome` then raises. Any thread may call it."""
        self._stopped = True
        self._process.kill()

    def close(self) -> None:
        """Kill the child, and remove the copies. What has been loaded of them stays mapped."""
        self._process.kill()
        self._process.join()
        self._reports.close()
        shutil.rmtree(self._copies, ignore_errors=True)


def shared_copies() -> Path | None:
    """Return the folder in which workers share copies; None in a service of one process."""
    folder = Path(tempfile.gettempdir(), SHARED_COPIES)
    return folder if folder.is_dir() else None


def drop_shared_copies(kept: Iterable[Manifest]) -> None:
    """Remove the shared copies of files that none of these manifests lists. Who has loaded one keeps it."""
    hashes = {file.sha256 for manifest in kept for file in manifest.all_files()}
    if folder := shared_copies():
        for file in folder.iterdir():
            if file.name not in hashes:
                file.unlink(missing_ok=True)


def _copy_of(folder: Path, copies: Path) -> Path:
    return copies / folder.parent.name / folder.name


def _exit_words(code: int | None) -> str:
    if code == -signal.SIGKILL:  # one that took too long is killed too, but is reported before
        return "SIGKILL, which the system sends where memory is short; allow more of it, or serve fewer models"
    return signal.Signals(-code).name if code is not None and code < 0 else f"status {code}"


def _try_all(
    folders: Sequence[Path], copies: Path, shared: Path | None, settings: Settings, parent: int, connection: Connection
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    end_with_parent(parent)
    settings = settings.model_copy(update={"threads": THREADS})

    def report(folder: Path, said: dict[str, object]) -> None:
        connection.send_bytes(json.dumps({"folder": str(folder), **said}).encode())

    for folder in folders:

        def begin(step: str, folder: Path = folder) -> None:
            report(folder, {"step": step})

        report(folder, _try_one(folder, _copy_of(folder, copies), shared, settings, begin))


def _try_one(
    folder: Path, copy: Path, shared: Path | None, settings: Settings, begin: Callable[[str], None]
) -> dict[str, object]:
    """Return the report about an artifact: {} if it answers. `begin` is told each step after copying."""
    step = "be loaded"
    try:
        copy.mkdir(parents=True)
        _limit_memory(SPARE_BYTES)  # a manifest may be made to take any
        artifact = read_artifact(folder, copy, shared)
        _limit_memory(MEMORY_FACTOR * _bytes_of(artifact.manifest) + SPARE_BYTES)
        if (made := class_of(artifact.manifest)) is None:
            return {}  # loading refuses it
        begin("loading")
        served = made(artifact, "cpu", settings)
        step = "answer"
        begin("running")
        answer_sample(served)
    except NoRoomError as error:
        return {"kind": "NoRoomError", "file": str(error.file), "needed": error.needed}
    except ArtifactError as error:
        return {"kind": "ArtifactError", "file": str(error.file), "reason": error.reason}
    except (ProviderError, DeviceFull, MemoryError) as error:
        return {"kind": type(error).__name__, "reason": str(error) or "its memory is not enough"}
    except Exception as error:
        kind = "SessionError" if isinstance(error, SessionError) and step == "be loaded" else "ArtifactError"
        reason = str(error) if kind == "SessionError" else f"cannot {step}: {type(error).__name__}: {error}"
        return {"kind": kind, "file": str(folder / MANIFEST), "reason": reason}
    return {}


def _bytes_of(manifest: Manifest) -> int:
    """Return the bytes of an artifact's files, and of the maps of its longest input."""
    longest = max(rule.most_tokens for rule in manifest.inputs)
    if manifest.sound:
        longest = manifest.sound.frames
    maps = sum(4 * len(kind.maps) * kind.heads * max(kind.length, longest) ** 2 for kind in manifest.attention)
    return sum(file.bytes for file in manifest.all_files()) + maps


def _limit_memory(more_bytes: int) -> None:
    """Limit the address space of this process to what it has now and `more_bytes`, or as it is. Linux only."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    limit = min(pages * resource.getpagesize() + more_bytes, most)  # a manifest may name any sizes
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
