"""Reading artifacts: a folder `<root>/<name>/<version>/` is trusted only when every byte is what its manifest says."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from contract.manifest import File, Manifest

MANIFEST = "manifest.json"


class ArtifactError(Exception):
    """An artifact cannot be used: which file, and why."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason


@dataclass(frozen=True)
class Artifact:
    """A checked artifact: what its manifest says and where its files lie."""

    folder: Path
    manifest: Manifest

    def path(self, name: str) -> Path:
        """Return where a file of the artifact lies."""
        return self.folder / name


def sha256(file: Path) -> str:
    """Return the hash of a file's bytes in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def describe(file: Path) -> File:
    """Return a file's entry for a manifest."""
    return File(file=file.name, sha256=sha256(file), bytes=file.stat().st_size)


def read_artifact(folder: Path) -> Artifact:
    """Read a folder and check every file against the manifest.

    Raises ArtifactError on the first file that is missing, altered, unlisted, unreadable or no regular file.
    """
    folder = folder.absolute()
    manifest = _read_manifest(folder / MANIFEST)
    if (folder.parent.name, folder.name) != (manifest.name, manifest.version):
        raise ArtifactError(folder / MANIFEST, f"says {manifest.name}/{manifest.version}, but lies in another folder")
    listed = {file.file: file for file in manifest.all_files()}
    for path in _list(folder):
        if path.name != MANIFEST and path.name not in listed:
            raise ArtifactError(path, f"is not listed in {MANIFEST}")
    for name, file in listed.items():
        _check(folder / name, file)
    return Artifact(folder, manifest)


def find_artifacts(root: Path) -> list[Path]:
    """Return the folder of the highest version of every artifact below root, sorted by name.

    Versions that are whole numbers compare as numbers and come after all others. Hidden folders, which an export that
    was cut off leaves behind, are no versions.
    """
    if not root.is_dir():
        raise ArtifactError(root, "is no folder of artifacts; make them with: python -m export digits dates")
    found = [
        max(versions, key=lambda folder: _order(folder.name))
        for name in _list(root)
        if name.is_dir() and (versions := [one for one in _list(name) if one.is_dir() and not one.name.startswith(".")])
    ]
    if not found:
        raise ArtifactError(root, "holds no artifact; make one with: python -m export digits dates")
    return found


def again(file: Path) -> str:
    """Return the command that makes an artifact anew."""
    name, root = file.parent.parent.name, file.parent.parent.parent
    return f"make the artifact anew: python -m export {name} --to {root}"


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise ArtifactError(folder, f"cannot be listed: {error.strerror}") from error


def _order(version: str) -> tuple[int, int, str]:
    return (1, int(version), "") if version.isdecimal() else (0, 0, version)


def _read_manifest(file: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ArtifactError(file, f"cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the document"
        raise ArtifactError(file, f"is no manifest of this version: {where}: {first['msg']}") from error


def _check(path: Path, listed: File) -> None:
    if path.is_symlink() or not path.is_file():
        raise ArtifactError(path, "is missing" if not path.exists() else "must be a regular file, not a link")
    if (size := path.stat().st_size) != listed.bytes:
        raise ArtifactError(path, f"must have {listed.bytes} bytes, given {size}")
    try:
        found = sha256(path)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}") from error
    if found != listed.sha256:
        raise ArtifactError(path, f"its sha256 differs from the manifest's; {again(path)}")
