"""The limit of open files: a process that reaches it accepts no connection, on no port, that of probes included."""

import contextlib

import structlog

from service.process.sockets import PORTS, PROBE_CONNECTIONS
from service.settings import Settings

OWN_FILES = 240
"""What a process may open beside connections: models, decoders, the log, copies of the socket that listens, and
connections that read their refusal."""
log = structlog.get_logger()


def allow_open_files(settings: Settings, *, warns: bool) -> None:
    """Raise the soft limit of open files to what the connections of this process need, or as far as the hard limit.

    If that is too little, log a warning where `warns` asks for it.
    """
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    needed, none = files_needed(settings), resource.RLIM_INFINITY
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == none or soft >= needed:
        return
    with contextlib.suppress(OSError, ValueError):  # macOS may allow less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed if hard == none else min(hard, needed), hard))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if warns and allowed < needed:
        log.warning(
            "open files may be too few",
            limit=allowed,
            needed=needed,
            do="raise the hard limit of open files (ulimit -Hn, docker run --ulimit nofile), or lower "
            "REGARD_MAX_CONNECTIONS; where they are not enough, no port answers, not even probes",
        )


def files_needed(settings: Settings) -> int:
    """Return how many files a process may open, at most, if all of its ports are full."""
    ports = [name for name in PORTS if getattr(settings, name) is not None]
    return OWN_FILES + sum(PROBE_CONNECTIONS if name == "probe_port" else settings.max_connections for name in ports)
