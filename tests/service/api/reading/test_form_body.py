"""Forms: what clients send is read whatever pieces it arrives in, and what is not well-formed is refused."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.reading.form_body import FormBody
from service.errors import Malformed

FIELD = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'


def read(body, boundary="x", most_parts=8, step=None):
    form = FormBody(boundary, most_parts)
    step = step or max(1, len(body))
    for start in range(0, len(body), step):
        form.add(body[start : start + step])
    return [(part.name, part.is_file, bytes(part.content)) for part in form.parts()]


@given(
    st.lists(st.binary(max_size=40) | st.text("\r\n-x", max_size=12).map(str.encode), min_size=1, max_size=4),
    st.integers(1, 50),
)
def test_what_a_client_sends_arrives_in_whatever_pieces(contents, step):
    files = [("image", ("é \"'; name=b.png", content)) for content in contents]
    request = httpx.Request("POST", "http://a", files=files, data={"top_k": "2"})
    boundary = request.headers["content-type"].partition("boundary=")[2]
    found = read(request.read(), boundary, step=step)
    assert found == [("top_k", False, b"2"), *[("image", True, content) for content in contents]]


@pytest.mark.parametrize("step", [1, 3, None])
@pytest.mark.parametrize(
    ("body", "found"),
    [
        (FIELD + b"1\r\n--x--", [("a", False, b"1")]),
        (b"\r\n" + FIELD + b"\r\n--x--\r\n", [("a", False, b"")]),
        (FIELD.replace(b"--x", b"--x \t") + b"1\r\n--x--\r\nan epilogue\r\n--x\r\n", [("a", False, b"1")]),
        (FIELD.replace(b"Content-D", b"X: y\r\ncontent-d") + b"1\r\n--x--", [("a", False, b"1")]),
        (FILE + b"\r\n--\r\n--y--\r\n-\r\n\r\n--x--", [("image", True, b"\r\n--\r\n--y--\r\n-\r\n")]),
        (FILE.replace(b'filename="a"', b"filename*=UTF-8''a") + b"1\r\n--x--", [("image", True, b"1")]),
        (b"--x--\r\n", []),
    ],
)
def test_forms_as_the_standard_allows_them_are_read(body, found, step):
    assert read(body, step=step) == found


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x",
        b"a preamble\r\n" + FIELD + b"1\r\n--x--",
        FIELD + b"1",
        FIELD + b"1\r\n--x",
        FIELD + b"1\r\n--x-",
        FIELD + b"1\r\n--xy\r\n\r\n--x--",
        FIELD + b"1\r\n--x\r\n--x--",
        b"--x\r\n\r\n1\r\n--x--",
        b"--x\r\nContent-Type: text/plain\r\n\r\n1\r\n--x--",
        FIELD.replace(b"form-data", b"attachment") + b"1\r\n--x--",
        FIELD.replace(b'"a"', b'"a') + b"1\r\n--x--",
        FIELD.replace(b"name", b"nom") + b"1\r\n--x--",
        FIELD.replace(b"--x\r\n", b"--x\r\nX: " + b"y" * 9000 + b"\r\n") + b"1\r\n--x--",
        FIELD.replace(b"--x", b"--x" + b" " * 100) + b"1\r\n--x--",
        FIELD.replace(b"\r\n", b"\n") + b"1\n--x--",
    ],
)
def test_a_form_that_is_not_well_formed_is_refused(body):
    with pytest.raises(Malformed, match="form: must be well-formed"):
        read(body)


def test_many_parts_are_refused_as_soon_as_they_have_arrived():
    form = FormBody("x", 8)
    for _ in range(9):
        form.add(FIELD + b"\r\n")
    with pytest.raises(Malformed, match="form: must be well-formed"):
        form.add(FIELD)


@pytest.mark.parametrize("boundary", ["", "a" * 71, "é", "a\nb"])
def test_a_boundary_that_no_form_has_is_refused(boundary):
    with pytest.raises(Malformed, match="form: must be well-formed"):
        FormBody(boundary, 8)
