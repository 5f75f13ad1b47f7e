"""HEAD is answered wherever GET is, with the headers of GET and no body."""

import pytest

from tests.samples.api_keys import bearer
from tests.samples.raw_http_server import LAST, running

PATHS = [
    "/", "/docs", "/openapi.json", "/v1/models", "/v1/models/digits", "/v1/models/digits/examples/0", "/metrics",
    "/health/live", "/health/ready",
]  # fmt: skip
OTHERWISE = {"date", "x-request-id"}


def headers(answer):
    return {name: value for name, value in answer.headers.items() if name not in OTHERWISE}


@pytest.mark.parametrize(
    "path", [*PATHS, "/v1/models/none", "/v1/attention/none", "/nothing", "/v1/models/digits/classify"]
)
def test_head_is_answered_as_get_is_without_a_body(client, path):
    for given in (bearer("a"), {}):
        get, head = client.get(path, headers=given), client.head(path, headers=given)
        assert head.status_code == get.status_code
        assert path == "/metrics" or headers(head) == headers(get)
        assert "content-length" in head.headers
        assert head.content == b""


def test_another_method_is_told_that_head_is_allowed(client):
    assert client.put("/v1/models", headers=bearer("a")).headers["allow"] == "GET, HEAD"


def test_the_log_and_the_metrics_tell_head_from_get(client):
    client.head("/v1/models", headers=bearer("a"))
    counted = client.get("/metrics", headers=bearer("m")).text
    assert 'regard_requests_total{method="HEAD",route="/v1/models",status="200"} 1.0' in counted


def test_no_byte_follows_the_head_of_an_answer():
    with running() as server:
        for path in (b"/x", b"/some", b"/pieces", b"//"):
            answer, _ = server.until_closed(LAST.replace(b"GET /x", b"HEAD " + path))
            assert answer.endswith(b"\r\n\r\n")
            assert answer.count(b"\r\n\r\n") == 1
