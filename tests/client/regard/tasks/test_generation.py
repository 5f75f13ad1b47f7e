import json

import pytest
from regard import calls
from regard.calls import Reply
from regard.inputs import Encoded
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
    ],
)
def test_what_is_drawn_at_random_is_not_asked_for_again(options, repeatable, of_a_model_that_samples):
    for sampling, wanted in ((None, repeatable), ({"temperature": 1.0}, of_a_model_that_samples)):
        model = described("text2text-generation", endpoints=["generate", "attention"], sampling=sampling)
        reply = Reply(200, json.dumps({"id": "an-id", "results": [{"text": "b"}]}).encode())
        (found,) = calls.predictions(ATTENTION, model, [Encoded(text="a")], options).read(reply)
        assert found.asked.is_repeatable is wanted
