"""Drawing of attention over a graph: heat on its nodes, and between them lines as thick as what one gives another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from service.explanations.colormaps import COLORMAPS, SIGNED
from service.explanations.drawing import Panel, Style, check_size, finite, levels_of, tiles_of
from service.explanations.lettering import INK, PAPER, fitting, font_of
from service.explanations.scale import matrix_range
from service.inputs.model_input import Graph, Token

SIDE = 480  # pixels of a panel, unless the picture has a width
MARGIN = 0.1  # of the side, around all nodes
RADIUS = 0.028  # of a node, of the side; many nodes are smaller
CROWDED = 40  # nodes, from which names would overlap
THICKEST = 0.025  # a line, of the side
LEAST_SHARE = 0.02  # of the largest value, from which a line is drawn
LINK = (255, 190, 120)
TYPES = ((120, 120, 120), (31, 119, 180), (44, 160, 44), (148, 103, 189), (214, 39, 40), (140, 86, 75))
"""The colours of edges by type; where there are more they begin again."""
ARROW = 0.018  # the length of an arrow's head, of the side


@dataclass(frozen=True)
class GraphPanel:
    """A map over a graph: values (row, node), and the node that each row stands for; None for a whole answer."""

    panel: Panel
    rows: Sequence[int | None]


def draw(
    graph: Graph, nodes: Sequence[Token], panels: Sequence[GraphPanel], style: Style, max_pixels: int, width: int | None
) -> Image.Image:
    """Return a panel for each map. A node's heat is the mean of all rows. Raises TooLarge above `max_pixels`."""
    tiles = tiles_of(SIDE, SIDE, len(panels), width)
    check_size(tiles.size, max_pixels)
    sheet = tiles.sheet([one.panel.title for one in panels])
    for index, one in enumerate(panels):
        sheet.paste(_drawn(graph, nodes, one, style, tiles.width), tiles.corner(index))
    return sheet


def _drawn(graph: Graph, nodes: Sequence[Token], shown: GraphPanel, style: Style, side: int) -> Image.Image:
    image = Image.new("RGB", (side, side), PAPER)
    pen = ImageDraw.Draw(image)
    places = [tuple(place) for place in ((MARGIN + (1 - 2 * MARGIN) * graph.places) * side).tolist()]
    values = finite(shown.panel.values)
    between = {
        (row, node): abs(value)
        for row, own in zip(shown.rows, values.tolist(), strict=True)
        for node, value in enumerate(own)
        if row is not None and row != node
    }
    most = max(between.values(), default=0)
    for (row, node), value in sorted(between.items(), key=lambda one: one[1]):
        if row is not None and value > LEAST_SHARE * most:
            pen.line((*places[row], *places[node]), LINK, max(1, round(THICKEST * side * value / most)))
    radius = RADIUS * side * min(1, math.sqrt(CROWDED / len(nodes)))
    for source, target, kind in graph.edges:
        colour = TYPES[kind % len(TYPES)]
        pen.line((*places[source], *places[target]), colour, max(1, side // 240))
        if graph.directed and source != target:
            _arrow(pen, places[source], places[target], colour, radius, ARROW * side)
    heat = values.mean(0)
    table = SIGNED if shown.panel.signed else COLORMAPS[style.colormap]
    levels = levels_of(matrix_range(heat, signed=shown.panel.signed).shares(heat), table)
    font = font_of(max(9, side // 36))
    for (across, down), level, token in zip(places, levels.tolist(), nodes, strict=True):
        pen.ellipse((across - radius, down - radius, across + radius, down + radius), tuple(table[level].tolist()), INK)
        if len(nodes) <= CROWDED:
            pen.text((across, down + radius), fitting(token.text, font, side // 4), INK, font, "ma")
    return image


def _arrow(
    pen: ImageDraw.ImageDraw,
    source: Sequence[float],
    target: Sequence[float],
    colour: tuple[int, int, int],
    radius: float,
    length: float,
) -> None:
    """Draw the head of an edge where it meets the circle of its target."""
    (x, y), (dx, dy) = target, np.subtract(target, source)
    far = max(float(np.hypot(dx, dy)), 1e-9)
    dx, dy = dx / far, dy / far
    tip = x - radius * dx, y - radius * dy
    back = tip[0] - length * dx, tip[1] - length * dy
    half = length / 3
    pen.polygon((tip, (back[0] - half * dy, back[1] + half * dx), (back[0] + half * dy, back[1] - half * dx)), colour)
