"""Hostile requests of the Open Inference Protocol: a status, a sentence, no trace; the next good one is answered.

The cases are those that Triton's own tests of its HTTP server try (qa/L0_http), and what goes beyond them.
"""

import http.client
import json
import struct

import pytest

from tests.rigs.load import FORBIDDEN
from tests.rigs.mixes import MARK
from tests.samples.http_requests import SEVEN

INFER, DATES = "/v2/models/digits/infer", "/v2/models/dates/infer"
LENGTH = "Inference-Header-Content-Length"
ONE = struct.pack("<I", len(SEVEN)) + SEVEN


def image(**changed):
    """Return the tensor of an image in binary, some members changed; None leaves one out."""
    tensor = {"name": "image", "shape": [1, 1], "datatype": "BYTES", "parameters": {"binary_data_size": len(ONE)}}
    return {name: value for name, value in {**tensor, **changed}.items() if value is not None}


def text(**changed):
    """Return the tensor of a text in JSON, some members changed."""
    tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["3/23/21"]}
    return {name: value for name, value in {**tensor, **changed}.items() if value is not None}


def binary(*tensors, data=ONE, length=None, **members):
    """Return the headers and the body of a request with binary data; `length` is what its header says."""
    document = json.dumps({"inputs": list(tensors or [image()]), **members}).encode()
    return {LENGTH: str(len(document)) if length is None else length}, document + data


def document(*tensors, **members):
    """Return the headers and the body of a request in JSON."""
    return {}, json.dumps({"inputs": list(tensors or [text()]), **members}).encode()


def sized(size):
    return image(parameters={"binary_data_size": size})


DEEP = [1]
for _ in range(900):
    DEEP = [DEEP]

CASES = {
    "length: no number": (INFER, *binary(length="thirty"), 400, f"{LENGTH}: must be a number"),
    "length: negative": (INFER, *binary(length="-1"), 400, f"{LENGTH}: must be a number"),
    "length: with a sign": (INFER, *binary(length="+5"), 400, f"{LENGTH}: must be a number"),
    "length: a fraction": (INFER, *binary(length="5.0"), 400, f"{LENGTH}: must be a number"),
    "length: in hexadecimal": (INFER, *binary(length="0x10"), 400, f"{LENGTH}: must be a number"),
    "length: of other digits": (INFER, *binary(length="\u00b2"), 400, f"{LENGTH}: must be a number"),
    "length: empty": (INFER, *binary(length=""), 400, f"{LENGTH}: must be a number"),
    "length: beyond the body": (INFER, *binary(length="1000000"), 400, f"{LENGTH}: at most the bytes of the body"),
    "length: beyond 64 bits": (INFER, *binary(length="9" * 20), 400, f"{LENGTH}: must be a number"),
    "length: within the JSON": (INFER, *binary(length="20"), 400, "body: "),
    "length: within the binary data": (INFER, *binary(length="200"), 400, "body: "),
    "length 0: no body": (INFER, {LENGTH: "0"}, b"", 400, "image: must hold at least one byte"),
    "length 0: no image": (INFER, {LENGTH: "0"}, MARK.encode(), 415, "image: must be one of"),
    "length 0: no UTF-8": (DATES, {LENGTH: "0"}, b"\xff\xfe", 400, "text: must be UTF-8"),
    "size: more than there is": (INFER, *binary(sized(len(ONE) + 1)), 400, "image: binary_data_size must be at most"),
    "size: less than there is": (INFER, *binary(sized(len(ONE) - 1)), 400, "image: must hold 1 elements"),
    "size: nothing": (INFER, *binary(sized(0)), 400, "image: must hold 1 elements"),
    "size: negative": (INFER, *binary(sized(-1)), 400, "image: binary_data_size must be"),
    "size: beyond 64 bits": (INFER, *binary(sized(2**70)), 400, ""),
    "size: a fraction": (INFER, *binary(sized(1.5)), 400, "image: binary_data_size must be"),
    "size: true": (INFER, *binary(sized(True)), 400, "image: binary_data_size must be"),
    "size: text": (INFER, *binary(sized("12")), 400, "image: binary_data_size must be"),
    "size: beside data": (INFER, *binary(image(data=["AAAA"])), 400, "image: must have either data or binary"),
    "size: missing": (INFER, *binary(image(parameters=None)), 400, "image: must have either data or binary"),
    "bytes behind the last input": (INFER, *binary(data=ONE + b"1"), 400, "body: must end with the last input"),
    "bytes behind JSON inputs": (INFER, *binary(image(parameters=None, data=["AAAA"])), 400, "body: must end with"),
    "an element that is longer than its tensor": (
        INFER,
        *binary(data=struct.pack("<I", 2**32 - 1) + SEVEN),
        *(400, "image: must hold 1 elements, each behind its length"),
    ),
    "three bytes of a length": (INFER, *binary(sized(3), data=b"\1\0\0"), 400, "image: must hold 1 elements"),
    "a thousand empty elements": (INFER, *binary(sized(4000), data=bytes(4000)), 400, "image: must hold 1 elements"),
    "shape: another count": (INFER, *binary(image(shape=[2, 1])), 400, "image: must hold 2 elements"),
    "shape: another count in JSON": (DATES, *document(text(shape=[2])), 400, "text: must hold 2 elements"),
    "shape: none": (INFER, *binary(image(shape=None)), 400, "image: shape must be a list"),
    "shape: empty": (INFER, *binary(image(shape=[])), 400, "image: shape must be a list"),
    "shape: negative": (INFER, *binary(image(shape=[-1, 1])), 400, "image: shape must be a list of sizes"),
    "shape: both negative": (INFER, *binary(image(shape=[-1, -1])), 400, "image: shape must be a list of sizes"),
    "shape: whose product is beyond 64 bits": (INFER, *binary(image(shape=[2**31, 2**33])), 400, "image: shape must"),
    "shape: zero": (INFER, *binary(image(shape=[0, 1])), 400, "image: "),
    "shape: wide": (INFER, *binary(image(shape=[1, 2])), 400, "image: shape must be [n] or [n, 1]"),
    "shape: text": (INFER, *binary(image(shape="1")), 400, "image: shape must be a list"),
    "shape: of fractions": (INFER, *binary(image(shape=[1.5, 1])), 400, "image: shape must be a list"),
    "shape: of many axes": (INFER, *binary(image(shape=[1] * 1000)), 400, "image: shape must be a list"),
    "too many inputs": (
        INFER,
        *binary(image(shape=[33], parameters={"binary_data_size": 33 * len(ONE)}), data=ONE * 33),
        *(400, "image: must be 1 to 32, given 33"),
    ),
    "datatype: another": (INFER, *binary(image(datatype="FP32")), 400, "image: datatype must be BYTES"),
    "datatype: FP16 in JSON": (DATES, *document(text(datatype="FP16", data=[1.0])), 400, "text: datatype must be"),
    "datatype: unknown": (INFER, *binary(image(datatype=MARK)), 400, "image: datatype must be BYTES"),
    "datatype: none": (INFER, *binary(image(datatype=None)), 400, "image: datatype must be BYTES"),
    "input: unknown": (INFER, *binary(image(name=MARK)), 400, "inputs: must be named image"),
    "input: without a name": (INFER, *binary(image(name=None)), 400, "inputs: must be named image"),
    "input: whose name is a list": (INFER, *binary(image(name=[])), 400, "inputs: "),
    "input: twice": (DATES, *document(text(), text()), 400, "text: may be given once"),
    "input: an unknown member": (DATES, *document(text(**{MARK: 1})), 400, "inputs: unknown member"),
    "input: in shared memory": (
        INFER,
        *document(image(parameters={"shared_memory_region": MARK, "shared_memory_byte_size": 4})),
        *(400, "image: parameters: unknown member"),
    ),
    "inputs: none": (DATES, {}, b'{"outputs": []}', 400, "inputs: must be a list"),
    "inputs: empty": (DATES, {}, b'{"inputs": []}', 400, "text: must be given"),
    "inputs: no list": (DATES, {}, b'{"inputs": {}}', 400, "inputs: must be a list"),
    "inputs: of numbers": (DATES, {}, b'{"inputs": [1]}', 400, "inputs: must be a list"),
    "data: numbers": (DATES, *document(text(data=[1])), 400, "text: data must be a list of strings"),
    "data: null": (DATES, *document(text(data=[None])), 400, "text: data must be a list of strings"),
    "data: one string": (DATES, *document(text(data="a")), 400, "text: data must be a list of strings"),
    "data: no base64": (INFER, *document(image(parameters=None, data=["\u00e9"])), 400, "image: "),
    "output: twice": (DATES, *document(outputs=[{"name": "text"}] * 2), 400, "outputs: each may be named once"),
    "output: unknown": (DATES, *document(outputs=[{"name": MARK}]), 400, "outputs: "),
    "output: without a name": (DATES, *document(outputs=[{}]), 400, "outputs: each must have a name"),
    "output: of another task": (DATES, *document(outputs=[{"name": "label"}]), 400, "outputs: "),
    "output: in shared memory": (
        DATES,
        *document(outputs=[{"name": "text", "parameters": {"shared_memory_region": MARK}}]),
        *(400, "outputs: parameters: unknown member"),
    ),
    "output: classes of a text": (
        DATES,
        *document(outputs=[{"name": "text", "parameters": {"classification": 1}}]),
        *(400, "classification: "),
    ),
    "output: a negative number of classes": (
        INFER,
        *binary(outputs=[{"name": "probabilities", "parameters": {"classification": -1}}]),
        *(400, "classification: must be a number"),
    ),
    "output: binary by a word": (
        DATES,
        *document(outputs=[{"name": "text", "parameters": {"binary_data": "yes"}}]),
        *(400, "binary_data: must be true or false"),
    ),
    "outputs: no list": (DATES, *document(outputs={}), 400, "outputs: must be a list"),
    "outputs: many": (DATES, *document(outputs=[{"name": str(n)} for n in range(1000)]), 400, "outputs: at most"),
    "option: unknown": (DATES, *document(parameters={MARK: 1}), 400, "options: unknown option"),
    "option: a list": (DATES, *document(parameters={"layers": [1]}), 400, "parameters: must be strings, numbers"),
    "option: no number": (DATES, *document(parameters={"num_beams": "x"}), 400, "num_beams: "),
    "option: beyond its bound": (DATES, *document(parameters={"max_new_tokens": 10**9}), 400, "max_new_tokens: "),
    "option: a stream": (
        DATES,
        *document(parameters={"stream": True}),
        400,
        "stream: is for generate; this is answered whole",
    ),
    "option: alternatives": (
        DATES,
        *document(parameters={"alternatives": 2}),
        400,
        "alternatives: is for generate; this answer shows no tokens that were chosen",
    ),
    "parameters: no object": (DATES, *document(parameters=[]), 400, "parameters: must be an object"),
    "timeout: negative": (DATES, *document(parameters={"timeout": -1}), 400, "timeout: must be a number"),
    "timeout: over at once": (DATES, *document(parameters={"timeout": 1}), 504, ""),
    "priority: text": (DATES, *document(parameters={"priority": "x"}), 400, "priority: "),
    "id: a number": (DATES, *document(id=7), 400, "id: must be a string"),
    "id: long": (DATES, *document(id="a" * 257), 413, "id: at most 256 bytes"),
    "member: unknown": (DATES, *document(**{MARK: 1}), 400, "body: unknown member"),
    "JSON: empty": (DATES, {}, b"", 400, "body: "),
    "JSON: cut": (DATES, {}, b'{"inputs": [', 400, "body: "),
    "JSON: a list": (DATES, {}, b"[]", 400, "body: "),
    "JSON: deep": (DATES, {}, b'{"inputs": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", 400, "body: "),
    "JSON: deeper": (DATES, {}, b'{"inputs": ' + b"[" * 100_000, 413, "body: at most 16384 values"),
    "JSON: deep data": (
        DATES,
        *document(text(data=DEEP)),
        *(400, "text: data must be"),
    ),
    "JSON: NaN": (DATES, {}, b'{"inputs": [], "parameters": {"temperature": NaN}}', 400, "body: "),
    "JSON: a lone surrogate": (DATES, *document(text(data=["\ud800"])), 400, "body: "),
    "JSON: 65536 pieces of data": (DATES, *document(text(data=["a"] * 70_000, shape=[70_000])), 413, ""),
    "gzip": (INFER, {**binary()[0], "Content-Encoding": "gzip"}, binary()[1], 415, "Content-Encoding: must be"),
    "an option in the query": (f"{INFER}?top_k=1", *binary(), 400, "query: options belong in the parameters"),
    "model: unknown": (f"/v2/models/{MARK}/infer", *binary(), 404, "model: must be one of"),
    "version: unknown": ("/v2/models/digits/versions/999/infer", *binary(), 404, "version: must be 1"),
    "version: no number": (f"/v2/models/digits/versions/{MARK}/infer", *binary(), 404, "version: must be 1"),
    "path: unknown": (f"/v2/{MARK}", {}, b"{}", 404, "path: no such endpoint"),
    "index: no JSON": ("/v2/repository/index", {}, b"{", 400, "body: "),
    "index: ready by a word": ("/v2/repository/index", {}, b'{"ready": "yes"}', 400, "ready: must be true or false"),
    "index: gzip": (
        "/v2/repository/index",
        {"Content-Encoding": "gzip"},
        b"\x1f\x8b",
        415,
        "Content-Encoding: must be",
    ),
    "index: a member": ("/v2/repository/index", {}, b'{"kestrel7c1f": 1}', 400, "body: unknown member"),
}
"""For each name the path, the headers, the body, the status, and how the sentence begins."""


@pytest.fixture
def connection(client):
    """A connection by which any bytes can be sent in headers."""
    opened = http.client.HTTPConnection(client.base_url.host, client.base_url.port, timeout=30)
    yield opened
    opened.close()


def post(connection, path, headers, body):
    """Return the status, the headers and the body of an answer."""
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def check_refused(answer, status, words):
    """Raise unless an answer is a refusal in the protocol's form."""
    given, headers, body = answer
    assert given == status, body
    assert headers["Content-Type"] == "application/json"
    refusal = json.loads(body)
    assert list(refusal) == ["error"]
    assert refusal["error"].startswith(words)
    assert not FORBIDDEN.search(body)
    assert headers["X-Request-Id"]


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_the_manner_of_the_protocol_and_the_next_request_is_answered(name, connection):
    path, headers, body, status, words = CASES[name]
    check_refused(post(connection, path, headers, body), status, words)
    assert post(connection, INFER, *binary())[0] == 200


def test_a_header_of_its_length_that_is_given_twice_is_refused(connection):
    _, body = binary()
    connection.putrequest("POST", INFER)
    for value in ("0", "5"):
        connection.putheader(LENGTH, value)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    check_refused((answer.status, answer.headers, answer.read()), 400, f"{LENGTH}: must be a number")


def test_a_body_in_65537_pieces_is_refused(connection):
    _, body = document(text(data=["a" * 70_000]))
    connection.request("POST", DATES, (body[place : place + 1] for place in range(len(body))), {}, encode_chunked=True)
    answer = connection.getresponse()
    check_refused((answer.status, answer.headers, answer.read()), 413, "body: at most 65536 pieces")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_another_method_is_refused_in_the_manner_of_the_protocol(method, client):
    answer = client.request(method, INFER)
    check_refused((answer.status_code, answer.headers, answer.content), 405, "method: ")
    assert answer.headers["Allow"] == "POST"
