"""Questions are asked of a service, and its answers are read."""

import json

import pytest
from regard import calls
from regard.calls import Reply
from regard.errors import BadInput
from regard.inputs import encode
from regard.tasks.answering import ANSWER

from tests.client.conftest import described

MODEL = described("question-answering", endpoints=["answer", "attention"], inputs={"max_tokens": 9})
FOUND = [
    {"text": "a mat", "start": 4, "end": 9, "score": 0.5},
    {"text": "", "start": 0, "end": 0, "score": 0.25},
]


def asked(**options):
    return calls.predictions(ANSWER, MODEL, [encode(("q", "on, a mat"), "text")], options)


def test_a_question_is_asked_with_its_context_and_its_answers_are_read():
    call = asked(top_k=2, most_tokens=3, stride=4, impossible=True)
    assert (call.method, call.path) == ("POST", "/v1/models/m/answer")
    options = {"top_k": 2, "most_tokens": 3, "stride": 4, "impossible": True}
    assert call.body == {"inputs": [{"text": "q", "text_pair": "on, a mat"}], **options}
    (found,) = call.read(Reply(200, json.dumps({"id": "a", "results": [{"answers": FOUND}]}).encode()))
    assert found.text == "a mat"
    assert [(one.text, one.start, one.end, one.score) for one in found.answers] == [
        tuple(one.values()) for one in FOUND
    ]
    assert found._repr_mimebundle_()["text/plain"] == "m: a mat 50.0%, no answer 25.0%"
    assert "answers=" in repr(found)


def test_what_is_asked_of_an_answer_later_says_which_answers_count():
    (found,) = asked(top_k=2, most_tokens=3, stride=4, impossible=True).read(
        Reply(200, json.dumps({"id": "a", "results": [{"answers": FOUND}]}).encode())
    )
    target = {"answer": 1, "part": "start"}
    later = calls.stored_attention(found, {"method": "libra", "target": target})
    assert later.path == "/v1/attention/a"
    assert later.query.items() >= {"most_tokens": "3", "impossible": "true", "target": json.dumps(target)}.items()
    assert not later.query.keys() & {"top_k", "stride"}
    again = calls.attention_again(found, {"method": "libra", "target": target})
    assert again.body["attention"]["target"] == target
    assert {name: again.body[name] for name in ("most_tokens", "stride", "impossible")} == {
        "most_tokens": 3, "stride": 4, "impossible": True,
    }  # fmt: skip
    assert "top_k" not in again.body


def test_one_text_is_no_question_with_a_context():
    with pytest.raises(BadInput, match="text: must be a string or a pair of strings"):
        encode(("q", "c", "d"), "text")
