"""The page draws a graph as the service's png does."""

import re

from service.api.page.joined import PAGE
from service.explanations import graph_drawing

TEXT = (PAGE / "graph_drawing.js").read_text(encoding="utf-8")


def coloured(found):
    return "#" + "".join(f"{one:02x}" for one in found)


def test_sizes_are_shares_of_the_drawing_as_in_the_png():
    names, shares = re.search(r"const \[(.*)\] = \[(.*)\]\.map\(\(share\) => share \* SIDE\)", TEXT).groups()
    page = dict(zip(names.split(", "), map(float, shares.split(", ")), strict=True))
    assert page == {name: getattr(graph_drawing, name) for name in ("MARGIN", "RADIUS", "THICKEST", "ARROW")}
    for name in ("CROWDED", "LEAST_SHARE"):
        assert float(re.search(rf"const {name} = (\S+)", TEXT)[1]) == getattr(graph_drawing, name)


def test_lines_and_edges_have_the_colours_of_the_png():
    assert re.search(r"const LINK = '(\S+)'", TEXT)[1] == coloured(graph_drawing.LINK)
    types = re.search(r"const TYPES = \[(.*)\]", TEXT)[1]
    assert re.findall("#[0-9a-f]{6}", types) == [coloured(one) for one in graph_drawing.TYPES]
