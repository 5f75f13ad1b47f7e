"""Logs, metrics and traces."""

from service.settings import Settings
from service.telemetry.tracing import SILENT, Tracer


def open_tracer(settings: Settings) -> Tracer:
    """Return what sends traces to the collector of the settings; without one, it sends nothing.

    It starts a thread. Raises ImportError if a collector is named and its client is not installed.
    """
    if settings.otlp_endpoint is None:
        return SILENT
    try:
        from service.telemetry.otel_tracer import OtelTracer
    except ImportError as error:
        raise ImportError(
            "REGARD_OTLP_ENDPOINT: sending traces needs its client: pip install regard[tracing]"
        ) from error
    return OtelTracer(settings.otlp_endpoint, settings.trace_ratio)
