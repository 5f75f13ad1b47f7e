"""What a figure of attention shows: heat over a picture, tokens in colour, or a matrix of tokens.

Colours and their ends are those of the service's pictures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from PIL import Image

from regard import axes
from regard.colours import HEAT, SIGNED, Colours, hexes, ink_on
from regard.errors import BadInput
from regard.figures import FRAME, Cell, Figure, Picture, Shape, Words, width_of
from regard.heat import Box
from regard.maps import Looked, Map

TEXT, GAP = 9.0, 6.0
"""Points: the height of letters, and the space around parts."""
STRIP = 440.0
"""Points of a line of tokens."""
TOKEN = 15.0
"""Points of the height of a token."""
SHOWN = 200.0
"""Points of the width of one of several pictures; of one alone, twice as many."""
MATRIX, LEAST_CELL, LARGEST_CELL = 400.0, 2.0, 15.0
"""Points of the width of a matrix alone, of which several have half; and of the side of its cells."""
SEAM = 0.3
"""Points by which a cell reaches under the next, so that none shows the ground."""
LONGEST = 24
"""Letters of a label."""
MOST_CELLS = 40_000
"""Cells and tokens of a figure."""
BAR, BAR_CELLS = 60.0, 30
"""Points of a bar of colours, and its cells."""
MOST_PIXELS = 1200
"""Pixels of the longer side of a picture within a figure; of those of several heads, half as many."""


@dataclass(frozen=True)
class Panel:
    """A part of a figure under a title."""

    title: str
    width: float
    height: float
    shapes: Sequence[Shape]


def figure_of(look: Looked, picture: Image.Image | None = None) -> Figure:
    """Return the figure of all maps of the last kind, such as `cross`.

    Over the `picture` that was sent, upright, where columns are patches; of one row as tokens in colour, those of the
    other text beneath them where it has a map too; else as matrices. Raises BadInput without maps, and for too many
    cells.
    """
    if not look.maps:
        raise BadInput("figure: must be of maps, given attention without any")
    shown = axes.maps_of(look)
    if sum(one.values.size for one in shown) > MOST_CELLS and picture is None:
        raise BadInput(f"figure: must have at most {MOST_CELLS} cells; ask for fewer layers, heads or queries")
    heads = [(one, head) for one in shown for head in range(len(one.values))]
    if picture is not None and look._patches_of(shown[0]):
        most = MOST_PIXELS if len(heads) == 1 else MOST_PIXELS // 2
        panels = [panel for one in shown for panel in _over_picture(look, one, picture, most)]
        panels = [_scaled(panel, 2 * SHOWN if len(panels) == 1 else SHOWN) for panel in panels]
        return tiled(panels, math.ceil(math.sqrt(len(panels))))
    if all(one.values.shape[1] == 1 for one in shown):
        others = _strips(look.against) if look.against and look.against.maps else []
        return tiled([*_strips(look), *(replace(panel, title=f"the other: {panel.title}") for panel in others)], 1)
    width = MATRIX if len(heads) == 1 else MATRIX / 2
    return tiled([_matrix(look, one, head, width) for one, head in heads], math.ceil(math.sqrt(len(heads))))


def alone(picture: Image.Image) -> Figure:
    """Return a figure of a picture that the service drew."""
    width = min(picture.width, 2 * SHOWN)
    height = picture.height * width / picture.width
    return Figure(width, height, [Picture(0, 0, width, height, picture)])


def tiled(panels: Sequence[Panel], columns: int) -> Figure:
    """Return panels in rows, from left to right; several have their titles above them."""
    titled = len(panels) > 1
    above = TEXT + GAP if titled else 0
    shapes: list[Shape] = []
    right, top = 0.0, GAP
    for start in range(0, len(panels), columns):
        left, row = GAP, panels[start : start + columns]
        for panel in row:
            if titled:
                shapes.append(Words(left, top + TEXT / 2, _cut(panel.title, panel.width), TEXT))
            shapes += [shape.moved(left, top + above) for shape in panel.shapes]
            left += panel.width + GAP
        right = max(right, left)
        top += above + max(panel.height for panel in row) + GAP
    return Figure(right, top, shapes)


def _over_picture(look: Looked, one: Map, picture: Image.Image, most: int) -> list[Panel]:
    """Return a panel of each head and row over the picture, in its pixels, with the box of the row's object."""
    at = next(place for place, other in enumerate(look.maps) if other is one)
    coloured = look.method == "parts"
    means = coloured or one.values.shape[1] in (1, one.values.shape[2])  # then there is a row, or their mean is shown
    boxes = {found.object: found.box for found in look.objects}
    names, panels = axes.rows(look, one), []
    shown, small = _smaller(look, picture, most)
    for head in range(1 if coloured else len(one.values)):
        for row in (None,) if means else range(one.values.shape[1]):
            heated = small.overlay(shown, map=at, head=None if coloured else head, row=row)
            shapes: list[Shape] = [Picture(0, 0, picture.width, picture.height, heated)]
            if len(one.objects) == one.values.shape[1]:
                shapes += _boxed(boxes[one.objects[row or 0]], picture.width)
            named = names[row].strip() if row is not None else ""
            title = ", ".join(filter(None, (named, axes.title(look, one, head))))
            panels.append(Panel(title, picture.width, picture.height, shapes))
    return panels


def _smaller(look: Looked, picture: Image.Image, most: int) -> tuple[Image.Image, Looked]:
    """Return a picture that is not larger than a figure needs, and attention to it: a photograph has many pixels."""
    factor = most / max(*picture.size, most)
    width, height = round(picture.width * factor), round(picture.height * factor)
    box = look.box and Box(*(edge * factor for edge in look.box))
    return picture.resize((width, height)), replace(look, size=(width, height), box=box)


def _boxed(box: Box, width: float) -> list[Shape]:
    """Return a rectangle that is seen on any ground: a white line on a wider black one."""
    left, top, right, bottom = box
    line = max(1, width / 100)
    return [
        Cell(left, top, right - left, bottom - top, edge=edge, line=wide)
        for edge, wide in (("#000000", 2 * line), ("#ffffff", line))
    ]


def _scaled(panel: Panel, width: float) -> Panel:
    """Return a panel whose shapes are in pixels of a picture, as wide as that in points."""
    factor = width / panel.width
    scaled: list[Shape] = []
    for shape in panel.shapes:
        sized = {name: getattr(shape, name) * factor for name in ("left", "top", "width", "height", "line")
                 if hasattr(shape, name)}  # fmt: skip
        scaled.append(replace(shape, **sized))
    return Panel(panel.title, width, panel.height * factor, scaled)


def _strips(look: Looked) -> list[Panel]:
    """Return the tokens of each map of one row, and of each head."""
    return [_tokens(look, one, head) for one in axes.maps_of(look) for head in range(len(one.values))]


def _tokens(look: Looked, one: Map, head: int) -> Panel:
    """Return the tokens of a text in lines, each on its colour: none at zero, red for it and blue against it."""
    values = np.nan_to_num(one.values[head, 0].astype(np.float64))
    most = float(np.abs(values).max(initial=0))
    colours = hexes((values / (most or 1) + 1) / 2, SIGNED)
    shapes: list[Shape] = []
    left, top = 0.0, 0.0
    for place, colour in zip(axes.columns(look, one), colours, strict=True):
        text = _label(place.name)
        width = width_of(text, TEXT) + GAP / 2
        if left + width > STRIP and left:
            left, top = 0.0, top + TOKEN + 2
        shapes.append(Cell(left, top, width, TOKEN, colour, FRAME, 0.25))
        shapes.append(Words(left + width / 2, top + TOKEN / 2, text, TEXT, "middle", ink_on(colour)))
        left += width + 1
    low = -most if values.min(initial=0) < 0 else 0.0
    bar = SIGNED if low else SIGNED[len(SIGNED) // 2 :]
    title = axes.title(look, one, head)
    shapes += [shape.moved(0, top + TOKEN + GAP) for shape in _legend(low, most, bar)]
    return Panel(title, STRIP, top + 2 * TOKEN + GAP, shapes)


def _matrix(look: Looked, one: Map, head: int, width: float) -> Panel:
    """Return a matrix of about that width: rows look, or are explained, columns are looked at."""
    values = np.nan_to_num(one.values[head].astype(np.float64))
    signed = look._is_signed(one)
    most = float(np.abs(values).max(initial=0)) if signed else float(values.max(initial=0))
    shares = values / (most or 1)
    table = SIGNED if signed else HEAT
    cell = min(max(width / values.shape[1], LEAST_CELL), LARGEST_CELL)
    text = min(TEXT, max(cell * 0.8, TEXT / 2))
    step = max(1, math.ceil(text * 1.1 / cell))
    names = [_label(name) for name in axes.rows(look, one)]
    keys = [_label(place.name) for place in axes.columns(look, one)]
    beside = max(width_of(name, text) for name in names) + GAP / 2
    longest = max(width_of(key, text) for key in keys)
    turned = longest > cell * step
    above = (longest if turned else text) + GAP / 2
    shapes: list[Shape] = []
    for at in range(0, len(keys), step):
        anchor, low = ("start", above - GAP / 3) if turned else ("middle", above - text / 2 - 1)
        shapes.append(Words(beside + (at + 0.5) * cell, low, keys[at], text, anchor, turned=turned))  # type: ignore[arg-type] # one of both
    shapes += [
        Words(beside - GAP / 3, above + (at + 0.5) * cell, names[at], text, "end") for at in range(0, len(names), step)
    ]
    shapes += _cells(beside, above, cell, (shares + 1) / 2 if signed else shares.clip(min=0), table)
    width, height = cell * values.shape[1], cell * values.shape[0]
    shapes.append(Cell(beside, above, width, height, edge=FRAME))
    legend = _legend(-most if signed else 0.0, most, table)
    shapes += [shape.moved(beside, above + height + GAP) for shape in legend]
    return Panel(axes.title(look, one, head), beside + max(width, 2.5 * BAR), above + height + GAP + TOKEN, shapes)


def _cells(left: float, top: float, side: float, shares: npt.NDArray[np.float64], table: Colours) -> list[Shape]:
    """Return the cells of a matrix; those of a row that have one colour are one."""
    found: list[Shape] = []
    for at, row in enumerate(shares):
        colours = hexes(row, table)
        begun = 0
        for end in range(1, len(colours) + 1):
            if end == len(colours) or colours[end] != colours[begun]:
                width = (end - begun) * side + SEAM
                found.append(Cell(left + begun * side, top + at * side, width, side + SEAM, colours[begun]))
                begun = end
    return found


def _legend(low: float, high: float, table: Colours) -> list[Shape]:
    """Return a bar of colours between the numbers at its ends."""
    first, last = f"{low:.3g}", f"{high:.3g}"
    left = width_of(first, TEXT) + GAP / 2
    colours = hexes(np.linspace(0, 1, BAR_CELLS), table)
    width = BAR / BAR_CELLS
    return [
        Words(0, TEXT / 2, first, TEXT),
        *(Cell(left + at * width, 0, width + 0.1, TEXT, colour) for at, colour in enumerate(colours)),
        Cell(left, 0, BAR, TEXT, edge=FRAME),
        Words(left + BAR + GAP / 2, TEXT / 2, last, TEXT),
    ]


def _label(text: str) -> str:
    """Return a text as a label: spaces are seen, and long ones are cut."""
    shown = "".join(letter if letter.isprintable() else "␣" for letter in text).strip() or "␣"
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _cut(text: str, width: float) -> str:
    """Return a text that is not wider than its panel."""
    shown = text
    while shown and width_of(shown, TEXT) > width:
        shown = shown[:-2] + "…" if len(shown) > 1 else ""
    return shown
