"""Answers are packed for clients that unpack them, and are the same."""

import gzip

import pytest
from starlette.requests import Request
from starlette.responses import Response

from service.http.codings import packed

CONTENT = b'{"models": []}' * 100


def answered(accepted):
    headers = [] if accepted is None else [(b"accept-encoding", accepted.encode())]
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": headers})
    return packed(request, Response(CONTENT, 201, media_type="application/json"))


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip;q=0.5"])
def test_an_answer_is_packed(accepted):
    answer = answered(accepted)
    assert len(answer.body) < len(CONTENT) / 5
    assert gzip.decompress(answer.body) == CONTENT
    assert answer.headers["content-length"] == str(len(answer.body))
    assert (answer.status_code, answer.media_type, answer.headers["content-encoding"]) == (
        201,
        "application/json",
        "gzip",
    )
    assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("accepted", [None, "", "br", "gzip;q=0"])
def test_an_answer_is_sent_as_it_is(accepted):
    answer = answered(accepted)
    assert (answer.body, answer.headers["vary"]) == (CONTENT, "Accept-Encoding")
    assert "content-encoding" not in answer.headers
