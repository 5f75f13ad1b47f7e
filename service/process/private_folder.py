"""The folder of a running service for its temporary files: private copies of artifacts, and what workers share."""

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import structlog

PREFIX = "regard-service-"
log = structlog.get_logger()


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder that nobody else may enter, and remove it at the end.

    Folders of services that were killed are removed first: they may be as large as their models, and a container that
    is started again finds them in its folder. A service holds a lock on its own, which ends with the process; workers
    that outlive a supervisor that was killed may lose it while they drain.
    Raises OSError if there is no folder for temporary files (TMPDIR).
    """
    named = os.environ.get("TMPDIR")
    if named and not Path(tempfile.gettempdir()).samefile(named):  # Python takes another without a word
        raise FileNotFoundError(errno.ENOENT, "TMPDIR names a folder that is not there or cannot be written to")
    _remove_abandoned()
    with contextlib.ExitStack() as held:
        folder = _new_folder(held)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def cannot_write(error: OSError) -> int:
    """Log that there is no folder for temporary files; return the exit status."""
    log.error(
        "a folder for temporary files is needed, see TMPDIR",
        reason=error.strerror,
        do="in a container whose root is read-only, mount one at /tmp (--tmpfs /tmp, or an emptyDir)",
    )
    return 2


def _new_folder(held: contextlib.ExitStack) -> Path:
    """Return a new folder, whose lock is held until the stack is closed."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another service has taken it for abandoned, as below
            continue
        if _lock(descriptor) and folder.exists():
            held.callback(os.close, descriptor)
            return folder
        os.close(descriptor)


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:  # somebody else's, or removed meanwhile
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            held.callback(os.close, descriptor)
            if os.fstat(descriptor).st_uid == os.getuid() and _lock(descriptor):
                shutil.rmtree(folder, ignore_errors=True)


def _lock(descriptor: int) -> bool:
    """Lock an open folder. Return whether nobody else holds its lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
