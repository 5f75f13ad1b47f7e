import json

import numpy as np
import pytest
import regard
from regard import calls
from regard.calls import Reply
from regard.inputs import Encoded, encode
from regard.results import asked_for
from regard.tasks.generation import GENERATE, GeneratedToken, OtherText
from regard.tasks.task import ATTENTION

from tests.client.conftest import described
from tests.samples import chats
from tests.samples.in_process import in_process


@pytest.mark.parametrize(
    ("options", "repeatable", "of_a_model_that_samples"),
    [
        ({}, True, False),
        ({"seed": None}, True, False),
        ({"num_beams": 2}, True, True),
        ({"num_beams": 1}, True, False),
        ({"temperature": 0}, True, True),
        ({"temperature": 0, "top_k": 5}, True, True),
        ({"temperature": 0.7}, False, False),
        ({"temperature": 0.7, "seed": None}, False, False),
        ({"temperature": 0.7, "seed": 0}, True, True),
        ({"top_k": 5}, False, False),
        ({"top_p": 0.9, "seed": 1}, True, True),
        ({"min_p": 0.1}, False, False),
        ({"typical_p": 0.5}, False, False),
    ],
)
def test_what_is_drawn_at_random_is_not_asked_for_again(options, repeatable, of_a_model_that_samples):
    for sampling, wanted in ((None, repeatable), ({"temperature": 1.0}, of_a_model_that_samples)):
        model = described("text2text-generation", endpoints=["generate", "attention"], sampling=sampling)
        reply = Reply(200, json.dumps({"id": "an-id", "results": [{"text": "b"}]}).encode())
        (found,) = calls.predictions(ATTENTION, model, [Encoded(text="a")], options).read(reply)
        assert found.asked.is_repeatable is wanted


def test_the_other_texts_of_an_answer_are_read():
    token = {"index": 0, "token": 3, "text": "b", "log_probability": -0.5}
    text = {"text": "b", "tokens": [token], "score": -0.5, "finish_reason": "stop"}
    model = described("text2text-generation", endpoints=["generate", "attention"])
    body = {"id": "an-id", "results": [{**text, "others": [{**text, "text": "c", "score": -0.7}]}]}
    reply = Reply(200, json.dumps(body).encode())
    (found,) = calls.predictions(GENERATE, model, [Encoded(text="a")], {"num_return_sequences": 2}).read(reply)
    assert found.others == [OtherText("c", [GeneratedToken(0, 3, "b", -0.5)], -0.7, "stop")]
    assert found.tokens == found.others[0].tokens


MESSAGES = [{"role": "system", "content": "be old"}, {"role": "user", "content": "the cat sat on"}]


@pytest.fixture(scope="module")
def address():
    with in_process(chats.folder() / "artifacts") as client:
        yield str(client.base_url)


def test_a_chat_is_answered_whole_as_a_stream_in_a_batch_and_looked_at(address):
    with regard.connect(address) as service:
        model = service["chat"]
        found = model.generate(MESSAGES, attention="raw")
        target = chats.theirs(MESSAGES)[1]
        assert [one.token for one in found.tokens] == target[: len(found.tokens)]
        tokens = found.attention.json["tokens"]["target_input"]
        assert {one["role"] for one in tokens if one.get("message") == 1} == {"user"}
        assert model(MESSAGES).text == found.text
        with model.stream(MESSAGES) as stream:
            assert "".join(one.text for one in stream) == found.text
        assert stream.result.text == found.text
        both = model.generate_batch([MESSAGES, MESSAGES[1:], "plain text"])
        assert both[0].text == found.text != both[1].text
        stop = found.text[2:4]
        assert model.generate(MESSAGES, stop=stop).text == found.text[: found.text.index(stop)]
        alone = model.attention(MESSAGES, method="rollout").attention
        assert np.allclose(alone.maps[0].values, found.look("rollout").maps[0].values, atol=1e-6)
        assert asked_for(found)["text"] == "be old\nthe cat sat on\n"
        assert asked_for(found)["messages"] == MESSAGES
        with pytest.raises(regard.InputRefused, match="the last must be the user's"):
            model.generate(MESSAGES[:1])


@pytest.mark.anyio
async def test_a_chat_is_answered_by_the_twin(address):
    async with regard.AsyncService(address) as service:
        model = await service.model("chat")
        found = await model.generate(MESSAGES)
        async with model.stream(MESSAGES) as stream:
            assert "".join([one.text async for one in stream]) == found.text


@pytest.mark.parametrize("given", [[], ["text"], [{"role": "user"}], [MESSAGES[0], "text"]])
def test_a_list_of_what_is_no_message_is_not_sent(given):
    with pytest.raises(regard.BadInput, match="must be messages where it is a list"):
        encode(given, "text")
    with pytest.raises(regard.BadInput, match="lone surrogates"):
        encode([{"role": "user", "content": "\ud800"}], "text")
