"""What was refused for lack of room a moment ago is refused unread."""

import asyncio
import time

import pytest
from starlette.datastructures import Headers

from service.errors import Busy
from service.http import repeated_requests
from service.http.api_keys import Keys
from service.http.gate import Gate
from service.http.problems import refused
from service.http.repeated_requests import RepeatedRequests
from service.settings import Settings

pytestmark = pytest.mark.anyio
ASKED = {"method": "POST", "path": "/v1/models/x", "query_string": b""}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(repeated_requests, "HELD_SECONDS", 0)


async def known(repeated, client="a", path="/v1/models/x", query=b"", length="10"):
    headers = Headers({"content-length": length} if length else {})
    try:
        await repeated.check(client, {"method": "POST", "path": path, "query_string": query}, headers)
    except Busy as refusal:
        return (refusal.detail, refusal.headers["Retry-After"])
    return None


async def test_the_same_request_is_refused_for_a_second(monkeypatch):
    repeated, now = RepeatedRequests(), time.monotonic()
    assert not await known(repeated)
    headers = Headers({"content-length": "10"})
    repeated.note("a", ASKED, headers, Busy("queue: full", 30))
    assert await known(repeated) == ("queue: full", "1")
    for other in ({"client": "b"}, {"path": "/v1/models/y"}, {"query": b"top_k=1"}, {"length": "11"}, {"length": ""}):
        assert not await known(repeated, **other)
    monkeypatch.setattr(time, "monotonic", lambda: now + 1.1)
    assert not await known(repeated)


async def test_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(repeated_requests, "MOST", 10)
    repeated, now = RepeatedRequests(), time.monotonic()
    for number in range(100):
        scope = {"method": "POST", "path": f"/v1/models/{number}", "query_string": b""}
        repeated.note("a", scope, Headers({"content-length": "1"}), Busy("queue: full", 1))
    assert len(repeated._refused) == 10
    monkeypatch.setattr(time, "monotonic", lambda: now + 2)
    repeated.note(
        "a",
        ASKED,
        Headers({"content-length": "1"}),
        Busy("queue: full", 1),
    )
    assert len(repeated._refused) == 1


async def test_what_its_head_does_not_tell_from_others_is_judged_each_time():
    repeated = RepeatedRequests()
    for path, headers in (
        ("/v1/models/x", {"transfer-encoding": "chunked"}),
        ("/v1/completions", {"content-length": "1"}),
    ):
        scope = {"method": "POST", "path": path, "query_string": b""}
        repeated.note("a", scope, Headers(headers), Busy("queue: full", 1))
        await repeated.check("a", scope, Headers(headers))


async def test_one_that_asks_again_at_once_is_answered_without_its_body_and_a_little_later(monkeypatch):
    monkeypatch.setattr(repeated_requests, "HELD_SECONDS", 0.02)
    reached, statuses = [], []

    async def app(scope, receive, send):
        reached.append(scope["method"])
        await refused(Busy("queue: full", 3), scope)(scope, receive, send)

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append((message["status"], dict(message["headers"])[b"retry-after"]))

    settings = Settings()
    gate = Gate(app, settings, Keys(settings))
    for method in ("POST", "POST", "GET", "GET"):
        scope = {
            "type": "http", "method": method, "path": "/v1/models/x", "client": ("192.0.2.7", 80), "query_string": b"",
            "headers": [(b"host", b"x"), (b"content-length", b"5")],
        }  # fmt: skip
        begun = time.monotonic()
        await asyncio.create_task(gate(scope, None, send))
    assert reached == ["POST", "GET", "GET"]
    assert statuses == [(429, b"3"), (429, b"1"), (429, b"3"), (429, b"3")]
    assert time.monotonic() - begun < 0.02
