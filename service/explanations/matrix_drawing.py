"""Drawing of attention between the tokens of texts: labelled matrices, each with a colour bar.

In a picture of a given width, cells are as large as there is room for. Labels do not shrink with them below a legible
size: where they would overlap, only every second one is drawn, or every third.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from service.explanations.colormaps import COLORMAPS, SIGNED
from service.explanations.drawing import (
    Panel,
    Style,
    Tiles,
    check_size,
    columns_of,
    finite,
    levels_of,
    panel_width,
)
from service.explanations.lettering import FRAME, INK, LONGEST_LABEL, PAPER, fitting, font_of, label, longest
from service.explanations.scale import Range, matrix_range
from service.inputs.model_input import Pixels

LEAST_CELL_SIDE, LARGEST_CELL_SIDE = 14, 28  # pixels of the side of a cell
MOST_CELLS_SIDE = 2560  # pixels; cells shrink, down to LEAST_CELL_SIDE, so that the longer side of all cells fits
TEXT_SHARE_OF_CELL = 0.62  # the height of text, of the side of a cell
# in heights of text: the length of the colour bar, the space for both of its numbers, and the space below a matrix
BAR_TEXTS, NUMBER_TEXTS, LEGEND_TEXTS = 8, 11, 2

# of a picture of a given width
LEAST_TEXT = 9  # pixels
LEAST_PANEL_WIDTH = (BAR_TEXTS + NUMBER_TEXTS) * LEAST_TEXT
LABELS_SHARE = 1 / 3  # of the width of a panel, that the labels of rows take at most
TEXTS_PER_PANEL_WIDTH = 24  # text is 1/24 of the width of a panel high at most, so that a label takes its share
LINE_TEXTS = 1.1  # heights of text between two labels at least


@dataclass(frozen=True)
class Layout:
    """The places of the cells of matrices. In each tile, labels take `left` pixels at the left, `above` at the top."""

    queries: int
    keys: int
    cell: float
    """The side of a cell."""
    left: int
    above: int
    upright: bool
    """True if the labels of columns are so short that they need not be turned."""
    tiles: Tiles
    """The panels, each with its labels and colour bar."""

    @property
    def text(self) -> int:
        """Return the height of text."""
        return self.tiles.text

    @property
    def step(self) -> int:
        """Return 1 if there is room for every label, 2 for every second one, and so on."""
        return max(1, math.ceil(self.text * LINE_TEXTS / self.cell)) if self.cell < self.text else 1

    @property
    def beyond(self) -> int:
        """Return how far the labels of the first and last cells reach beyond them, which may be lower than texts."""
        return max(0, math.ceil((self.text - self.cell) / 2))

    @property
    def size(self) -> tuple[int, int]:
        """Return the width and height of all cells."""
        return round(self.keys * self.cell), round(self.queries * self.cell)

    def corner(self, panel: int) -> tuple[int, int]:
        """Return the left and top of a panel's first cell."""
        left, top = self.tiles.corner(panel)
        return left + self.left, top + self.above

    def centre(self, panel: int, query: int, key: int) -> tuple[int, int]:
        """Return the x and y of the middle of a cell."""
        left, top = self.corner(panel)
        return left + int((key + 0.5) * self.cell), top + int((query + 0.5) * self.cell)


def matrix(
    panels: Sequence[Panel],
    queries: Sequence[str],
    keys: Sequence[str],
    style: Style,
    max_pixels: int,
    width: int | None = None,
) -> Image.Image:
    """Return the matrix of each panel, with queries down and keys across, coloured from 0 to its maximum.

    A signed one is coloured from below zero to as far above it, with white in the middle. Raises TooLarge for a
    picture of more than `max_pixels`, and ValueError if the numbers of labels and values differ.
    """
    for panel in panels:
        if panel.values.shape != (len(queries), len(keys)):
            raise ValueError(f"labels: as many as values, {panel.values.shape}, given {len(queries), len(keys)}")
    layout = lay_out(queries, keys, len(panels), width)
    check_size(layout.tiles.size, max_pixels)
    indent = layout.left if width is None else 0  # there may be no room above the cells alone
    sheet = layout.tiles.sheet([panel.title for panel in panels], indent)
    row_labels = _row_labels(queries, layout)
    above = _column_labels(keys, layout)
    for index, panel in enumerate(panels):
        left, top = layout.corner(index)
        sheet.paste(row_labels, (left - layout.left, top - layout.beyond))
        sheet.paste(above, (left - layout.beyond, top - layout.above))
        values = finite(panel.values)
        scale = matrix_range(values, signed=panel.signed)
        colours = _colours(panel, style)
        _draw_cells(sheet, (left, top), colours[levels_of(scale.shares(values), colours)], layout.size)
        legend = left - (0 if width is None else layout.left), top + layout.size[1]
        _draw_legend(sheet, legend, scale, colours, layout)
    return sheet


def matrix_size(queries: int, keys: int, panels: int, width: int | None = None) -> tuple[int, int]:
    """Return the largest size that `matrix` can draw for these numbers of labels and panels."""
    if width is None:
        text = _text(cell_side(queries, keys))
        most, gap = LONGEST_LABEL * text, _gap(text)  # no glyph is wider than the height of the text
        return _natural(queries, keys, panels, most + gap, most + 2 * gap, upright=False).tiles.size
    columns = _columns(panels, width)
    cell = _side(panel_width(width, columns, LEAST_TEXT), queries, keys)
    text = _text_within(width, columns, cell)
    height = LONGEST_LABEL * text + 2 * _gap(text) + round(queries * cell) + LEGEND_TEXTS * text
    return width, Tiles(panels, width, height, text, columns).size[1]


def cell_side(queries: int, keys: int) -> int:
    """Return the side of a cell in pixels: the more cells, the smaller."""
    return min(max(MOST_CELLS_SIDE // max(queries, keys, 1), LEAST_CELL_SIDE), LARGEST_CELL_SIDE)


def lay_out(queries: Sequence[str], keys: Sequence[str], panels: int, width: int | None = None) -> Layout:
    """Return where `matrix` draws its cells for these texts."""
    rows, columns = ([label(text) for text in texts] for texts in (queries, keys))
    if width is not None:
        return _fitted(rows, columns, panels, width)
    cell = cell_side(len(queries), len(keys))
    text = _text(cell)
    gap = _gap(_text(cell))
    left, above = (longest(texts, font_of(text)) for texts in (rows, columns))
    upright = above <= cell - gap
    return _natural(
        len(queries), len(keys), panels, left + gap, (text if upright else above) + 2 * gap, upright=upright
    )


def _natural(queries: int, keys: int, panels: int, left: int, above: int, *, upright: bool) -> Layout:
    """Return the places of cells whose size follows from their number alone."""
    cell = cell_side(queries, keys)
    text = _text(cell)
    width = left + max(keys * cell, (BAR_TEXTS + NUMBER_TEXTS) * text)
    tiles = Tiles(panels, width, above + queries * cell + LEGEND_TEXTS * text, text, columns_of(panels))
    return Layout(queries, keys, cell, left, above, upright, tiles)


def _fitted(queries: Sequence[str], keys: Sequence[str], panels: int, width: int) -> Layout:
    """Return the places of cells that are as large as there is room for in a picture of a width."""
    columns = _columns(panels, width)
    counts = (len(queries), len(keys))
    text, room = LEAST_TEXT, panel_width(width, columns, LEAST_TEXT)
    cell = _side(room - _left(queries, text, room), *counts)
    text = _text_within(width, columns, cell)
    room = panel_width(width, columns, text)
    left = _left(queries, text, room)
    cell = _side(room - left, *counts)
    above = longest(keys, font_of(text))
    upright = above <= cell - _gap(text)
    above = (text if upright else above) + 2 * _gap(text)
    height = above + round(counts[0] * cell) + LEGEND_TEXTS * text
    tiles = Tiles(panels, room, height, text, columns, width - columns * (room + text) - text)
    return Layout(*counts, cell, left, above, upright, tiles)


def _columns(panels: int, width: int) -> int:
    return columns_of(panels, width, LEAST_PANEL_WIDTH, LEAST_TEXT)


def _side(room: int, queries: int, keys: int) -> float:
    """Return the side of a cell where all columns have so much room; there is a bound to the height of all rows."""
    return min(max(room, 1) / max(keys, 1), max(LARGEST_CELL_SIDE, MOST_CELLS_SIDE / max(queries, 1)))


def _left(queries: Sequence[str], text: int, room: int) -> int:
    """Return the width of the labels of rows in a panel of a width."""
    return min(longest(queries, font_of(text)), int(room * LABELS_SHARE)) + _gap(text)


def _text_within(width: int, columns: int, cell: float) -> int:
    """Return the height of text for cells of this side in a picture of a width."""
    return max(LEAST_TEXT, min(_text(cell), width // columns // TEXTS_PER_PANEL_WIDTH))


def _text(cell: float) -> int:
    """Return the height of text for cells of this side."""
    return round(cell * TEXT_SHARE_OF_CELL)


def _gap(text: int) -> int:
    """Return the pixels between a label and what it labels."""
    return math.ceil(text / 2)


def _colours(panel: Panel, style: Style) -> Pixels:
    """Return the colours of a map by level, (levels, 3). Of a signed one, the middle is white."""
    return SIGNED if panel.signed else COLORMAPS[style.colormap]


def _row_labels(labels: Sequence[str], layout: Layout) -> Image.Image:
    """Return a strip of the labels of rows, each at the height of its row."""
    strip = Image.new("RGB", (layout.left, layout.size[1] + 2 * layout.beyond), PAPER)
    pen = ImageDraw.Draw(strip)
    font = font_of(layout.text)
    right = layout.left - _gap(layout.text)
    for index, text in list(enumerate(map(label, labels)))[:: layout.step]:
        pen.text((right, layout.beyond + (index + 0.5) * layout.cell), fitting(text, font, right), INK, font, "rm")
    return strip


def _column_labels(labels: Sequence[str], layout: Layout) -> Image.Image:
    """Return a strip of the labels of columns, each above its column, turned to read upwards unless all are short."""
    size = layout.size[0] + 2 * layout.beyond, layout.above
    strip = Image.new("RGB", size if layout.upright else size[::-1], PAPER)
    pen = ImageDraw.Draw(strip)
    font = font_of(layout.text)
    gap = _gap(layout.text)
    for index, text in list(enumerate(map(label, labels)))[:: layout.step]:
        middle = layout.beyond + (index + 0.5) * layout.cell
        place, anchor = ((middle, layout.above - gap), "ms") if layout.upright else ((gap, middle), "lm")
        pen.text(place, text, INK, font, anchor)
    return strip if layout.upright else strip.transpose(Image.Transpose.ROTATE_90)


def _draw_cells(sheet: Image.Image, corner: tuple[int, int], colours: Pixels, size: tuple[int, int]) -> None:
    """Draw cells of these colours, (rows, columns, 3), in a thin frame. Those of less than a pixel are averaged."""
    (left, top), (width, height) = corner, size
    ImageDraw.Draw(sheet).rectangle((left - 1, top - 1, left + width, top + height), outline=FRAME)
    if width and height:
        shrunk = width < colours.shape[1] or height < colours.shape[0]
        filter_ = Image.Resampling.BOX if shrunk else Image.Resampling.NEAREST
        sheet.paste(Image.fromarray(colours).resize(size, filter_), corner)


def _draw_legend(sheet: Image.Image, corner: tuple[int, int], scale: Range, colours: Pixels, layout: Layout) -> None:
    """Draw the colour bar between the numbers at its ends. `corner` is the lower left corner of the cells."""
    text = layout.text
    pen = ImageDraw.Draw(sheet)
    font = font_of(text)
    gap = _gap(text)
    left, middle = corner[0], corner[1] + round(text * 1.3)
    low, high = scale.numbers
    numbers = sum(math.ceil(font.getlength(number)) + gap for number in (low, high))
    length = max(0, min(BAR_TEXTS * text, layout.tiles.width - numbers))
    pen.text((left, middle), low, INK, font, "lm")
    left += math.ceil(font.getlength(low)) + gap
    levels = np.linspace(0, len(colours) - 1, length).astype(np.uint8)
    bar = colours[None, levels]
    _draw_cells(sheet, (left, middle - text // 3), bar, (length, 2 * (text // 3)))
    pen.text((left + length + gap, middle), high, INK, font, "lm")
