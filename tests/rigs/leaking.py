"""`python -m service` with a leak: every request leaves some bytes behind, so that the rig can be seen to find them."""

import os
import sys
from typing import Any

from service import __main__ as service
from service.http.request_log import RequestLog

BYTES = int(os.environ.pop("LEAKED_BYTES", "1024"))


def leak() -> None:
    """Let the outermost layer keep something of every request."""
    left: list[bytes] = []
    serve = RequestLog.__call__

    async def leaking(log: RequestLog, *message: Any) -> None:
        left.append(b"x" * BYTES)
        await serve(log, *message)

    RequestLog.__call__ = leaking  # type: ignore[method-assign] # that is the point


if __name__ == "__main__":
    leak()
    sys.exit(service.main())
