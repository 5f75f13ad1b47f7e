"""Telemetry: logs, metrics and traces."""

from service.settings import Settings, SettingsError
from service.telemetry.tracing import SILENT, Tracer


def open_tracer(settings: Settings) -> Tracer:
    """Return a tracer that sends spans to the collector of the settings; without one, a tracer that records nothing.

    The former starts a thread. Raises SettingsError if the client of a collector is not installed.
    """
    if settings.otlp_endpoint is None:
        return SILENT
    try:
        from service.telemetry.otel_tracer import OtelTracer
    except ImportError as error:
        raise SettingsError(
            "REGARD_OTLP_ENDPOINT: sending traces needs its client: pip install --editable '.[tracing]'"
        ) from error
    return OtelTracer(settings.otlp_endpoint, settings.trace_ratio)
