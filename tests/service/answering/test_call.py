"""The model that a request names, and what is said if there is none of that name."""

from types import SimpleNamespace

import pytest

from contract.names import BUNDLED
from service.answering.call import find
from service.errors import NotFound


def said(name, served=("dates", "digits")):
    with pytest.raises(NotFound) as refused:
        find(SimpleNamespace(models=dict.fromkeys(served, "a model")), name)
    return str(refused.value)


def test_a_model_is_found_by_its_name():
    assert find(SimpleNamespace(models={"digits": "a model"}), "digits") == "a model"


@pytest.mark.parametrize("name", ["digts", "Digits", "digit"])
def test_a_near_name_is_answered_with_the_model_that_was_meant_and_is_not_echoed(name):
    assert said(name) == "model: must be one of dates, digits, given another; did you mean digits?"


@pytest.mark.parametrize("name", ["captions-soft", "captions-sof"])
def test_of_a_bundled_model_that_is_not_served_the_command_is_said_that_makes_it(name):
    assert said(name) == (
        "model: must be one of dates, digits, given another; captions-soft is bundled, but not served here: "
        "make artifacts/captions-soft/1/manifest.json, then start or reload"
    )


def test_of_a_bundled_model_that_attends_to_nothing_it_is_said_that_none_can_be_served():
    words = "this one is bundled, but attends to nothing, and is not served"
    assert said("dates-plain") == f"model: must be one of dates, digits, given another; {words}"


@pytest.mark.parametrize("name", ["secret-words", "", "digits" * 100, "<b>digit</b>"])
def test_of_a_name_that_is_near_to_none_nothing_more_is_said(name):
    assert said(name) == "model: must be one of dates, digits, given another"


def test_a_long_list_of_models_is_cut_but_all_of_them_may_be_meant():
    words = said("minil", served=BUNDLED)
    assert words.endswith("dates-rank and 29 more, given another; did you mean minilm?")


def test_without_any_model_that_is_said():
    assert said("digits", served=()) == "model: none is loaded"
