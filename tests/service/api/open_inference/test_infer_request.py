"""What requests ask for, read from their bytes; the refusals of hostile ones."""

import asyncio
import base64
import itertools
import json
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from service.api.open_inference.infer_request import JSON_LENGTH, read_infer_request
from service.errors import Malformed, Refusal, TooLarge, Unacceptable, Unsupported
from service.inputs.image_inputs import ImageInputs
from service.inputs.model_input import Pair
from service.inputs.text_inputs import TextInputs
from service.settings import Settings
from tests.samples.http_requests import packed

CLASSIFIER = SimpleNamespace(task="text-classification")
IMAGES = SimpleNamespace(inputs=object.__new__(ImageInputs), takes_pairs=False, manifest=CLASSIFIER)
TEXTS = SimpleNamespace(inputs=object.__new__(TextInputs), takes_pairs=False, manifest=CLASSIFIER)
PAIRS = SimpleNamespace(inputs=object.__new__(TextInputs), takes_pairs=True, manifest=CLASSIFIER)


def read(body, served=TEXTS, length=None, headers=(), settings=None, query=b""):
    """Read a body that arrives in pieces of seven bytes; `length` is that of its JSON."""
    pieces = [body[start : start + 7] for start in range(0, len(body), 7)] or [b""]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces[:-1]]
    messages.append({"type": "http.request", "body": pieces[-1], "more_body": False})

    async def receive():
        return messages.pop(0)

    lengths = [] if length is None else [(JSON_LENGTH.lower().encode(), str(length).encode())]
    scope = {"type": "http", "method": "POST", "headers": [*lengths, *headers], "query_string": query, "path": "/"}
    return asyncio.run(read_infer_request(Request(scope, receive), served, settings or Settings()))


def document(*inputs, **members):
    return json.dumps({"inputs": list(inputs), **members}).encode()


def tensor(name="text", data=("a",), **members):
    """A tensor in JSON; a member that is None is left out."""
    given = {"name": name, "shape": [len(data or [])], "datatype": "BYTES", "data": data} | members
    return {name: value for name, value in given.items() if value is not None}


def test_texts_in_json():
    asked = read(document(tensor(data=["a", "ü"])))
    assert (asked.parsed.inputs, asked.wanted, asked.id, asked.binary, asked.seconds) == (
        ["a", "ü"],
        (),
        None,
        False,
        None,
    )


def test_texts_may_be_base64_if_they_say_so():
    data = base64.b64encode("ü".encode()).decode()
    for content, wanted in (("base64", "ü"), ("str", data), (None, data)):
        assert read(document(tensor(data=[data], parameters={"content_type": content}))).parsed.inputs == [wanted]
    for content, given, words in (
        ("np", data, "text: content_type must be str or base64, given another"),
        ({"x": 1}, data, "text: content_type must be"),
        ("base64", "not base64", "text: must be base64, as its content_type says"),
        ("base64", "/w==", "text: must be UTF-8"),
    ):
        with pytest.raises((Malformed, Unacceptable), match=words):
            read(document(tensor(data=[given], parameters={"content_type": content})))


def test_the_content_type_of_a_request_is_that_of_inputs_that_name_none():
    """As MLServer's codecs send it."""
    data, whole = base64.b64encode("ü".encode()).decode(), {"parameters": {"content_type": "base64"}}
    assert read(document(tensor(data=[data]), **whole)).parsed.given == {}
    assert read(document(tensor(data=[data]), **whole)).parsed.inputs == ["ü"]
    assert read(document(tensor(data=[data], parameters={"content_type": "str"}), **whole)).parsed.inputs == [data]
    with pytest.raises(Unacceptable, match="parameters: content_type must be str or base64, given another"):
        read(document(tensor(data=[data]), parameters={"content_type": ["np"]}))


def test_a_text_that_is_not_utf_8_is_named():
    first, second = packed(b"a"), packed(b"\xff")
    inputs = [tensor(name, None, shape=[1], parameters={"binary_data_size": 5}) for name in ("text", "text_pair")]
    head = document(*inputs)
    with pytest.raises(Malformed, match="text_pair: must be UTF-8"):
        read(head + first + second, PAIRS, len(head))


def test_images_in_json_are_base64():
    data = base64.b64encode(b"\x89PNG").decode()
    assert read(document(tensor("image", [data])), IMAGES).parsed.inputs == [b"\x89PNG"]
    assert read(document(tensor("image", [data], parameters={"content_type": "base64"})), IMAGES).parsed.inputs


def test_inputs_in_binary_follow_the_json_in_its_order():
    first, second = packed(b"a", b"b"), packed("ü".encode(), b"")
    inputs = [
        tensor("text_pair", None, shape=[2, 1], parameters={"binary_data_size": len(second)}),
        tensor("text", None, shape=[2, 1], parameters={"binary_data_size": len(first)}),
    ]
    head = document(*inputs)
    asked = read(head + second + first, PAIRS, len(head))
    assert asked.parsed.inputs == [Pair("a", "ü"), Pair("b", "")]


def test_one_input_may_be_binary_and_another_json():
    inputs = [tensor("text", ["a"]), tensor("text_pair", None, shape=[1], parameters={"binary_data_size": 5})]
    head = document(*inputs)
    assert read(head + packed(b"b"), PAIRS, len(head)).parsed.inputs == [Pair("a", "b")]


def test_without_json_the_body_is_one_element():
    asked = read(b"\x89PNG", IMAGES, 0)
    assert (asked.parsed.inputs, asked.binary) == ([b"\x89PNG"], True)
    assert read("ü".encode(), TEXTS, 0).parsed.inputs == ["ü"]


def test_a_length_may_be_that_of_all():
    body = document(tensor())
    assert read(body, length=len(body)).parsed.inputs == ["a"]


def test_parameters_are_options_as_a_query_has_them():
    given = {"top_k": 3, "truncate": True, "layers": "8:12", "discard": 0.5, "sequence_id": 7, "triton_x": "y"}
    asked = read(document(tensor(), parameters=given, id="mine", model_name="dates"))
    assert asked.parsed.given == {"top_k": "3", "truncate": "true", "layers": "8:12", "discard": "0.5"}
    assert (asked.parsed.strings, asked.id) == (True, "mine")


@pytest.mark.parametrize(
    ("given", "ours"),
    [(0, "interactive"), (1, "interactive"), (2, "batch"), ("batch", "batch")],
)
def test_tritons_priorities(given, ours):
    assert read(document(tensor(), parameters={"priority": given})).parsed.given == {"priority": ours}


def test_a_timeout_is_in_microseconds():
    assert read(document(tensor(), parameters={"timeout": 1_500_000})).seconds == 1.5
    assert read(document(tensor(), parameters={"timeout": 0})).seconds is None


def test_what_an_output_says_of_itself_beats_what_is_said_of_all():
    outputs = [{"name": "a"}, {"name": "b", "parameters": {"binary_data": False, "classification": 3}}]
    asked = read(document(tensor(), outputs=outputs, parameters={"binary_data_output": True}))
    assert [(one.name, one.binary, one.classes) for one in asked.wanted] == [("a", True, 0), ("b", False, 3)]
    assert asked.binary


HEAD = document(tensor(data=None, shape=[1], parameters={"binary_data_size": 5}))
BINARY = HEAD + packed(b"a")
REFUSED = [
    (b"", {}, Malformed), (b"[]", {}, Unacceptable), (b"{}", {}, Malformed), (b'{"inputs": 1}', {}, Malformed),
    (b'{"inputs": [1]}', {}, Malformed), (b'{"inputs": []}', {}, Unacceptable),
    (b'{"inputs": [], "inputs": []}', {}, Unacceptable),
    (b'{"inputs":' + b"[" * 5000 + b"]" * 5000 + b"}", {}, Malformed),
    (b'{"inputs":' + b"[" * 20000, {}, TooLarge),
    (document(tensor(name="image")), {}, Unacceptable), (document(tensor(name=1)), {}, Unacceptable),
    (document(tensor(name=["text"])), {}, Unacceptable),
    (document(tensor(), tensor()), {}, Unacceptable), (document(tensor("text_pair")), {"served": PAIRS}, Unacceptable),
    (document(tensor("text_pair")), {}, Unacceptable),
    (document(tensor(), tensor("text_pair", ["b", "c"])), {"served": PAIRS}, Unacceptable),
    (document(tensor(shape=None)), {}, Malformed), (document(tensor(shape=[-1])), {}, Malformed),
    (document(tensor(shape=[2])), {}, Malformed), (document(tensor(shape=[1, 2])), {}, Unacceptable),
    (document(tensor(shape=[2049])), {}, Unacceptable), (document(tensor(data=[])), {}, Unacceptable),
    (document(tensor(datatype="FP32")), {}, Unacceptable), (document(tensor(datatype=None)), {}, Unacceptable),
    (document(tensor(data=None, shape=[1])), {}, Malformed), (document(tensor(data=[1])), {}, Malformed),
    (document(tensor(parameters=1)), {}, Malformed), (document(tensor(parameters={"x": 1})), {}, Unacceptable),
    (document(tensor(parameters={"shared_memory_region": "x"})), {}, Unacceptable),
    (document(tensor(parameters={"binary_data_size": 5})), {}, Malformed),
    (document(tensor(data=None, shape=[1], parameters={"binary_data_size": 5})), {}, Malformed),
    (document(tensor(), x=1), {}, Unacceptable), (document(tensor() | {"x": 1}), {}, Unacceptable),
    (document(tensor(), id=1), {}, Unacceptable), (document(tensor(), id="é" * 129), {}, TooLarge),
    (document(tensor(), parameters=[]), {}, Malformed), (document(tensor(), parameters={"a": []}), {}, Unacceptable),
    (document(tensor(), parameters={"binary_data_output": 1}), {}, Unacceptable),
    (document(tensor(), parameters={"timeout": -1}), {}, Unacceptable),
    *((document(tensor(), parameters={"priority": one}), {}, Unacceptable) for one in (-1, True, "high", 1 << 32, 0.5)),
    (document(tensor(), parameters={"timeout": 1.5}), {}, Unacceptable),
    (document(tensor(), parameters={f"o{n}": 1 for n in range(65)}), {}, Unacceptable),
    (document(tensor(), outputs={}), {}, Malformed), (document(tensor(), outputs=[1]), {}, Malformed),
    (document(tensor(), outputs=[{}]), {}, Malformed), (document(tensor(), outputs=[{"name": 1}]), {}, Malformed),
    (document(tensor(), outputs=[{"name": "a"}, {"name": "a"}]), {}, Unacceptable),
    (document(tensor(), outputs=[{"name": "a", "x": 1}]), {}, Unacceptable),
    (document(tensor(), outputs=[{"name": "a", "parameters": {"classification": -1}}]), {}, Unacceptable),
    (document(tensor(), outputs=[{"name": "a", "parameters": {"binary_data": 1}}]), {}, Unacceptable),
    (document(tensor(), outputs=[{"name": str(n)} for n in range(17)]), {}, Unacceptable),
    (BINARY, {"length": len(HEAD) + 1}, Malformed), (BINARY, {"length": len(HEAD) - 1}, Malformed),
    (BINARY, {"length": len(BINARY) + 1}, Malformed), (BINARY, {"length": -1}, Malformed),
    (BINARY, {"length": "x"}, Malformed), (BINARY, {"length": "+5"}, Malformed), (BINARY, {"length": "1e3"}, Malformed),
    (BINARY, {"length": "9" * 11}, Malformed), (BINARY, {"length": ""}, Malformed),
    (BINARY, {"length": len(HEAD), "headers": [(JSON_LENGTH.lower().encode(), b"1")]}, Malformed),
    (BINARY + b"x", {"length": len(HEAD)}, Malformed), (BINARY[:-1], {"length": len(HEAD)}, Malformed),
    (HEAD + packed(b"\xff"), {"length": len(HEAD)}, Malformed), (b"\xff", {"length": 0}, Malformed),
    (b"", {"length": 0, "served": IMAGES}, Malformed),
    (document(tensor("image", ["=x"])), {"served": IMAGES}, Malformed),
    (document(tensor("image", ["AAAAAAAA"])), {"served": IMAGES, "settings": Settings(max_image_bytes=5)}, TooLarge),
    (b"abcdef", {"length": 0, "served": IMAGES, "settings": Settings(max_image_bytes=5)}, TooLarge),
    (b"abcdef", {"length": 0, "settings": Settings(max_text_bytes=5)}, TooLarge),
    (document(tensor()), {"headers": [(b"content-encoding", b"gzip")]}, Unsupported),
    (document(tensor()), {"query": b"top_k=1"}, Unacceptable),
]  # fmt: skip


@pytest.mark.parametrize(("body", "how", "refusal"), REFUSED, ids=itertools.count())
def test_what_cannot_be_read_is_refused(body, how, refusal):
    with pytest.raises(Refusal) as raised:
        read(body, **how)
    assert type(raised.value) is refusal, raised.value.detail
