"""The tracer that sends spans to a collector with OpenTelemetry's client. It is imported only if it is used."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import structlog
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import Scope

from service import VERSION
from service.telemetry.tracing import TracedExchange, TracedItem

MOST_QUEUED_SPANS = 2048
"""Spans that may wait to be sent. If there are more, the oldest are dropped."""
MOST_TRACEPARENT_CHARACTERS = 256
"""The most characters of a `traceparent`, of which a trace's id takes 55. OpenTelemetry's client would log a warning
for a long one."""
SEND_SECONDS = 2
CLOSE_SECONDS = 3
UNTRACED_PATHS = ("/health", "/v2/health", "/metrics", "/admin")
TRACEPARENT = TraceContextTextMapPropagator()


class OtelTracer:
    """Makes spans and sends them to a collector in the background, without delaying requests."""

    def __init__(self, endpoint: str, ratio: float) -> None:
        some = TraceIdRatioBased(ratio)
        self._provider = TracerProvider(
            # A caller may exclude its request from tracing, but cannot make us trace more than our ratio.
            sampler=ParentBased(some, remote_parent_sampled=some, remote_parent_not_sampled=ALWAYS_OFF),
            resource=Resource.create({"service.name": "regard", "service.version": VERSION}),
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=SEND_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=MOST_QUEUED_SPANS))
        self._tracer = self._provider.get_tracer("regard", VERSION)

    def close(self) -> None:
        """Send the waiting spans, for at most CLOSE_SECONDS; the rest is lost."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    @contextlib.contextmanager
    def request(self, scope: Scope, exchange: TracedExchange) -> Iterator[None]:
        """Trace a request, unless a probe or an operator sent it.

        Of the headers and the body, only the ids of the trace and of the request are recorded.
        """
        if scope["path"].startswith(UNTRACED_PATHS):
            yield
            return
        given = Headers(scope=scope).get("traceparent", "")[:MOST_TRACEPARENT_CHARACTERS]
        parent = TRACEPARENT.extract({"traceparent": given}, context.Context())
        begun = self._tracer.start_span("request", parent, trace.SpanKind.SERVER)
        identity = trace.format_trace_id(begun.get_span_context().trace_id)
        with (
            trace.use_span(begun, end_on_exit=True, record_exception=False, set_status_on_exception=False),
            structlog.contextvars.bound_contextvars(trace_id=identity),
        ):
            try:
                yield
            finally:
                route = getattr(scope.get("route"), "path", "other")
                begun.update_name(f"{exchange.method} {route}")
                begun.set_attributes(
                    {
                        "http.request.method": exchange.method,
                        "http.route": route,
                        "http.response.status_code": exchange.status,
                        "regard.request": exchange.id,
                    }
                )
                # the model exists, so its name is not arbitrary text of the client
                if "model" in scope.get("path_params", {}) and 200 <= exchange.status < 400:
                    begun.set_attribute("regard.model", scope["path_params"]["model"])
                if exchange.status >= 500:
                    begun.set_status(trace.StatusCode.ERROR)

    @contextlib.contextmanager
    def span(self, name: str, attributes: Mapping[str, str | int]) -> Iterator[None]:
        """Trace a block as a part of its request. Exceptions are not recorded: they may hold what clients sent."""
        span_attributes = {f"regard.{key}": value for key, value in attributes.items()}
        with self._tracer.start_as_current_span(
            name, attributes=span_attributes, record_exception=False, set_status_on_exception=False
        ):
            yield

    def here(self) -> context.Context:
        """Return the current context."""
        return context.get_current()

    def ran(self, lane: str, batch: Sequence[TracedItem], start: float, *, failed: bool) -> None:
        """Record spans `queue` and `run` for each item, and one span `batch` that they are linked to.

        The span of the batch is a part of the first traced request, and linked to all of them.
        """
        ended = time.time_ns()
        epoch = ended - time.monotonic_ns()
        begun = epoch + int(start * 1e9)
        traced = [waiting for waiting in batch if trace.get_current_span(waiting.context).is_recording()]
        if not traced:
            return
        span_attributes: dict[str, str | int] = {"regard.lane": lane, "regard.batch_size": len(batch)}
        requests = [trace.Link(trace.get_current_span(waiting.context).get_span_context()) for waiting in traced]
        batch_span = self._tracer.start_span(
            "batch", traced[0].context, attributes=span_attributes, links=requests, start_time=begun
        )
        link = [trace.Link(batch_span.get_span_context())]
        for waiting in traced:
            since = epoch + int(waiting.since * 1e9)
            queue = self._tracer.start_span("queue", waiting.context, attributes=span_attributes, start_time=since)
            queue.end(begun)
            run = self._tracer.start_span(
                "run", waiting.context, attributes=span_attributes, links=link, start_time=begun
            )
            if failed:
                run.set_status(trace.StatusCode.ERROR)
            run.end(ended)
        if failed:
            batch_span.set_status(trace.StatusCode.ERROR)
        batch_span.end(ended)
