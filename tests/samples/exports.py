"""Exports that tests share: each is made once, by the process that needs it first, and kept for later runs."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parent.parent.parent
KEPT = ROOT / ".pytest_cache/d/exports"
"""Exports and traces of tests, until what they are made of changes; --cache-clear empties it."""

EXPORTER = ("contract", "export", "model")
"""What every export reads: code and weights."""

EXPORTED = {
    "dino": ["digits-dino"],
    "minilm": ["minilm"],
    "languages": ["dates-clm", "dates-mlm", "dates-tags", "dates-rank"],
    "captions-soft": ["captions-soft"],
    "scenes-detr": ["scenes-detr"],
    "scenes-clip": ["scenes-clip"],
    "photos": ["photos"],
    "graphs": ["graphs-graphormer", "graphs-gtn"],
}
"""Bundled models that the repository holds no artifacts of, by the folder of their artifacts."""


@functools.cache
def contents(*names):
    """Return a hash of files and of all files of folders, named from the repository's root; all must be there."""
    found = hashlib.sha256()
    for name in names:
        path = (ROOT / name).resolve(strict=True)
        files = [path] if path.is_file() else path.rglob("*")
        # where Python keeps its bytecode, files come and go
        for file in sorted(one for one in files if one.is_file() and "__pycache__" not in one.parts):
            found.update(f"{file.relative_to(ROOT)} {file.stat().st_size} ".encode() + file.read_bytes())
    return found.hexdigest()


@functools.cache
def packages():
    """Return a hash of Python and of the packages that are installed."""
    # setuptools, once imported, adds packages of its own to sys.path
    installed = importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])
    listed = sorted(f"{package.name} {package.version}" for package in installed)
    return hashlib.sha256("\n".join([sys.version, *listed]).encode()).hexdigest()


def once(name, make, *reads):
    """Return a folder that `make` fills, in one of the processes that tests run in, for all of them and for later runs.

    It is made anew after a change of the exporter, of a package, of the module of `make`, or of the files in `reads`.
    Nothing may write to it afterwards.
    """
    source = str(Path(make.__code__.co_filename).relative_to(ROOT))
    key = hashlib.sha256(f"{packages()} {contents(*EXPORTER, source, *reads)}".encode()).hexdigest()[:16]
    folder, made = KEPT / f"{name}-{key}", KEPT / f"{name}.made"
    KEPT.mkdir(parents=True, exist_ok=True)
    with FileLock(KEPT / f"{name}.lock"):
        if not folder.exists():
            for old in (made, *KEPT.glob(f"{name}-{'?' * len(key)}")):
                shutil.rmtree(old, ignore_errors=True)
            made.mkdir()
            make(made)
            made.rename(folder)
    return folder


def export(*arguments, traces_anew=False):
    """Return what makes artifacts by the command that users type; graphs that were traced before are not traced anew.

    The command runs in this process, which imports what it needs once.
    """

    def make(folder):
        from tests.samples.export_command import export_command
        from tests.samples.traces import traces_kept

        kept = contextlib.nullcontext() if traces_anew else traces_kept()
        with kept, tempfile.TemporaryFile() as file:
            with written_to(file):
                status = export_command(*arguments, "--to", folder)
            said = os.pread(file.fileno(), 1 << 20, 0).decode()
        assert status == 0, f"{arguments}: was not exported; {said}"
        assert "[W:onnxruntime" not in said

    return make


@contextlib.contextmanager
def written_to(file):
    """Let all that is written to stderr in the block, also by C++, go to a file."""
    before = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def exported(name):
    """Return a folder of EXPORTED, with artifacts that are made once."""
    return once(name, export(*EXPORTED[name]), "tests/samples/export_command.py")
