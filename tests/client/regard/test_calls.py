import base64
import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
import regard
from PIL import Image
from regard import calls
from regard.calls import BODY_BYTES, Events, Reply, batches, problem_of
from regard.inputs import Encoded
from regard.models import read_description
from regard.results import Asked
from regard.tasks.classification import CLASSIFY, Classification
from regard.tasks.detection import Detection
from regard.tasks.generation import GENERATE, GenerateOptions

from tests.client.conftest import described, detector

TEXTS = {
    "name": "dates", "version": "1", "task": "text2text-generation", "endpoints": ["generate", "attention"],
    "inputs": {"max_tokens": 96}, "labels": [], "limits": {"inputs": 3}, "ready": True,
    "attention": {"methods": ["raw"], "best": None, "usual": {"method": "raw"}, "kinds": {}},
}  # fmt: skip
MODEL = read_description(TEXTS)


def answered(call):
    return call.read(Reply(200, b""))


def test_a_batch_is_sent_in_as_few_requests_as_its_limits_allow():
    assert list(batches(MODEL, "abcdefg"[0:0].split())) == []
    found = [(start, [one.text for one in some]) for start, some in batches(MODEL, (one for one in "abcdefg"))]
    assert found == [(0, ["a", "b", "c"]), (3, ["d", "e", "f"]), (6, ["g"])]
    long = "x" * (BODY_BYTES // 2 + 1)
    assert [(start, len(some)) for start, some in batches(MODEL, [long, long, "y", "z"])] == [(0, 1), (1, 3)]


@pytest.mark.parametrize(
    "given",
    ["one text", b"bytes", Path("seven.png"), Image.new("L", (2, 2)), np.zeros((2, 2)), np.zeros((2, 2, 3)), None, 3],
)
def test_one_input_is_no_batch(given):
    with pytest.raises(regard.BadInput, match="inputs: must be a list"):
        list(batches(MODEL, given))


def test_an_array_of_pictures_is_a_batch():
    pictures = dataclasses.replace(MODEL, sort="image")
    assert [len(some) for _, some in batches(pictures, np.zeros((4, 2, 2, 3), np.uint8))] == [3, 1]
    assert [len(some) for _, some in batches(pictures, np.zeros((2, 5, 7), np.uint8))] == [2]
    assert [[one.text for one in some] for _, some in batches(MODEL, np.array(["a", "b"]))] == [["a", "b"]]


def test_an_input_that_cannot_be_sent_is_named_by_its_place():
    with pytest.raises(regard.BadInput, match=r"^inputs\[4\]: text: must be a string"):
        list(batches(MODEL, ["a", "b", "c", "d", 5]))


def test_a_refusal_of_a_batch_counts_all_inputs():
    detail = "text: at most 96 tokens, given 500 (input 2 of 3)"
    with pytest.raises(regard.InputRefused) as caught, calls.placed(6, [Encoded(text="a")] * 3):
        raise regard.InputRefused(regard.Problem(422, "Unacceptable", detail))
    assert caught.value.problem.detail == "text: at most 96 tokens, given 500 (inputs[7])"
    assert str(caught.value).startswith(caught.value.problem.detail)
    for error in (regard.Busy(regard.Problem(429, "Busy", "queue: is full")), regard.TimedOut("no answer")):
        with pytest.raises(type(error)) as caught, calls.placed(6, [Encoded(text="a")] * 3):
            raise error
        assert str(caught.value).startswith("inputs[6:9]: ")


def test_attention_is_always_exact_and_has_its_method():
    for given, wanted in (
        ("rollout", {"method": "rollout"}),
        ({"method": "raw", "layers": [0]}, {"method": "raw", "layers": [0]}),
    ):
        call = calls.predictions(CLASSIFY, MODEL, [Encoded(text="a")], {"attention": given, "top_k": 2})
        assert call.body == {"inputs": ["a"], "top_k": 2, "attention": {"encoding": "base64", **wanted}}
    assert "attention" not in calls.predictions(CLASSIFY, MODEL, [], {"attention": None}).body


@pytest.mark.parametrize("given", [True, False, 3, ["raw"], [("method", "raw")]])
def test_attention_is_a_method_or_a_dictionary(given):
    with pytest.raises(regard.BadInput, match="attention: must be a method, or a dictionary"):
        calls.predictions(CLASSIFY, MODEL, [Encoded(text="a")], {"attention": given})


def result(**options):
    asked = Asked(MODEL, Encoded(text="3/23"), options, "abc", None)
    return Classification(attention=None, json={}, asked=asked, labels=[])


def test_options_of_a_query_are_words():
    options = {
        "method": "libra",
        "layers": [0, 2],
        "hard": True,
        "against": {"text": "a b"},
        "target": "7",
        "kind": None,
    }
    assert calls.stored_attention(result(), options).query == {
        "encoding": "base64", "method": "libra", "layers": "0,2", "hard": "true", "against": '{"text": "a b"}',
        "target": "7", "model": "dates",
    }  # fmt: skip


def test_a_picture_shows_one_kind():
    kinds = {"encoder": {"methods": ["raw"]}, "cross": {"methods": ["raw", "libra"]}}
    model = read_description({**TEXTS, "attention": {**TEXTS["attention"], "kinds": kinds}})
    asked = Asked(model, Encoded(text="3/23"), {}, "abc", None)
    found = Classification(attention=None, json={}, asked=asked, labels=[])
    assert calls.stored_picture(found, {"method": "raw"}).query["kind"] == "cross"
    assert calls.picture_again(found, {"method": "raw"}).body["attention"]["kind"] == "cross"
    assert calls.stored_picture(found, {"method": "raw", "kind": "encoder"}).query["kind"] == "encoder"
    assert "kind" not in calls.stored_picture(found, {"method": "libra"}).query


def found(**options):
    asked = Asked(detector(), Encoded(picture=b"x"), options, "abc", None)
    return Detection(attention=None, json={}, asked=asked, objects=[])


def test_attention_is_of_the_objects_that_the_answer_found():
    query = calls.stored_attention(found(threshold=0.25, top_k=3), {"method": "raw"}).query
    assert query == {"encoding": "base64", "threshold": "0.25", "top_k": "3", "method": "raw", "model": "m"}
    query = calls.stored_picture(found(threshold=0.25), {"method": "raw"}).query
    assert query == {"threshold": "0.25", "kind": "cross", "method": "raw", "format": "png", "model": "m"}
    body = calls.attention_again(found(threshold=0.25, top_k=3), {"method": "raw"}).body
    own = {"encoding": "base64", "method": "raw"}
    assert body == {"images": ["eA=="], "threshold": 0.25, "top_k": 3, "attention": own}


def test_another_threshold_stands_beside_attention():
    assert (
        calls.stored_attention(found(threshold=0.25), {"method": "raw", "threshold": 0.5}).query["threshold"] == "0.5"
    )
    body = calls.attention_again(found(threshold=0.25), {"method": "raw", "threshold": 0.5}).body
    assert (body["threshold"], "threshold" in body["attention"]) == (0.5, False)
    assert calls.beside({"method": "raw"}) == {"attention": {"method": "raw"}}


def test_an_input_that_is_forgotten_is_sent_again_with_its_options():
    call = calls.attention_again(result(num_beams=2, length_penalty=0.5), {"method": "raw"})
    assert call.path == "/v1/models/dates/attention"
    wanted = {"method": "raw", "encoding": "base64"}
    assert call.body == {"inputs": ["3/23"], "num_beams": 2, "length_penalty": 0.5, "attention": wanted}


def test_an_input_is_sent_again_with_every_option_that_attention_takes():
    options = dict.fromkeys(GenerateOptions.__annotations__.keys() - {"attention"}, 1)
    sent = calls.attention_again(result(**options), {"method": "raw"}).body
    assert options.keys() - sent.keys() == {"alternatives", "num_return_sequences"}


def test_options_that_no_query_holds_are_sent_with_the_input():
    assert calls.stored_attention(result(), {"target": ["cat", "lynx"]}).fits
    assert calls.stored_attention(result(), {"target": "tabby, tabby cat"}).fits
    assert not calls.stored_attention(result(), {"target": ["tabby, tabby cat", "lynx"]}).fits
    assert not calls.stored_attention(result(), {"against": {"text": "x" * calls.QUERY_BYTES}}).fits
    assert not calls.stored_picture(result(), {"against": {"text": "\u4e2d" * 1000}}).fits


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?b", "a%2fb", "a\\b", None, 3])
def test_a_name_is_no_other_path(name):
    with pytest.raises(regard.BadInput, match="model: must be a name"):
        calls.get_model(name)


def test_a_refusal_without_a_problem_document_is_a_problem_too():
    for content in (b"<html>Bad gateway</html>", b"[]", b'{"title": 3}', b"\xff"):
        found = problem_of(Reply(502, content, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "x-request-id": "r"}))
        assert (found.status, found.retry_after, found.request_id) == (502, None, "r")
    assert problem_of(Reply(429, b"", {"retry-after": "2"})).retry_after == 2


def fed(*lines):
    events = Events(GENERATE, MODEL, Encoded(text="x"), {"attention": "raw", "seed": 1}, None)
    return events, [token for line in lines if (token := events.take(line))]


TOKEN = 'data: {"index": 0, "token": 5, "text": "2", "later": 1}'
DONE = json.dumps({"id": "i", "results": [{"text": "2", "tokens": [], "score": -1, "finish_reason": "stop"}]})


def test_events_are_read_line_by_line():
    events, found = fed(
        ": a comment", "event: token", TOKEN, "", "event: later", "data: {}", "", "event: done", f"data:{DONE}", ""
    )
    assert [token.text for token in found] == ["2"]
    assert events.end().text == "2"
    assert events.end().asked.options == {"seed": 1}
    assert events.end().id == "i"


def test_a_stream_that_ends_early_holds_what_came():
    events, _ = fed("event: token", TOKEN, "")
    with pytest.raises(regard.StreamBroken) as caught:
        events.end()
    assert caught.value.text == "2"


def test_an_error_in_a_stream_is_a_refusal():
    data = '{"type": "about:blank", "title": "Gateway Timeout", "status": 504, "detail": "answer: at most 30 seconds"}'
    with pytest.raises(regard.TooSlow, match="answer: at most 30 seconds"):
        fed("event: error", f"data: {data}", "")


def test_what_an_event_does_not_hold_is_no_token():
    for broken in ("data: {}", "data: not json", "data: []"):
        with pytest.raises((KeyError, ValueError, TypeError)):
            fed("event: token", broken, "")


def test_rows_of_a_stream_are_maps():
    row = {
        "name": "m",
        "kind": "cross",
        "layer": 2,
        "heads": "mean",
        "normalized": True,
        "shape": [1, 1, 2],
        "values": [[[0.5, 0.5]]],
    }
    _, (token,) = fed(
        "event: token", f"data: {json.dumps({'index': 0, 'token': 5, 'text': 'a', 'attention': [row]})}", ""
    )
    np.testing.assert_array_equal(token.maps[0].values, [[[0.5, 0.5]]])


@pytest.mark.parametrize("layers", [range(2), np.arange(2), (0, np.int64(1))])
def test_indices_may_be_any_sequence_of_numbers(layers):
    assert calls._query({"layers": layers}) == {"layers": "0,1"}
    assert json.loads(json.dumps(calls.plain({"attention": {"layers": layers}}))) == {"attention": {"layers": [0, 1]}}


def test_another_input_is_given_as_the_model_takes_it_or_as_its_answer(tmp_path):
    photo = Image.new("RGB", (3, 2), "red")
    file = tmp_path / "red.png"
    photo.save(file)
    sent = base64.b64encode(file.read_bytes()).decode()
    pictures = described(inputs={"height": 2, "width": 3})
    for given in (file, str(file), file.read_bytes(), photo, np.asarray(photo)):
        assert png_of(calls.against(pictures, {"against": given})["against"]) == ("image", (3, 2))
        assert png_of(calls.against(pictures, {"against": {"image": given}})["against"]) == ("image", (3, 2))
    assert calls.against(pictures, {"against": {"image": sent}}) == {"against": {"image": sent}}
    answer = result()
    for given in (answer, {"id": answer}):
        assert calls.against(pictures, {"against": given}) == {"against": {"id": answer.id}}
    assert calls.against(MODEL, {"against": "a text"}) == {"against": {"text": "a text"}}
    two = calls.against(MODEL, {"against": ["a text", {"id": "1"}]})
    assert two == {"against": [{"text": "a text"}, {"id": "1"}]}
    assert calls.stored_attention(result(), two).query["against"] == '[{"text": "a text"}, {"id": "1"}]'
    assert calls.against(MODEL, {"against": {"label": "7"}, "digits": 3}) == {"against": {"label": "7"}, "digits": 3}
    assert calls.against(MODEL, {"digits": 3}) == {"digits": 3}
    for wrong, words in (
        (5, "picture: must be a path, an address, bytes"),
        (str(tmp_path / "rde.png"), "cannot be read"),
    ):
        with pytest.raises(regard.BadInput, match=words):
            calls.against(pictures, {"against": wrong})


def png_of(other):
    ((name, value),) = other.items()
    with Image.open(io.BytesIO(base64.b64decode(value))) as image:
        return name, image.size
