"""The rules of the request log. tests/end_to_end/test_http_interface.py tests what it writes and counts."""

import asyncio
import secrets

import pytest
import structlog

from service.http.request_log import REQUEST_ID, RequestLog
from service.store.stored_request import ID_PATTERN
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import SILENT


def test_an_id_that_the_service_makes_is_one_that_the_store_takes():
    made = secrets.token_hex(16)
    assert REQUEST_ID.fullmatch(made)
    assert ID_PATTERN.fullmatch(made)


@pytest.mark.anyio
@pytest.mark.parametrize("begun", [False, True])
async def test_a_request_that_is_given_up_as_the_service_stops_has_an_answer_and_a_line(begun):
    """The server answered it itself, with 500 and without an id."""
    sent = []

    async def send(message):
        sent.append(message)

    async def application(scope, receive, send):
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(60)

    layer = RequestLog(application, Metrics(), SILENT, lambda: True, lambda method, path: None)
    with structlog.testing.capture_logs() as logged:
        scope = {"type": "http", "method": "GET", "path": "/x", "headers": []}
        task = asyncio.create_task(layer(scope, None, send))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() == begun, "what has begun is broken off"
    assert [message["status"] for message in sent if "status" in message] == [200 if begun else 503]
    assert [line["status"] for line in logged if line["event"] == "request"] == [200 if begun else 503]
