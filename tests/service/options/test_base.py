"""How tokens are chosen: what a request says, and what the model's defaults say where it does not."""

import pytest

from contract.generation import Generation, Sampling
from service.errors import Unacceptable
from service.options.base import parse
from service.options.generation import GenerateOptions

DRAWS = Sampling(temperature=0.7, top_k=5, top_p=0.9)
ASKED = Sampling(temperature=0.7, top_k=5, top_p=0.9, by_default=False)


@pytest.mark.parametrize(("given", "shown"), [(-1, "-1"), ("4", '"4"'), ("secret words", None), (4.5, "4.5")])
def test_a_number_that_is_refused_is_shown_and_a_string_of_digits_as_a_string(given, shown):
    with pytest.raises(Unacceptable) as refused:
        parse(GenerateOptions, {"num_beams": given}, strings=False)
    assert str(refused.value).startswith("num_beams: ")
    assert str(refused.value).partition(", given ")[2] == (shown or "")


def test_the_name_of_an_option_that_others_call_otherwise_is_said():
    with pytest.raises(Unacceptable) as refused:
        parse(GenerateOptions, {"stop_sequences": ["a"]}, strings=False)
    assert str(refused.value) == "stop_sequences: is not served; it is stop here"
    assert refused.value.errors[0]["loc"] == "stop_sequences"


@pytest.mark.parametrize(
    ("given", "default", "wanted"),
    [
        ({}, None, None),
        ({}, DRAWS, DRAWS),
        ({"seed": 3}, DRAWS, DRAWS),
        ({"temperature": 0}, DRAWS, None),
        ({"num_beams": 4}, DRAWS, None),
        ({"num_beams": 1}, DRAWS, DRAWS),
        ({}, ASKED, None),
        ({"seed": 3, "num_beams": 1}, ASKED, None),
        ({"temperature": 2}, ASKED, Sampling(temperature=2, top_k=5, top_p=0.9)),
        ({"top_k": 3}, ASKED, Sampling(temperature=0.7, top_k=3, top_p=0.9)),
        ({"temperature": 2}, None, Sampling(temperature=2)),
        ({"temperature": 2}, DRAWS, Sampling(temperature=2, top_k=5, top_p=0.9)),
        ({"top_k": 3}, None, Sampling(top_k=3)),
        ({"top_k": 3}, DRAWS, Sampling(temperature=0.7, top_k=3, top_p=0.9)),
        ({"top_p": 1}, DRAWS, Sampling(temperature=0.7, top_k=5, top_p=1)),
        ({"temperature": 1, "top_k": 9, "top_p": 0.5}, DRAWS, Sampling(temperature=1, top_k=9, top_p=0.5)),
    ],
    ids=str,
)
def test_what_a_request_does_not_say_is_the_models_default(given, default, wanted):
    assert GenerateOptions(**given).sampling(default) == wanted


THREE = Generation(start=1, end=2, max_new_tokens=9, caches=(), memory=(), sampling=DRAWS, num_return_sequences=3)


@pytest.mark.parametrize(
    ("asked", "texts"),
    [
        ({}, 3),
        ({"stream": True}, 1),
        ({"temperature": 0}, 1),
        ({"num_beams": 2}, 2),
        ({"num_beams": 4}, 3),
        ({"num_return_sequences": 2}, 2),
    ],
)
def test_a_model_that_answers_several_texts_refuses_no_request_that_does_not_ask_for_them(asked, texts):
    assert GenerateOptions(**asked).texts(THREE) == texts
