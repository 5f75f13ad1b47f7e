import pytest
from regard.models import read_description

from tests.client.conftest import described


def best(method, measure="deletion, lower is better", **values):
    return {"method": method, "measure": measure, "values": values}


@pytest.mark.parametrize(
    ("given", "usual"),
    [
        ({}, "rollout"),
        ({"methods": ["raw"]}, "raw"),
        ({"best": best("libra", libra=0.1, raw=0.3), "methods": ["raw", "libra"]}, "libra"),
        # of an embedding, what needs a second input is not usual
        (
            {
                "task": "feature-extraction",
                "methods": ["raw", "rollout", "norm", "libra"],
                "best": best("libra", libra=0.1, raw=0.3, rollout=0.2, norm=0.4),
            },
            "rollout",
        ),
        (
            {
                "task": "feature-extraction",
                "methods": ["raw", "rollout", "norm", "libra"],
                "best": best("libra", "insertion", libra=0.9, raw=0.3, rollout=0.2, norm=0.4),
            },
            "norm",
        ),
    ],
)
def test_the_usual_method_is_what_measured_best(given, usual):
    assert described(**given).usual_method == usual


def test_what_the_service_says_is_read():
    found = described(labels=1000, inputs={"max_tokens": 9, "mask": "[MASK]"})
    assert (found.takes_images, found.labels, found.max_inputs, found.best) == (False, (), 4, None)
    assert described().takes_images
    assert described().labels == ["a", "b"]
    assert described(best=best("raw")).best == "raw"


def test_a_description_of_another_shape_is_an_error():
    with pytest.raises(KeyError):
        read_description({"name": "m"})


def test_what_a_service_says_of_its_models(service):
    digits, dates = service["digits"].description, service["dates"].description
    assert (digits.takes_images, dates.takes_images) == (True, False)
    assert digits.labels == [str(number) for number in range(10)]
    assert set(dates.kinds) == {"encoder", "decoder", "cross"}
    assert digits.ready
    assert digits.best in digits.methods
    assert "methods" not in repr(digits.json.get("name"))
