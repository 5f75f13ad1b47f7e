"""The memory that a container allows: too little ends a process without a word, so it is said before."""

import contextlib
from pathlib import Path

import structlog

LEAST_BYTES = 256 << 20
"""The service with its decoders and two small models takes 170 MiB, and a little more while it starts."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where Linux says what the control group of this process may take, with version 2 and 1."""
log = structlog.get_logger()


def warn_of_little_memory() -> None:
    """Log a warning if the control group allows less than the service needs."""
    for file in LIMITS:
        with contextlib.suppress(OSError, ValueError):  # there is none, or `max`
            if (limit := int(file.read_text())) < LEAST_BYTES:
                log.warning(
                    "memory may be too little",
                    mebibytes=limit >> 20,
                    least=LEAST_BYTES >> 20,
                    do="allow the container more; where it is not enough, the system ends it with status 137",
                )
                return
