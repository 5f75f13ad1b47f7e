"""Logs on standard output: one JSON object per line, or lines for people on a terminal."""

import contextlib
import logging
import sys

import orjson
import structlog

from service.settings import Settings

TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)  # local variables hold what clients sent
)


class StandardOutput:
    """Standard output, looked up for each line. If it cannot be written to, the line is lost; nothing fails."""

    def write(self, text: str) -> None:
        """Write a text."""
        with contextlib.suppress(OSError):
            sys.stdout.write(text)

    def flush(self) -> None:
        """Flush what was written."""
        with contextlib.suppress(OSError):
            sys.stdout.flush()


def configure(settings: Settings) -> None:
    """Send structlog's events, and warnings of other libraries, to standard output in the format of the settings."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = (
        [TRACEBACKS, structlog.processors.JSONRenderer(serializer=_to_json)]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stdout.isatty(),
                exception_formatter=structlog.dev.plain_traceback,  # the coloured one shows local variables
            )
        ]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(StandardOutput()),  # type: ignore[arg-type] # it has the methods that are called
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(StandardOutput())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[_remove_logging_metadata, *last])
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))


def _remove_logging_metadata(
    logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
) -> structlog.typing.ProcessorReturnValue:
    return structlog.stdlib.ProcessorFormatter.remove_processors_meta(logger, name, event)


def _to_json(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()
