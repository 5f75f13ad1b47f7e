import base64

import numpy as np
import pytest
from regard import BadInput
from regard.attention import read_attention, read_map

RNG = np.random.default_rng(0)
TOKEN = {"text": "a", "span": [0, 1], "special": False}
IMAGE = {"width": 30, "height": 20, "orientation": 6, "box": {"left": 5, "top": 0, "right": 25, "bottom": 20}}
GRID = {"grid": {"rows": 2, "columns": 3}, "prefix": 1}


def mapped(values, **changed):
    known = {"name": "encoder", "kind": "encoder", "layer": None, "heads": "mean", "normalized": True}
    given = {"shape": list(values.shape), "values": values.tolist()}
    return known | given | changed


def attention(values, method="raw", tokens=GRID, image=IMAGE, **changed):
    return read_attention(
        {"method": method, "maps": [mapped(values)], "tokens": tokens, **({"image": image} if image else {}), **changed}
    )


def test_values_are_lists_or_the_bytes_of_floats_or_of_steps():
    values = RNG.random((2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(read_map(mapped(values)).values, values)
    encoded = base64.b64encode(values.tobytes()).decode()
    found = read_map(mapped(values) | {"values": encoded, "dtype": "float32"}).values
    np.testing.assert_array_equal(found, values)
    steps = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    encoded = base64.b64encode(steps.tobytes()).decode()
    found = read_map(mapped(steps) | {"values": encoded, "dtype": "uint8", "scale": 0.5, "offset": -1}).values
    np.testing.assert_array_equal(found, steps * 0.5 - 1)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    "broken", [{"values": "AAAA", "dtype": "float32"}, {"shape": [1]}, {"dtype": "x", "values": ""}]
)
def test_values_that_do_not_fit_are_an_error(broken):
    with pytest.raises((ValueError, TypeError)):
        read_map(mapped(np.zeros((1, 1, 2))) | broken)


def test_heat_is_of_a_head_a_row_or_their_means():
    values = RNG.random((2, 7, 7)).astype(np.float32)
    found = attention(values)
    patch = values[1, 3, 1:].reshape(2, 3)
    heat = found.heat(head=1, row=3, smooth=False)
    assert heat.shape == (20, 30)
    assert heat[2, 6] == pytest.approx(patch[0, 0])
    assert heat[18, 24] == pytest.approx(patch[1, 2])
    assert np.isnan(heat[:, :5]).all()
    mean = values.mean(0)[1:].mean(0)[1:].reshape(2, 3)
    assert found.heat(smooth=False)[2, 6] == pytest.approx(mean[0, 0])
    assert found.heat(smooth=False, outside=0)[0, 0] == 0
    assert found.heat(upright=False).shape == (30, 20), "the file stores it turned by a quarter"


def test_rows_of_relevance_are_without_the_identity_that_they_start_from():
    values = np.eye(7, dtype=np.float32)[None] + 0.25
    assert attention(values, "relevance").heat(row=2, smooth=False)[2, 6] == pytest.approx(0.25)
    assert attention(values, "raw").heat(row=1, smooth=False)[2, 6] == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"map": 1}, "map: must be -1 to 0"),
        ({"head": 2}, "head: must be -2 to 1"),
        ({"row": 7}, "row: must be -7 to 6"),
    ],
)
def test_what_is_not_there_is_refused(given, said):
    with pytest.raises(BadInput, match=said):
        attention(np.zeros((2, 7, 7))).heat(**given)


def test_a_row_for_each_word_must_be_named():
    found = attention(np.zeros((1, 4, 7)))
    assert found.heat(row=3).shape == (20, 30)
    with pytest.raises(BadInput, match="row: must be given, 0 to 3"):
        found.heat()


def test_heat_is_of_images_and_of_whole_maps():
    with pytest.raises(BadInput, match="must be of an image"):
        attention(np.zeros((1, 1, 1)), tokens={"source": [TOKEN]}, image=None).heat()
    with pytest.raises(BadInput, match="with pool"):
        attention(np.zeros((1, 1, 4))).heat()


def test_figures_curves_and_the_other_input_are_read():
    curve = {"name": "deletion", "probabilities": [1, 0.5], "area": 0.75}
    found = attention(
        np.zeros((1, 1, 1)), tokens={"source": [TOKEN]}, image=None,
        diagnostics=[{"kind": "encoder", "max_entropy": 1.5, "entropy": [[1.0, 0.5]], "special": [[0, 0]]}],
        evaluation={"measure": "probability", "fractions": [0, 1], "target": None,
                    "curves": [{**curve, "random": {"probabilities": [1, 1], "area": 1}}],
                    "compare": [{"method": "libra", "deletion": curve, "insertion": curve}]},
        against={"kind": "text", "maps": [mapped(np.ones((1, 1, 2)))], "tokens": {"source": [TOKEN, TOKEN]}},
    )  # fmt: skip
    assert found.tokens["source"][0].span == (0, 1)
    assert found.diagnostics[0].heads["entropy"].tolist() == [[1.0, 0.5]]
    assert set(found.diagnostics[0].heads) == {"entropy", "special"}
    names = [(one.method, one.name, one.area) for one in found.evaluation.curves]
    assert names == [
        ("raw", "deletion", 0.75),
        ("random", "deletion", 1),
        ("libra", "deletion", 0.75),
        ("libra", "insertion", 0.75),
    ]
    assert found.against.maps[0].values.shape == (1, 1, 2)
    assert found.against.method == "raw"
