import pickle
import re

import pytest
import regard
from regard import errors
from regard.errors import Problem, refused

STATUSES = {400: "InputRefused", 401: "KeyRefused", 403: "KeyRefused", 404: "NotFound", 406: "InputRefused",
            408: "TooSlow", 413: "InputRefused", 414: "InputRefused", 415: "InputRefused", 422: "InputRefused",
            429: "Busy", 500: "ServiceFailed", 502: "ServiceFailed", 503: "NotReady", 504: "TooSlow"}  # fmt: skip


@pytest.mark.parametrize(("status", "name"), STATUSES.items())
def test_a_status_has_its_class_in_one_tree(status, name):
    error = refused(Problem(status, "Title", "queue: at most 8, given 9"))
    assert type(error).__name__ == name
    assert isinstance(error, regard.Refused)
    assert isinstance(error, regard.RegardError)
    assert error.status == status
    assert str(error).startswith("queue: at most 8, given 9 [")
    assert str(error).partition("] ")[2].endswith("."), "it says what to do next"


def test_what_is_not_there_is_listed_in_python_and_in_a_shell():
    said = str(refused(Problem(404, "Not Found", "model: is none")))
    assert "service.models() or, in a shell, `regard models` lists" in said


@pytest.mark.parametrize(
    "error",
    [regard.Busy(Problem(429, "busy", "queue: full", retry_after=2.0)), regard.StreamBroken("stream: broke off", "20")],
)
def test_a_pool_of_processes_can_hand_an_error_on(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_the_faults_of_options_are_said_once():
    given = ({"loc": "top_k", "msg": "at least 1"}, {"loc": "priority", "msg": "must be batch"})
    said = str(refused(Problem(422, "Unprocessable Entity", "top_k: at least 1", given)))
    advice = regard.InputRefused.advice
    assert said == f"top_k: at least 1 (top_k: at least 1; priority: must be batch) [422 Unprocessable Entity] {advice}"
    alone = str(refused(Problem(422, "Unprocessable Entity", "top_k: at least 1", given[:1])))
    assert alone == f"top_k: at least 1 [422 Unprocessable Entity] {advice}"


def test_the_tree_in_the_documentation_is_the_tree():
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__)
    defined = [
        name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, regard.RegardError)
    ]
    assert sorted(drawn) == sorted(set(defined) - {"RegardError"})
    assert all(hasattr(regard, name) for name in defined)


def test_an_index_that_is_not_there_is_refused():
    assert errors.checked("row", -1, 3) == -1
    with pytest.raises(errors.BadInput, match="row: must be -3 to 2, given 3"):
        errors.checked("row", 3, 3)
