"""What an image becomes as the input of a model; that it is answered is tested in `tests/end_to_end/`."""

import numpy as np
from PIL import Image

from contract.input_rules import ImageRule
from contract.manifest import Kind
from service.inputs.image_inputs import ImageInputs
from service.inputs.image_preprocessing import decode_image
from tests.samples.images import encoded, middle

CELLS = Kind(
    name="encoder", kind="encoder", methods=("raw",), maps=("encoder.blocks.0.attention",), heads=1, query="image",
    key="image", normalized=True, grid=(2, 3),
)  # fmt: skip
FITTED = ImageRule(height=8, width=12, channels=1, locate="fit", mean=(0.5,), std=(0.5,))


def test_of_a_picture_that_is_fitted_it_is_told_which_cells_begin_in_it_and_how_many_pixels_are_its():
    inputs = ImageInputs(FITTED, (CELLS,), fed={"image_visible", "shown"})
    for size, cells, shown in (
        ((12, 8), [1] * 6, [8, 12]),
        ((50, 50), [1, 1, 0, 1, 1, 0], [8, 8]),
        ((60, 20), [1, 1, 1, 0, 0, 0], [4, 12]),
        ((31, 53), [1, 0, 0, 1, 0, 0], [8, 4]),
    ):
        found = inputs.image_input(decode_image(encoded(Image.new("L", size)), FITTED, 10**4))
        assert found.arrays["image_visible"].tolist() == list(map(bool, cells))
        assert found.arrays["shown"].tolist() == shown
        assert found.arrays["shown"].dtype == np.int64
        assert found.arrays["pixels"].shape == (8, 12, 1)


def test_a_graph_that_takes_none_is_told_nothing():
    rule = middle(8, 12, 1)
    picture = decode_image(encoded(Image.new("L", (50, 50))), rule, 10**4)
    assert ImageInputs(rule, (CELLS,)).image_input(picture).arrays.keys() == {"pixels"}
    fitted = decode_image(encoded(Image.new("L", (50, 50))), FITTED, 10**4)
    found = ImageInputs(FITTED, (CELLS,), fed={"pixels", "image_visible"}).image_input(fitted)
    assert found.arrays.keys() == {"pixels", "image_visible"}  # as of an artifact made before `shown`


def test_pixels_may_be_replaced():
    picture = decode_image(encoded(Image.new("L", (50, 50), 9)), FITTED, 10**4)
    found = ImageInputs(FITTED, (CELLS,), fed={"image_visible"}).image_input(picture, np.zeros_like(picture.pixels))
    assert not found.arrays["pixels"].any()
    assert found.arrays["image_visible"].sum() == 4
