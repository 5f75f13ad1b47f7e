"""`python -m service` whose batches take a known time: each is run, then its thread sleeps for the rest of it.

Two replicas then answer as they would on cores of their own, on a machine that has none to spare.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from service import __main__ as service
from service.batching.batcher import Lane

FIRST, EACH = 0.1, 0.08
"""The seconds of a batch of one, and of every further item."""


def pace() -> None:
    """Let every batch of every lane take its time."""
    begin = Lane.__init__

    def paced(
        lane: Lane[Any, Any], name: str, device: object, run: Callable[[Sequence[Any]], Sequence[Any]], *rest: Any
    ) -> None:
        def slow(items: Sequence[Any]) -> Sequence[Any]:
            end = time.monotonic() + FIRST + (len(items) - 1) * EACH
            results = run(items)
            time.sleep(max(end - time.monotonic(), 0))
            return results

        begin(lane, name, device, slow, *rest)  # type: ignore[arg-type]

    Lane.__init__ = paced  # type: ignore[method-assign] # that is the point


if __name__ == "__main__":
    pace()
    sys.exit(service.main())
