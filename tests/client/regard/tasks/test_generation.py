import json

import pytest
from regard import calls
from regard.calls import Reply
from regard.inputs import Encoded
from regard.tasks.generation import GENERATE, GeneratedToken, OtherText
from regard.tasks.task import ATTENTION

from tests.client.conftest import described


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
