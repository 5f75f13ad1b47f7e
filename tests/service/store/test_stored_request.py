"""Stored requests as bytes: what is unpacked is what was packed, and nothing else is read."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.chat import ASSISTANT, SYSTEM, USER, Message
from service.inputs.model_input import Conversation, Pair, Prompted, Windows
from service.store.stored_request import StoredRequest, pack, unpack

TEXTS = st.text(st.characters(), max_size=20)
PAIRS = st.builds(Pair, TEXTS, TEXTS) | st.builds(Pair, TEXTS, TEXTS, st.integers(1, 1 << 20), st.integers(0, 1))
CHATS = st.builds(
    lambda told, turns, asked: Conversation((*told, *turns, asked)),
    st.lists(st.builds(Message, st.just(SYSTEM), TEXTS), max_size=1),
    st.lists(st.builds(Message, st.sampled_from([USER, ASSISTANT]), TEXTS), max_size=3),
    st.builds(Message, st.just(USER), TEXTS),
)
KEPT = st.builds(
    StoredRequest,
    model=st.text(max_size=9),
    version=st.text(max_size=9),
    inputs=st.lists(st.binary(max_size=50) | TEXTS | PAIRS | st.builds(Prompted, TEXTS, TEXTS) | CHATS, max_size=4).map(
        tuple
    ),
    truncate=st.booleans(),
    source_language=st.none() | st.text(max_size=9),
    target_language=st.none() | st.text(max_size=9),
    windows=st.none() | st.builds(Windows, st.integers(0, 99), st.none() | st.integers(1, 999)),
    dimensions=st.none() | st.integers(1, 9),
    targets=st.none() | st.lists(st.lists(st.integers(0, 2**31), max_size=5).map(tuple), max_size=4).map(tuple),
)


@given(KEPT)
def test_what_is_unpacked_is_what_was_packed(kept):
    assert unpack(pack(kept)) == kept


@given(KEPT, st.data())
def test_a_packed_request_that_was_cut_or_continued_is_not_read(kept, data):
    packed = pack(kept)
    assert unpack(packed[:-1]) is None
    assert unpack(packed[: data.draw(st.integers(0, len(packed) - 1))]) is None
    assert unpack(packed + data.draw(st.binary(min_size=1, max_size=5))) is None


@given(st.binary(max_size=200))
def test_other_bytes_are_not_read(data):
    assert unpack(data) is None


PACKED = orjson.loads(
    pack(StoredRequest("dates", "1", ("one", Pair("a", "b")), targets=((1,), (2, 3)))).split(b"\n")[0]
)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"color": 1},
        {"model": 1},
        {"truncate": "no"},
        {"targets": [1]},
        {"targets": [[1.5]]},
        {"inputs": [["video", 5]]},
        {"inputs": [["text", 3, 2]]},
        {"inputs": [["pair", 5]]},
        {"inputs": [["pair", 2, 3, 1]]},
        {"inputs": [["passage", 2, 3]]},
        {"inputs": [["passage", 2, 3, 0]]},
        {"inputs": [["text", 6], ["text", -1]]},
        {"inputs": [["text", 4]]},
    ],
)
def test_a_header_of_another_version_is_not_read(change):
    assert unpack(orjson.dumps(PACKED) + b"\noneab") is not None
    assert unpack(orjson.dumps(PACKED | change) + b"\noneab") is None


def test_a_text_that_is_no_utf_8_is_not_read():
    header = orjson.dumps(PACKED | {"inputs": [["text", 1]]})
    assert unpack(header + b"\n\xff") is None
    assert unpack(header.replace(b'"text"', b'"image"') + b"\n\xff").inputs == (b"\xff",)


@pytest.mark.parametrize(
    "messages",
    [b"[]", b"{}", b"3", b'[["user", "x", "y"]]', b'[["tool", "x"]]', b'[["system", "x"]]', b"[[]]", b"x"],
)
def test_a_chat_that_is_none_is_not_read(messages):
    whole = pack(StoredRequest("chat", "1", (Conversation((Message(USER, "x"),)),)))
    header, _, _ = whole.partition(b"\n")
    document = orjson.loads(header) | {"inputs": [["chat", len(messages)]]}
    assert unpack(orjson.dumps(document) + b"\n" + messages) is None
