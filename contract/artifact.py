"""Reading artifacts: a folder `<root>/<name>/<version>/` is trusted only when every byte is what its manifest says.

A service loads a private copy, which holds the very bytes that were hashed. The weights that it serves are mapped
files: whoever changes a mapped file changes answers, and whoever truncates it ends the process (SIGBUS).
"""

import contextlib
import errno
import hashlib
import importlib.util
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from contract.manifest import File, Manifest

MANIFEST = "manifest.json"
MOST_MANIFEST_BYTES = 1 << 24
"""A manifest names every class and example: those of 20,000 classes take a megabyte."""
CHUNK_BYTES = 1 << 20


class ArtifactError(Exception):
    """An artifact cannot be used: which file, and why."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason


class NoRoomError(ArtifactError):
    """The folder for temporary files has no room for the copy of an artifact."""

    def __init__(self, folder: Path, needed: int) -> None:
        try:
            free = shutil.disk_usage(folder).free
        except OSError:
            free = 0
        self.needed = needed
        super().__init__(
            folder,
            f"must have room for {needed} bytes, {free} are free; set TMPDIR to a larger "
            "folder, or give this one more room (in a container: the size of /tmp)",
        )


@dataclass(frozen=True)
class Artifact:
    """A checked artifact: what its manifest says and where its files lie."""

    folder: Path
    manifest: Manifest
    copy: Path | None = None
    """The folder of its private copy, if there is one; it may be removed once everything is loaded."""

    def path(self, name: str) -> Path:
        """Return where a file of the artifact lies, for messages."""
        return self.folder / name

    def to_load(self, name: str) -> Path:
        """Return where a file is loaded from: the private copy if there is one."""
        return (self.copy or self.folder) / name


def sha256(file: Path) -> str:
    """Return the hash of a file's bytes in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def describe(file: Path) -> File:
    """Return a file's entry for a manifest."""
    return File(file=file.name, sha256=sha256(file), bytes=file.stat().st_size)


def read_artifact(folder: Path, copy: Path | None = None, shared: Path | None = None) -> Artifact:
    """Read a folder and check every file against the manifest.

    The bytes that are checked are written to the empty folder `copy`, if one is given, and the artifact is loaded from
    there. `shared` is a folder in which processes share copies: it holds files by their sha256, as hard links.

    Raises ArtifactError on the first file that is missing, altered, unlisted, unreadable or no regular file, and
    NoRoomError if the copy does not fit.
    """
    folder = folder.absolute()
    content = _read_manifest(folder / MANIFEST)
    manifest = _parse_manifest(folder / MANIFEST, content)
    if (folder.parent.name, folder.name) != (manifest.name, manifest.version):
        raise ArtifactError(
            folder / MANIFEST,
            f"says {manifest.name}/{manifest.version}, but lies in another folder; if it was copied there on purpose, "
            "write the folder's name and version into it",
        )
    listed = {file.file: file for file in manifest.all_files()}
    for path in _list(folder):
        if path.name != MANIFEST and path.name not in listed:
            raise ArtifactError(path, f"is not listed in {MANIFEST}")
    needed = sum(file.bytes for file in listed.values() if not (shared and (shared / file.sha256).exists()))
    if copy and shutil.disk_usage(copy).free < needed:
        raise NoRoomError(copy, needed)
    try:
        for name, file in listed.items():
            _check(folder / name, file, copy and copy / name, shared)
        if copy:
            (copy / MANIFEST).write_bytes(content)
    except OSError as error:  # errors of the artifact's own files are raised as ArtifactError
        if copy and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoRoomError(copy, needed) from error
        raise ArtifactError(copy or folder, f"cannot be written: {error.strerror}") from error
    return Artifact(folder, manifest, copy)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder, of which nothing else is checked. Raises ArtifactError."""
    return _parse_manifest(folder / MANIFEST, _read_manifest(folder / MANIFEST))


def read_copy(folder: Path, copy: Path) -> Artifact:
    """Return an artifact that `read_artifact` has checked and copied, in this process or in another."""
    return Artifact(folder.absolute(), _parse_manifest(folder / MANIFEST, _read_manifest(copy / MANIFEST)), copy)


def find_artifacts(root: Path) -> list[Path]:
    """Return the folder of the highest version of every artifact below root, sorted by name."""
    return [versions[-1] for versions in find_versions(root)]


def find_versions(root: Path) -> list[list[Path]]:
    """Return the absolute folders of all versions of every artifact below root, the highest last, sorted by name.

    Versions that are whole numbers compare as numbers and come after all others. Hidden folders, which an export that
    was cut off or a file server leaves behind, are neither artifacts nor versions, and `lost+found` is a file system's.
    Raises ArtifactError if there is none.
    """
    root = root.absolute()
    with _reading(root):
        return _find_versions(root)


def _find_versions(root: Path) -> list[list[Path]]:
    if not root.is_dir():
        raise ArtifactError(root, f"is no folder of artifacts; {_how_to_make(root)}")
    if (root / MANIFEST).exists():
        raise ArtifactError(root, f"is one version of an artifact; name the folder of all: {root.parent.parent}")
    found = [
        sorted(versions, key=lambda folder: _order(folder.name))
        for name in _folders(root)
        if name.name != "lost+found" and (versions := _folders(name))
    ]
    if not found:
        if list(root.glob(f"*/{MANIFEST}")):
            raise ArtifactError(root, f"holds the versions of one artifact; name the folder above it: {root.parent}")
        if (root / "config.json").exists():
            made = root.parent / "artifacts"
            raise ArtifactError(
                root, f"holds a checkpoint; export it, then name the folder {made}: {command_to_export(root, made)}"
            )
        raise ArtifactError(root, f"holds no artifact; {_how_to_make(root)}")
    return found


def again(file: Path) -> str:
    """Return the command that makes an artifact anew."""
    name, root = file.parent.parent.name, file.parent.parent.parent
    return f"make the artifact anew: {command_to_export(name, root)}"


def this_python() -> str:
    """Return the interpreter that runs this, as it is typed in the current folder."""
    python = Path(sys.executable)
    with contextlib.suppress(ValueError, OSError):  # it lies elsewhere, or the current folder is gone
        python = python.relative_to(Path.cwd())
    return shlex.quote(str(python))


def command_to_export(names: Path | str, root: Path) -> str:
    """Return the command that exports to a folder of artifacts, and where it runs, if it does not run here.

    Images of the service do not hold the exporter.
    """
    given = shlex.quote(str(names)) if isinstance(names, Path) else names
    if importlib.util.find_spec("export"):
        return f"{this_python()} -m export {given} --to {shlex.quote(str(root))}"
    return f"python -m export {given}" + (
        " (not in this image: use the one that the target export of the Dockerfile makes, or build the target "
        "with-models, which holds yours)"
    )


def _how_to_make(root: Path) -> str:
    return f"make them with: {command_to_export('digits dates', root)}"


def _unreadable(what: str, error: OSError) -> str:
    if not isinstance(error, PermissionError):
        return f"{what}: {error.strerror}"
    return f"{what}: {error.strerror}; the service runs as user {os.getuid()}: let it read with chmod -R a+rX"


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise ArtifactError(folder, _unreadable("cannot be listed", error)) from error


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder that are not hidden."""
    return [one for one in _list(folder) if one.is_dir() and not one.name.startswith(".")]


def _order(version: str) -> tuple[int, int, str]:
    return (1, int(version), "") if version.isdecimal() else (0, 0, version)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise what the system says of a file or folder in a block as ArtifactError."""
    try:
        yield
    except OSError as error:
        raise ArtifactError(path, _unreadable("cannot be read", error)) from error


def _read_manifest(file: Path) -> bytes:
    with _reading(file):
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer does not block
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ArtifactError(file, "must be a regular file")
            content = stream.read(MOST_MANIFEST_BYTES + 1)
    if len(content) > MOST_MANIFEST_BYTES:
        raise ArtifactError(file, f"must have at most {MOST_MANIFEST_BYTES} bytes, given more")
    return content


def _parse_manifest(file: Path, content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the document"
        remedy = f"; {again(file)}" if where == "schema_version" else ""
        raise ArtifactError(file, f"is no manifest of this version: {where}: {first['msg']}{remedy}") from error


def _check(path: Path, listed: File, copy: Path | None, shared: Path | None) -> None:
    """Check a file and copy what was checked. Raises ArtifactError, and OSError if the copy cannot be written."""
    with _reading(path):
        if path.is_symlink() or not path.is_file():
            raise ArtifactError(path, "is missing" if not path.exists() else "must be a regular file, not a link")
        if (size := path.stat().st_size) != listed.bytes:
            raise ArtifactError(path, f"must have {listed.bytes} bytes, given {size}")
    linked = False
    if copy and shared:
        with contextlib.suppress(OSError):  # nobody has copied it yet
            os.link(shared / listed.sha256, copy)
            linked = True
    if _hash(path, None if linked else copy, listed.bytes) != listed.sha256:
        raise ArtifactError(path, f"its sha256 differs from the manifest's; {again(path)}")
    if copy and shared and not linked:
        with contextlib.suppress(OSError):  # another process was first
            os.link(copy, shared / listed.sha256)


def _hash(path: Path, copy: Path | None, size: int) -> str:
    """Return the hash of the first `size` bytes of a file, and write these bytes to a new file, if one is given."""
    digest = hashlib.sha256()
    with _reading(path):
        stream = path.open("rb")
    with stream, copy.open("xb") if copy else contextlib.nullcontext() as written:
        while size:
            with _reading(path):
                chunk = stream.read(min(size, CHUNK_BYTES))
            if not chunk:
                break
            digest.update(chunk)
            if written:
                written.write(chunk)
            size -= len(chunk)
    return digest.hexdigest()
