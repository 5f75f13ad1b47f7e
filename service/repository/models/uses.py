"""How many requests a model is answering, so that one that was replaced ends after its last answer."""

import asyncio
import contextlib
from collections.abc import Iterator


class Uses:
    """Counts the requests that are being answered."""

    def __init__(self) -> None:
        self._count = 0
        self.idle = asyncio.Event()
        """Set while none is being answered."""
        self.idle.set()

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Count a request until it is answered."""
        self._count += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self.idle.set()
