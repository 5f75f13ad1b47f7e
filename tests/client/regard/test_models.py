import pytest
from regard import BadInput
from regard.models import read_description
from regard.plans import with_method

from tests.client.conftest import ENCODER, described, detector


def best(method, measure="deletion, lower is better", **values):
    return {"method": method, "measure": measure, "values": values}


def test_the_usual_way_to_look_is_what_the_service_says():
    shown = {"method": "rollout", "sinks": "out", "discard": 0.9}
    model = described(usual=shown)
    assert with_method(model, None, {"digits": 3}) == {**shown, "digits": 3}
    assert with_method(model, "raw", {"layers": "all"}) == {"method": "raw", "layers": "all"}


@pytest.mark.parametrize(
    ("method", "own"),
    [
        (None, {"target": 2}),
        ("best", {"target": 2}),
        ("relevance", {"target": 2}),
        ("raw", {"queries": [2]}),
        ("norm", {"queries": [2]}),
    ],
)
def test_a_detector_is_asked_for_the_row_of_an_object_or_what_explains_it(method, own):
    assert detector().asking_for(2, method) == {"kind": "cross", **own}


def test_objects_that_are_tokens_stand_behind_the_patches():
    assert detector(ENCODER).asking_for(3, "raw") == {"kind": "encoder", "queries": [1 + 6 + 3]}
    assert detector(ENCODER).asking_for(3, "libra") == {"kind": "encoder", "target": 3}


@pytest.mark.parametrize("number", [-1, 4])
def test_an_object_that_no_detector_looks_for_is_refused(number):
    with pytest.raises(BadInput, match=f"object: must be 0 to 3 for this model, given {number}"):
        detector().asking_for(number, "raw")
    with pytest.raises(BadInput, match="object: this model shows no patches by object"):
        detector({"encoder": {**ENCODER["encoder"], "suffix": 0}}).asking_for(1, "raw")


def test_a_detector_says_how_it_detects():
    assert detector().detection == {"objects": 4, "threshold": 0.5}
    assert described().detection is None


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


@pytest.mark.parametrize(
    ("inputs", "sort"),
    [
        ({"height": 8, "width": 8}, "image"),
        ({"rate": 16000, "step": 0.02}, "sound"),
        ({"node_types": ["plain"], "edge_types": ["edge"]}, "graph"),
        ({"max_tokens": 9}, "text"),
    ],
)
def test_the_sort_of_inputs_is_told_by_what_is_said_of_them(inputs, sort):
    assert described(inputs=inputs).sort == described(inputs=inputs).sent == sort
