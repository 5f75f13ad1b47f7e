"""Logs on standard output: one JSON object per line, or lines for people on a terminal."""

import json
import logging
import os
from typing import Any

import orjson
import structlog

from service.settings import Settings
from service.telemetry.log_output import STANDARD_ERROR, STANDARD_OUTPUT, LogOutput, never_block

TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)  # local variables hold what clients sent
)


OUTPUT = LogOutput(STANDARD_OUTPUT)
"""Standard output of this process. Whoever serves or supervises flushes it now and then, and closes it at the end."""


def configure(settings: Settings) -> None:
    """Send structlog's events, and warnings of other libraries, to standard output in the format of the settings.

    From then on neither standard output nor standard error blocks.
    """
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    of_any_line: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    shared = [structlog.contextvars.merge_contextvars, *of_any_line]
    last: list[structlog.typing.Processor] = (
        [TRACEBACKS, structlog.processors.JSONRenderer(serializer=_to_json)]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=os.isatty(STANDARD_OUTPUT),
                exception_formatter=structlog.dev.plain_traceback,  # the coloured one shows local variables
            )
        ]
    )
    never_block(STANDARD_OUTPUT)
    never_block(STANDARD_ERROR)

    def describe_dropped(count: int) -> str:
        line: Any = {"event": "log lines were dropped, nobody read them", "count": count}
        for process in (*of_any_line, *last):
            line = process(None, "warning", line)
        return f"{line}\n"

    OUTPUT.describe_dropped = describe_dropped
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(OUTPUT),  # type: ignore[arg-type] # it has the methods that are called
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(OUTPUT)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[_remove_logging_metadata, *last])
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))
    logging.captureWarnings(capture=True)


def _remove_logging_metadata(
    logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
) -> structlog.typing.ProcessorReturnValue:
    return structlog.stdlib.ProcessorFormatter.remove_processors_meta(logger, name, event)


def _to_json(event: object, **_: object) -> str:
    try:
        return orjson.dumps(event, default=str).decode()
    except TypeError:  # a name of a file that is no UTF-8, which orjson does not escape
        return json.dumps(event, default=str)
