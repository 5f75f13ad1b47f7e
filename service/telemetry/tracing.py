"""Traces: which stage of a request took how long. Without a collector to send them to, nothing is done or imported."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from starlette.types import Scope

from service.settings import Settings

if TYPE_CHECKING:
    from service.telemetry.otel_spans import Spans

NOTHING = contextlib.nullcontext()
_spans: "Spans | None" = None


class Exchange(Protocol):
    """A request as the edge sees it; `status` is that of its answer once it has one."""

    id: str
    method: str
    status: int


class Waiting(Protocol):
    """An item that waited for its batch."""

    since: float
    context: Any


def open_tracing(settings: Settings) -> None:
    """Send traces from now on, if settings say where to. Raises ImportError without the extra."""
    global _spans
    if settings.otlp_endpoint is None:
        return
    try:
        from service.telemetry.otel_spans import Spans
    except ImportError as error:
        raise ImportError(
            "REGARD_OTLP_ENDPOINT: sending traces needs its client: pip install regard[tracing]"
        ) from error
    _spans = Spans(settings.otlp_endpoint, settings.trace_ratio)


def close_tracing() -> None:
    """Send what has not been sent, for a few seconds at most."""
    global _spans
    if _spans is not None:
        _spans.close()
        _spans = None


def request(scope: Scope, exchange: Exchange) -> contextlib.AbstractContextManager[None]:
    """Trace a block that answers a request, within the caller's trace if it sent one; logs then hold the trace's id."""
    return _spans.request(scope, exchange) if _spans else NOTHING


def span(name: str, **attributes: str | int) -> contextlib.AbstractContextManager[None]:
    """Trace a block as a part of whatever request it belongs to."""
    return _spans.span(name, attributes) if _spans else NOTHING


def here() -> Any:  # noqa: ANN401 # of a package that may not be there
    """Return what a span that begins later, elsewhere, is a part of."""
    return _spans.here() if _spans else None


def ran(lane: str, batch: Sequence[Waiting], start: float, *, failed: bool) -> None:
    """Trace a batch that has just run: since when each item waited, and that it began at `start` (monotonic)."""
    if _spans:
        _spans.ran(lane, batch, start, failed=failed)
