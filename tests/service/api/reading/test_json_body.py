"""JSON bodies: whatever pieces they arrive in, what is counted is what they hold."""

import itertools
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.reading.json_body import MOST_VALUES, JsonBody
from service.errors import Malformed, TooLarge, Unacceptable

LIMIT = 1 << 20
TEXTS = st.text(st.sampled_from('",:[]{}\\/ué😀 \n'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def parsed(body, *cuts, most_text=LIMIT):
    document = JsonBody(most_text)
    for start, end in zip((0, *cuts), (*cuts, len(body)), strict=True):
        document.add(body[start:end])
    return document.parse()


def values(document):
    if isinstance(document, dict | list):
        return 1 + sum(map(values, document.values() if isinstance(document, dict) else document))
    return 1


@given(st.dictionaries(TEXTS, VALUES, max_size=4), st.booleans(), st.lists(st.integers(0, 400), max_size=6))
def test_a_document_is_counted_and_parsed_whatever_it_holds_and_however_it_is_cut(document, ascii_only, cuts):
    body = json.dumps(document, ensure_ascii=ascii_only).encode()
    counted = JsonBody(LIMIT)
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        counted.add(body[start:end])
    assert counted.parse() == document == orjson.loads(body)
    assert values(document) - 1 <= counted._values <= 2 * values(document)


@given(TEXTS, TEXTS, st.booleans(), st.lists(st.integers(0, 60), max_size=3))
def test_text_beyond_ascii_is_counted_escaped_or_not_and_however_it_is_cut(text, key, ascii_only, cuts):
    body = json.dumps({key: text}, ensure_ascii=ascii_only).encode()
    cuts = sorted(cut % (len(body) + 1) for cut in cuts)
    if key.isascii() and text.isascii():
        assert parsed(body, *cuts, most_text=0) == {key: text}
    else:
        with pytest.raises(TooLarge, match="body: at most 0 bytes of text that is not ASCII, given more"):
            parsed(body, *cuts, most_text=0)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * 20_000,
        b"[" * 20_000,
        b"{" + b'"a":0,' * 20_000,
        b'{"images":[' + b'"",' * 20_000,
        b'"' * 70_000,
        b"," * 20_000,
    ],
)
def test_many_values_are_refused_as_soon_as_they_have_arrived(body):
    document = JsonBody(LIMIT)
    with pytest.raises(TooLarge, match=f"body: at most {MOST_VALUES} values, given more"):
        document.add(body[:-1000])


def test_a_text_may_hold_what_would_be_structure_outside_of_it():
    text = ',:[]{}"\\' * 20_000
    assert parsed(json.dumps({"inputs": [text]}).encode()) == {"inputs": [text]}


def test_the_largest_honest_document_has_few_enough_values():
    assert parsed(json.dumps({"inputs": [{"text": "a", "text_pair": "b"}] * 4096}).encode())
    document = {
        "inputs": [{"text": "a", "text_pair": "b"}] * 1024,
        "attention": {name: [0] * 4096 for name in ("layers", "heads", "queries")} | {"target": [0] * 256},
    }
    assert parsed(json.dumps(document).encode()) == document


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs": "x", "inputs": "y"}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a": [{"b": 1, "\\u0062": 2}]}',
        b'{"": 1, "": 2}',
        b'{":": "a:b\\\\", ":": "\\":"}',
    ],
)
def test_a_key_that_is_given_twice_is_refused(body):
    with pytest.raises(Unacceptable, match="body: each key may be given once, given one twice"):
        parsed(body)


def test_the_same_key_in_two_objects_is_given_once_in_each():
    assert parsed(b'{"a": {"a": ":"}, "b": [{"a": 1}, {"a": 2}]}')["a"] == {"a": ":"}


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (b"", Malformed, "body: must be JSON, "),
        (b'{"a', Malformed, "body: must be JSON, "),
        (b'{"a": \\"b"}', Malformed, "body: must be JSON, "),
        (b"[" * 2000, Malformed, "body: must be JSON, "),
        (b'{"a": "\\', Malformed, "body: must be JSON, "),
        (b"[]", Unacceptable, "body: must be a JSON object"),
        (
            '{"a": "\u00e9t\u00e9"}'.encode("latin-1"),
            Malformed,
            r"^body: must be JSON in UTF-8 .*, is not from byte 7 on$",
        ),
        ('{"a": "\u00e9"}'.encode() + b"\xff", Malformed, "body: must be JSON in UTF-8 .*, is not from byte 11 on"),
        ('{"a": 1}'.encode("utf-16"), Malformed, "body: must be JSON in UTF-8 .*, is not from byte 0 on"),
        (b'{"a": "\\ud800"}', Malformed, "body: must be JSON, no low surrogate in string at character 7"),
    ],
)
def test_what_is_no_json_object_is_refused(body, error, words):
    with pytest.raises(error, match=words):
        parsed(body)


def test_a_whole_number_may_be_written_as_a_decimal():
    """JSON has one sort of numbers (RFC 8259, section 6), which other languages write as 2.0."""
    body = (
        b'{"a": 2.0, "b": [-3.0, 1e2, [0.5, true]], "c": {"d": 9007199254740992.0, "e": 1e300, "f": -0.0}, "g": "2.0"}'
    )
    found = parsed(body)
    assert found == {"a": 2, "b": [-3, 100, [0.5, True]], "c": {"d": 2**53, "e": 1e300, "f": 0}, "g": "2.0"}
    numbers = [found["a"], *found["b"][:2], found["b"][2][0], *found["c"].values()]
    assert [type(one) for one in numbers] == [int, int, int, float, int, float, int]
    assert found["b"][2][1] is True
