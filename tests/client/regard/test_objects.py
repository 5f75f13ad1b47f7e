import pytest
from regard import Box, Detected
from regard.objects import read_box, read_detected

FOUND = {"label": "cat", "index": 2, "probability": 0.75, "object": 3,
         "box": {"left": 1.5, "top": 2, "right": 30, "bottom": 20.25}}  # fmt: skip


def test_an_object_has_a_class_a_number_and_a_box():
    found = read_detected(FOUND)
    assert found == Detected("cat", 2, 0.75, 3, Box(1.5, 2, 30, 20.25))
    assert found.box.bottom == 20.25
    left, top, right, bottom = found.box
    assert (left, top, right, bottom) == (1.5, 2, 30, 20.25), "it is what Pillow's crop and draw take"


@pytest.mark.parametrize("missing", [*FOUND, "left", "bottom"])
def test_an_object_of_another_shape_is_an_error(missing):
    box = {name: value for name, value in FOUND["box"].items() if name != missing}
    with pytest.raises(KeyError):
        read_detected({name: value for name, value in {**FOUND, "box": box}.items() if name != missing})
    with pytest.raises((KeyError, TypeError)):
        read_box([1, 2, 3, 4])
