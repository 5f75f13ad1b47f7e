"""Parsing of requests: JSON of images as clients write it, and the choice of an answer's format."""

import asyncio
import base64
import json
import os

import pytest
from starlette.requests import Request

from service.api.reading.request_parsing import negotiate, read_files
from service.errors import Malformed, NotAcceptable, Refusal, TooLarge, Unacceptable
from service.inputs import encoded_files
from service.settings import Settings

IMAGE = os.urandom(3000)


def read(body, content_type="application/json", **settings):
    """Read a request for an image model, in pieces of 1,000 bytes."""
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)]

    async def receive():
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    headers = [(b"content-type", content_type.encode("latin-1"))]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    return asyncio.run(read_files(encoded_files.IMAGE, Request(scope, receive), Settings(**settings)))


@pytest.mark.parametrize(
    ("character", "escaped"), [("+", "\\u002B"), ("+", "\\u002b"), ("/", "\\/"), ("=", "\\u003d"), ("A", "\\u0041")]
)
def test_base64_may_be_escaped_as_other_languages_do(character, escaped):
    """.NET writes a plus sign as an escape, PHP a slash."""
    text = base64.b64encode(IMAGE[:-1]).decode().replace(character, escaped)
    parsed = read(b'{"images": ["' + text.encode() + b'"], "top_k": 2}', max_text_bytes=10)
    assert (parsed.inputs, parsed.given) == ([IMAGE[:-1]], {"top_k": 2})


@pytest.mark.parametrize("characters", [4, 8, 1000, 4000])
def test_base64_is_decoded_in_pieces(monkeypatch, characters):
    monkeypatch.setattr(encoded_files, "PIECE_CHARACTERS", characters)
    for size in (1, 2, 3, 5, 6, 2999, 3000):
        image = IMAGE[:size]
        assert read(json.dumps({"images": [base64.b64encode(image).decode()]}).encode()).inputs == [image]
    for text in (
        "AA==AAAA",
        "AAAAA",
        "AAA=AAA=",
        "AA=A",
        "=AAA",
        "data:image/png,AAAA",
        "data:image/svg+xml;utf8,<svg>",
        "base64,AAAA",
        "AAAAdata:image/png;base64,AAAA",
        "https://example.com/cat.png",
        "A",
        "AAAA.",
        "é",
        "AAAA" * 30 + "A",
    ):
        with pytest.raises(Malformed, match="images: each must be base64 or a data: URL of it; addr"):
            read(json.dumps({"images": [text]}).encode())
        with pytest.raises(Malformed) as refused:
            read(json.dumps({"images": ["AAAA", text, "AAAA"]}).encode())
        assert refused.value.detail.endswith("are not fetched (input 2 of 3)")


@pytest.mark.parametrize("characters", [1, 4, 77, 4000])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 57, 58, 2999])
def test_base64_may_be_wrapped_unpadded_url_safe_and_a_data_url(monkeypatch, characters, size):
    monkeypatch.setattr(encoded_files, "PIECE_CHARACTERS", characters)
    image = IMAGE[:size]
    plain = base64.b64encode(image).decode()
    lines = base64.encodebytes(image).decode()  # of 76 characters (RFC 2045, section 6.8)
    for text in (
        plain,
        lines,
        lines.replace("\n", "\r\n"),
        "\t" + plain[:1] + " " + plain[1:] + " \f",
        plain.rstrip("="),
        base64.urlsafe_b64encode(image).decode(),
        base64.urlsafe_b64encode(image).decode().rstrip("="),
    ):
        for head in ("", "data:image/png;base64,", "DATA:;base64,", "\ndata:image/jpeg;name=a.jpg;Base64,"):
            given = json.dumps({"images": [head + text]}).encode()
            assert read(given, max_image_bytes=size).inputs == [image]
            if size > 1:
                with pytest.raises(TooLarge, match=f"image: at most {size - 1} bytes, given {size}"):
                    read(given, max_image_bytes=size - 1)


def test_images_are_counted_and_measured_before_any_is_decoded(monkeypatch):
    monkeypatch.setattr(encoded_files, "_decode_base64", None)
    with pytest.raises(Unacceptable, match="images: must be 1 to 32, given 33"):
        read(json.dumps({"images": ["AAAA"] * 33}).encode())
    with pytest.raises(TooLarge) as refused:
        read(json.dumps({"images": ["AAAA", "AAAAAAAA"]}).encode(), max_image_bytes=4)
    assert refused.value.detail == "image: at most 4 bytes, given 6 (input 2 of 2)"
    with pytest.raises(Malformed, match="image: must hold at least one byte, given none"):
        read(json.dumps({"images": ["AAAA", ""]}).encode())


@pytest.mark.parametrize(
    "kind", ["image/png", "image/png; a", 'image/png; x="' + ";" * 9000, "IMAGE/PNG;", "image/png;*=*"]
)
def test_the_parameters_of_an_image_do_not_matter(kind):
    assert read(IMAGE, kind).inputs == [IMAGE]


@pytest.mark.parametrize("body", [b'{"images": ["\xff"]}', b"\xff", b'{"images": ["' + "é".encode("utf-16") + b'"]}'])
@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data; boundary=x", "multipart/form-data; boundary=\xe9"]
)
def test_what_is_not_utf_8_is_the_fault_of_the_client(body, kind):
    with pytest.raises(Refusal):
        read(body, kind)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ([], "json"),
        (["*/*"], "json"),
        (["image/png"], "png"),
        (["text/html, application/x-npz;q=0.5, image/*;q=0.7"], "png"),
        (["image/*;q=.2", "application/x-npz; q=.3"], "npz"),
        (["*/*, application/json;q=0"], "npz"),
        (["image/png;q=nan, application/json;q=0.1"], "json"),
        (["image/png;q=1e9, application/json;q=0.1"], "json"),
        (["image/png; level=1; Q=0.2 , application/x-npz;q=0.1"], "png"),
    ],
)
def test_the_format_that_is_accepted_best_is_chosen(accept, form):
    assert negotiate(accept) == form


@pytest.mark.parametrize("accept", ["text/csv", "image/png;q=0", "*", "image/png;q=", "a," * 8000])
def test_an_accept_header_that_admits_no_format_is_refused(accept):
    with pytest.raises(NotAcceptable, match="Accept: must admit one of application/json, application/x-npz, image/png"):
        negotiate([accept])
