import numpy as np
import pytest
import regard
from regard import results
from regard.inputs import Encoded
from regard.results import Asked, read_result

from tests.client.conftest import detected, detector, looked, mapped


class Detector:
    """Notes what an answer asks, and answers a row of patches."""

    def __init__(self):
        self.asked = []

    def look(self, result, method, **options):
        self.asked.append((method, options))
        return regard.reading.read_attention(looked(mapped(np.ones((1, 1, 6), np.float32))))


def found(*objects, client=None):
    asked = Asked(detector(), Encoded(picture=b""), {}, "an-id", client)
    return read_result(regard.Detection, {"objects": list(objects)}, asked)


def test_heat_of_what_was_found_is_that_of_the_surest_object_or_of_another():
    service = Detector()
    seen = found(detected(3), detected(1), client=service)
    assert seen.heat().shape == (8, 12)
    seen.heat("raw")
    seen.heat("raw", object=0, layers=[0])
    seen.heat("libra", object=1, against={"index": 2})
    seen.heat("norm", object=1, kind="encoder")
    assert service.asked == [
        (None, {"kind": "cross", "target": 3}),
        ("raw", {"kind": "cross", "queries": [3]}),
        ("raw", {"kind": "cross", "queries": [0], "layers": [0]}),
        ("libra", {"kind": "cross", "target": 1, "against": {"index": 2}}),
        ("norm", {"kind": "encoder", "queries": [1]}),
    ], "an object that is named is asked for whatever else is"


def test_heat_by_other_words_is_as_they_say():
    service = Detector()
    seen = found(client=service)
    seen.heat("raw", kind="encoder")
    seen.heat("libra", target=2)
    seen.heat("raw", row=0)
    assert [options for _, options in service.asked] == [{"kind": "encoder"}, {"target": 2}, {}]
    with pytest.raises(regard.BadInput, match="object: must be given, since none was found; a lower threshold"):
        seen.heat("raw")
    with pytest.raises(regard.BadInput, match="object: must be 0 to 3"):
        seen.heat("raw", object=4)


def test_what_was_found_is_said_with_its_place():
    seen = found(detected(3), detected(1, "dog", 0.625))
    assert results.described(seen) == "m: cat 90.0% at 3,1 to 6,6; dog 62.5% at 1,1 to 4,6"
    assert results.described(found()) == "m: nothing found"
