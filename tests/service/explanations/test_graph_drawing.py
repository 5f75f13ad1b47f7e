"""Drawing over a graph: the colour of a node, and how thick the lines between nodes are."""

import numpy as np
import pytest

from service.errors import TooLarge
from service.explanations.colormaps import COLORMAPS, SIGNED
from service.explanations.drawing import Panel, Style
from service.explanations.graph_drawing import LINK, MARGIN, SIDE, TYPES, GraphPanel, draw
from service.inputs.model_input import Graph, Token

NODES = [Token(0, "a", (0, 1)), Token(0, "b", (1, 2)), Token(0, "c", (2, 3))]
PATH = Graph([0, 0, 0], [(0, 1, 0), (1, 2, 1)], directed=False)


def drawn(values, rows=(None,), graph=PATH, *, signed=False, width=None):
    panel = GraphPanel(Panel("", np.array(values, float), signed), rows)
    return np.asarray(draw(graph, NODES, [panel], Style(), 10**6, width))


def inside(picture, graph, node):
    """Return the colour in the middle of a node; panels are the lower right of a picture."""
    across, down = ((MARGIN + (1 - 2 * MARGIN) * graph.places[node]) * SIDE).round().astype(int)
    top, left = picture.shape[0] - SIDE, picture.shape[1] - SIDE
    margin = left // 2
    return tuple(picture[top - margin + down, margin + across].tolist())


def test_nodes_are_coloured_from_zero_to_the_hottest():
    picture = drawn([[0.0, 0.5, 1.0]])
    table = COLORMAPS["viridis"]
    for node, level in ((0, 0), (1, len(table) // 2), (2, len(table) - 1)):
        np.testing.assert_allclose(inside(picture, PATH, node), table[level], atol=3)


def test_signed_nodes_have_zero_in_the_middle_of_two_colours():
    picture = drawn([[-1.0, 0.0, 1.0]], signed=True)
    for node, level in ((0, 0), (1, len(SIGNED) // 2), (2, len(SIGNED) - 1)):
        np.testing.assert_allclose(inside(picture, PATH, node), SIGNED[level], atol=4)


def count(picture, colour):
    return int((picture == colour).all(-1).sum())


def test_lines_are_as_thick_as_what_a_row_gives_a_node():
    assert count(drawn([[0.0, 1.0, 0.5]]), LINK) == 0
    one, two = (count(drawn([[0.2, 0.0, value]], rows=[1]), LINK) for value in (0.2, 0.8))
    assert one > 0
    assert count(drawn([[0.8, 0.0, 0.0]], rows=[1]), LINK) > 0
    assert two < one  # the other line is a quarter as thick


def test_edges_have_colours_by_type_and_directed_ones_an_arrow():
    plain = drawn([[0.0, 0.0, 0.0]])
    arrows = drawn([[0.0, 0.0, 0.0]], graph=Graph(PATH.types, PATH.edges, directed=True))
    for colour in TYPES[:2]:
        assert 0 < count(plain, colour) < count(arrows, colour)


def test_a_picture_of_a_width_has_it_and_one_of_too_many_pixels_is_refused():
    assert drawn([[0.0, 1.0, 2.0]], width=300).shape[1] == 300
    with pytest.raises(TooLarge, match="png: at most 1000 pixels"):
        draw(PATH, NODES, [GraphPanel(Panel("", np.zeros((1, 3))), [None])], Style(), 1000, None)
