import base64

import numpy as np
import pytest
from regard import BadInput
from regard.reading import read_attention, read_map

from tests.client import conftest

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
    found = read_map(mapped(steps) | {"values": encoded, "dtype": "uint8", "scale": 0.5, "zero": 3}).values
    np.testing.assert_array_equal(
        found, [[[0.5 * (n - 3) * abs(n - 3) for n in row] for row in head] for head in steps.astype(float)]
    )
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


@pytest.mark.parametrize("signed", [False, True])
def test_heat_in_scale_ends_where_most_is_seen_before_it_is_smoothed(signed):
    values = np.array([[[9, 0.1, -0.2, 0.4, 0.8, 0.3, 0.1]]], np.float32)
    found = read_attention({"method": "libra", "maps": [mapped(values, signed=signed)], "tokens": GRID, "image": IMAGE})
    plain, heat = found.heat(smooth=False), found.heat(smooth=False, scale=True)
    patches = values[0, 0, 1:]
    wanted = patches / 0.8 if signed else (patches + 0.2) / 1.0
    np.testing.assert_allclose(heat[[2, 2, 2, 18, 18, 18], [6, 15, 24, 6, 15, 24]], wanted, atol=1e-6)
    assert plain[2, 6] == pytest.approx(0.1)
    assert np.isnan(heat[0, 0])


def test_parts_have_colours_and_no_heat():
    values = RNG.random((3, 1, 7)).astype(np.float32)
    found = attention(values, "parts")
    colours = found.colours(smooth=False)
    assert colours.shape == (20, 30, 3)
    np.testing.assert_allclose(colours[2, 6], values[:, 0, 1])
    np.testing.assert_allclose(colours[18, 24], values[:, 0, 6])
    assert found.colours(upright=False, outside=0).shape == (30, 20, 3)
    with pytest.raises(BadInput, match=r"given parts, which have colours; take colours\(\)"):
        found.heat()
    with pytest.raises(BadInput, match="colours: must be of parts, given raw"):
        attention(RNG.random((1, 1, 7))).colours()


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


ROWS = RNG.random((1, 2, 6)).astype(np.float32)


def patch(heat):
    """The values of the patches of a heat map of 12 x 8 pixels."""
    return heat[2::4, 2::4].ravel()


def test_what_a_detector_looks_for_is_read():
    found = read_attention(conftest.looked(conftest.mapped(ROWS, objects=[3, 1])))
    assert [one.object for one in found.objects] == [0, 1, 2, 3]
    assert found.objects[1].box == (1, 1, 3.5, 6)
    assert found.maps[0].objects == [3, 1]
    assert found.tokens == {}
    assert found.box.right == 12


def test_heat_of_an_object_is_its_row():
    other = conftest.mapped(ROWS[:, :, :4], "decoder", objects=[3, 1])
    found = read_attention(conftest.looked(other, *(conftest.mapped(ROWS * n, objects=[3, 1]) for n in (1, 2))))
    np.testing.assert_allclose(patch(found.heat(object=1, smooth=False)), ROWS[0, 1])
    np.testing.assert_allclose(patch(found.heat(object=3, map=1, smooth=False)), 2 * ROWS[0, 0])
    np.testing.assert_allclose(patch(found.heat(map=1, row=1, smooth=False)), ROWS[0, 1])
    with pytest.raises(BadInput, match="object: must be one that has a row over patches in these maps, given 2"):
        found.heat(object=2)
    with pytest.raises(BadInput, match="object: chooses the row, so row must be left out"):
        found.heat(object=1, row=0)
    with pytest.raises(BadInput, match="object: or row must be given, since the map has a row for each object"):
        found.heat(map=1)


def test_heat_of_an_object_that_is_explained_is_that_of_its_map():
    maps = [conftest.mapped(ROWS[:, n : n + 1], target={"object": 3 - n, "index": 2, "label": "a"}) for n in (0, 1)]
    found = read_attention(conftest.looked(*maps, method="libra"))
    assert [one.objects for one in found.maps] == [(3,), (2,)]
    np.testing.assert_allclose(patch(found.heat(object=2, smooth=False)), ROWS[0, 1])
    np.testing.assert_allclose(patch(found.heat(smooth=False)), ROWS[0, 0])


def test_objects_that_are_tokens_behind_the_patches_are_none_of_the_heat():
    values = RNG.random((1, 2, 1 + 6 + 4)).astype(np.float32)
    found = read_attention(conftest.looked(conftest.mapped(values, "encoder", objects=[0, 2]), prefix=1))
    np.testing.assert_allclose(patch(found.heat(object=2, smooth=False)), values[0, 1, 1:7])
    whole = RNG.random((1, 11, 11)).astype(np.float32)
    found = read_attention(conftest.looked(conftest.mapped(whole, "encoder"), prefix=1))
    mean = whole[0, 1:7, 1:7].mean(0)
    np.testing.assert_allclose(patch(found.heat(smooth=False)), mean, rtol=1e-6)


def test_heat_of_a_stage_is_over_the_grid_of_the_stage():
    values = np.arange(2, dtype=np.float32)[None, None]
    found = read_attention(conftest.looked(conftest.mapped(values, "encoder", grid={"rows": 1, "columns": 2})))
    heat = found.heat(smooth=False)
    later = conftest.mapped(1 - values, "stage2", grid={"rows": 1, "columns": 2})
    both = read_attention(conftest.looked(conftest.mapped(values, "encoder", grid={"rows": 1, "columns": 2}), later))
    np.testing.assert_array_equal(both.heat(map=0, smooth=False), heat)
    np.testing.assert_array_equal(both.heat(smooth=False), 1 - heat)  # the last stage, as the service draws it
    assert heat.shape == (8, 12)
    assert (heat[:, :6] == 0).all()
    assert (heat[:, 6:] == 1).all()


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


def test_a_graph_has_its_nodes_edges_and_places():
    nodes = [{"text": "virtual", "span": None, "special": True}, {"text": "red", "span": [0, 1], "special": False}]
    sent = {"directed": True, "edges": [[0, 0, 3]], "places": [[0.5, 0.25]]}
    found = attention(np.zeros((1, 2, 2)), tokens={"node": nodes}, image=None, graph=sent)
    assert [(token.text, token.span) for token in found.tokens["node"]] == [("virtual", None), ("red", (0, 1))]
    assert found.graph.directed
    assert found.graph.edges.tolist() == [[0, 0, 3]]
    assert found.graph.places.tolist() == [[0.5, 0.25]]
    alone = attention(np.zeros((1, 1, 2)), tokens={"node": nodes}, image=None, graph=sent | {"edges": []})
    assert alone.graph.edges.shape == (0, 3)
    with pytest.raises(BadInput, match="must be of an image"):
        found.heat()
    assert attention(np.zeros((1, 7, 7))).graph is None


def test_what_written_tokens_rest_on_is_an_array_for_each_part():
    parts = [{"source": {"sum": 2.0, "share": 0.25}, "prefix": {"sum": -1.0, "share": 0.75}}, {"source": {"share": 1}}]
    targets = [{"position": at, "parts": own} for at, own in enumerate(parts)]
    found = read_map(mapped(np.zeros((1, 2, 3), np.float32), targets=targets)).rests_on
    assert {name: own.tolist() for name, own in found.items()} == {"source": [0.25, 1], "prefix": [0.75, 0]}
    assert read_map(mapped(np.zeros((1, 2, 3), np.float32))).rests_on == {}
