"""Logs: one JSON object a line on standard output, or lines for people on a terminal."""

import contextlib
import logging
import sys

import orjson
import structlog

from service.settings import Settings

TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)  # locals hold what clients sent
)


class Output:
    """Standard output as it is when a line is written; where it takes no more, a line is lost and nothing else is."""

    def write(self, text: str) -> None:
        """Write a text."""
        with contextlib.suppress(OSError):
            sys.stdout.write(text)

    def flush(self) -> None:
        """Pass on what was written."""
        with contextlib.suppress(OSError):
            sys.stdout.flush()


def configure(settings: Settings) -> None:
    """Send structlog's events, and the warnings of other libraries, to standard output in the format asked for."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = (
        [TRACEBACKS, structlog.processors.JSONRenderer(serializer=_dump)]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stdout.isatty(),
                exception_formatter=structlog.dev.plain_traceback,  # the one that colours shows locals
            )
        ]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(Output()),  # type: ignore[arg-type] # what it calls is there
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(Output())
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[_unwrap, *last]))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))


def _unwrap(
    logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
) -> structlog.typing.ProcessorReturnValue:
    return structlog.stdlib.ProcessorFormatter.remove_processors_meta(logger, name, event)


def _dump(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()
