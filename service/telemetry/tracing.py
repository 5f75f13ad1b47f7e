"""Traces: how long each stage of a request took. Unless a collector is named, nothing is recorded or imported."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.types import Scope


class TracedExchange(Protocol):
    """A request and its answer; `status` is that of the answer, once there is one."""

    id: str
    method: str
    status: int


class TracedItem(Protocol):
    """An item that waited for its batch: since when (monotonic), and the trace that it is a part of."""

    since: float
    context: Any


class Tracer(Protocol):
    """What records traces."""

    def request(self, scope: Scope, exchange: TracedExchange) -> contextlib.AbstractContextManager[None]:
        """Trace a block that answers a request, within the caller's trace if it sent one; log lines hold the trace's id."""

    def span(self, name: str, attributes: Mapping[str, str | int]) -> contextlib.AbstractContextManager[None]:
        """Trace a block as a part of the request that it belongs to."""

    def here(self) -> Any:  # noqa: ANN401 # of a package that may not be installed
        """Return the context in which a span that begins later, elsewhere, is a part of the present request."""

    def ran(self, lane: str, batch: Sequence[TracedItem], start: float, *, failed: bool) -> None:
        """Trace a batch that has just run, and that began at `start` (monotonic)."""

    def close(self) -> None:
        """Send what waits to be sent, for a few seconds at most."""


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
