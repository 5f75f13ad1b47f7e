"""Tracing: how long each stage of a request took. Without a collector, nothing is recorded or imported."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.types import Scope


class TracedExchange(Protocol):
    """A request and its answer. `status` is the HTTP status of the answer, once there is one."""

    id: str
    method: str
    status: int


class TracedItem(Protocol):
    """An item of a batch: when it began to wait (monotonic), and the tracing context of its request."""

    since: float
    context: Any


class Tracer(Protocol):
    """Records spans: how long parts of a request took."""

    def request(self, scope: Scope, exchange: TracedExchange) -> contextlib.AbstractContextManager[None]:
        """Trace a block that answers a request, as a part of the caller's trace if it sent one.

        Log lines of the block hold the id of the trace.
        """

    def span(self, name: str, attributes: Mapping[str, str | int]) -> contextlib.AbstractContextManager[None]:
        """Trace a block as a part of its request."""

    def here(self) -> Any:  # noqa: ANN401 # of a package that may not be installed
        """Return the current context, so that a span that begins later, elsewhere, can be a part of this request."""

    def ran(self, lane: str, batch: Sequence[TracedItem], start: float, *, failed: bool) -> None:
        """Trace a batch whose run began at `start` (monotonic) and has just ended."""

    def close(self) -> None:
        """Send the waiting spans, for a few seconds at most."""


class Silent:
    """A tracer that records nothing."""

    def request(self, scope: Scope, exchange: TracedExchange) -> contextlib.AbstractContextManager[None]:
        """Trace nothing."""
        return NO_SPAN

    def span(self, name: str, attributes: Mapping[str, str | int]) -> contextlib.AbstractContextManager[None]:
        """Trace nothing."""
        return NO_SPAN

    def here(self) -> None:
        """Return no context."""

    def ran(self, lane: str, batch: Sequence[TracedItem], start: float, *, failed: bool) -> None:
        """Trace nothing."""

    def close(self) -> None:
        """Send nothing."""


NO_SPAN: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
SILENT = Silent()
