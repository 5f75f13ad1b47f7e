"""Drawing of attention as PNG: a heat map over the image that was sent, or a matrix between the tokens of texts.

A map without signs is drawn from cold to hot, in the colours of a table. A signed one has zero in the middle of its
range: what speaks for the answer is red, what speaks against it blue, and where a value is zero there is no colour.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from service.errors import TooLarge
from service.explanations.colormaps import AGAINST_AND_FOR, COLORMAPS, SIGNED, Colormap
from service.explanations.lettering import FRAME, INK, LONGEST_LABEL, PAPER, fitting, font_of, label, longest, readable
from service.inputs.model_input import Box, Pixels

Values: TypeAlias = npt.NDArray[np.floating]


COMPRESSION_LEVEL = 1  # of zlib: a photograph takes a sixth of the time of the default level 6, and a fifth more bytes
BAND_PIXELS = 2**18  # pixels that are coloured at once: few enough to stay in the processor's cache
LEAST_PANEL_WIDTH = 120  # pixels of a panel with a title
LEAST_TITLE_HEIGHT = 12  # pixels of the text of a title
TEXT_HEIGHTS_PER_IMAGE_WIDTH = 28  # a title's text is 1/28 of the image's width high, but at least LEAST_TITLE_HEIGHT

LEAST_CELL_SIDE, LARGEST_CELL_SIDE = 14, 28  # pixels of the side of a cell
MOST_CELLS_SIDE = 2560  # pixels; cells shrink, down to LEAST_CELL_SIDE, so that the longer side of all cells fits
TEXT_SHARE_OF_CELL = 0.62  # the height of text, of the side of a cell
# in heights of text: the length of the colour bar, the space for both of its numbers, and the space below a matrix
BAR_TEXTS, NUMBER_TEXTS, LEGEND_TEXTS = 8, 11, 2


@dataclass(frozen=True)
class Style:
    """The style of a heat map."""

    colormap: Colormap = "viridis"
    opacity: float = 0.6
    """The opacity of heat over an image where it is hottest, 0 to 1. A matrix ignores it."""


@dataclass(frozen=True)
class Panel:
    """One map: (rows, columns) of the grid of patches, or (queries, keys) of a matrix. NaN and infinity count as 0."""

    title: str
    values: Values
    signed: bool = False
    """True if it is drawn in two colours with zero in the middle."""


@dataclass(frozen=True)
class Range:
    """The values that a map is coloured from and to."""

    low: float
    high: float
    signed: bool

    def shares(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        """Return values scaled from 0 at `low` to 1 at `high`. If these are equal, all are cold, or in the middle."""
        if self.high == self.low:
            return np.full(values.shape, 0.5 if self.signed else 0, np.float32)
        return ((values - self.low) / (self.high - self.low)).clip(0, 1).astype(np.float32)

    @property
    def numbers(self) -> tuple[str, str]:
        """Return the ends as texts."""
        low, high = (f"{end:.3g}" for end in (self.low or 0.0, self.high or 0.0))  # no minus before a zero
        return low, high


def overlay_range(values: npt.NDArray[np.float64], *, signed: bool) -> Range:
    """Return the range over an image: from the least value to the largest or, signed, as far below zero as above."""
    return _signed_range(values) if signed else Range(values.min(), values.max(), signed=False)


def matrix_range(values: npt.NDArray[np.float64], *, signed: bool) -> Range:
    """Return the range in a matrix: from zero to the largest value or, signed, as far below zero as above."""
    return _signed_range(values) if signed else Range(0, values.max(initial=0), signed=False)


def _signed_range(values: npt.NDArray[np.float64]) -> Range:
    most = float(np.abs(values).max(initial=0))
    return Range(-most, most, signed=True)


@dataclass(frozen=True)
class Tiles:
    """A nearly square grid of panels on white, each under a title. Sizes are pixels; `text` is the height of text."""

    panels: int
    width: int
    height: int
    text: int

    @property
    def columns(self) -> int:
        """Return how many panels stand side by side."""
        return math.ceil(math.sqrt(self.panels))

    @property
    def strip(self) -> int:
        """Return the height of a title with the space above and below it."""
        return round(self.text * 2.5)

    @property
    def size(self) -> tuple[int, int]:
        """Return the width and height of the picture."""
        rows = math.ceil(self.panels / self.columns)
        return self.columns * (self.width + self.text) + self.text, rows * (self.height + self.strip) + self.text

    def corner(self, panel: int) -> tuple[int, int]:
        """Return the left and top of a panel."""
        row, column = divmod(panel, self.columns)
        return self.text + column * (self.width + self.text), self.strip + row * (self.height + self.strip)

    def sheet(self, titles: Sequence[str], indent: int = 0) -> Image.Image:
        """Return the picture with its titles, `indent` pixels from the left of their panels."""
        sheet = Image.new("RGB", self.size, PAPER)
        pen, font = ImageDraw.Draw(sheet), font_of(self.text)
        for index, title in enumerate(titles):
            left, top = self.corner(index)
            shown = fitting(" ".join(map(readable, title.split())), font, self.width - indent)
            pen.text((left + indent, top - round(self.text * 0.6)), shown, INK, font, "ls")
        return sheet


@dataclass(frozen=True)
class Layout:
    """The places of the cells of matrices. In each tile, labels take `left` pixels at the left, `above` at the top."""

    queries: int
    keys: int
    panels: int
    left: int
    above: int
    upright: bool
    """True if the labels of columns are so short that they need not be turned."""

    @property
    def cell(self) -> int:
        """Return the side of a cell."""
        return cell_side(self.queries, self.keys)

    @property
    def text(self) -> int:
        """Return the height of text."""
        return _text(self.cell)

    @property
    def tiles(self) -> Tiles:
        """Return the panels, each with its labels and colour bar."""
        width = max(self.keys * self.cell, (BAR_TEXTS + NUMBER_TEXTS) * self.text)
        height = self.queries * self.cell + LEGEND_TEXTS * self.text
        return Tiles(self.panels, self.left + width, self.above + height, self.text)

    def corner(self, panel: int) -> tuple[int, int]:
        """Return the left and top of a panel's first cell."""
        left, top = self.tiles.corner(panel)
        return left + self.left, top + self.above

    def centre(self, panel: int, query: int, key: int) -> tuple[int, int]:
        """Return the x and y of the middle of a cell."""
        left, top = self.corner(panel)
        return left + key * self.cell + self.cell // 2, top + query * self.cell + self.cell // 2


def overlay(image: Image.Image, box: Box, panels: Sequence[Panel], style: Style, max_pixels: int) -> bytes:
    """Return, as PNG, the image (`L` or `RGB`) with the heat map of each panel over it. Grids cover the box.

    A single panel has the size of the image and no title. Heat goes from the minimum of a panel to its maximum; where
    it is signed, two colours go from zero to the largest size of a value. At the minimum or at zero, and outside the
    box, the image is unchanged. Raises TooLarge for a picture of more than `max_pixels`.
    """
    if len(panels) == 1:
        _check_size(image.size, max_pixels)
        return _png(_heated(image, box, panels[0], style))
    tiles = _tiles(*image.size, len(panels))
    _check_size(tiles.size, max_pixels)
    factor = tiles.width // image.width
    image = image.resize((tiles.width, tiles.height), Image.Resampling.NEAREST)
    box = (box[0] * factor, box[1] * factor, box[2] * factor, box[3] * factor)
    sheet = tiles.sheet([panel.title for panel in panels])
    for index, panel in enumerate(panels):
        sheet.paste(_heated(image, box, panel, style), tiles.corner(index))
    return _png(sheet)


def overlay_pixels(width: int, height: int, panels: int) -> int:
    """Return the number of pixels that `overlay` draws for an image of this size and at least one panel."""
    return math.prod(_tiles(width, height, panels).size) if panels > 1 else width * height


def matrix(
    panels: Sequence[Panel], queries: Sequence[str], keys: Sequence[str], style: Style, max_pixels: int
) -> bytes:
    """Return, as PNG, the matrix of each panel, with queries down and keys across, coloured from 0 to its maximum.

    A signed one is coloured from below zero to as far above it, with white in the middle. Raises TooLarge for a
    picture of more than `max_pixels`, and ValueError if the numbers of labels and values differ.
    """
    for panel in panels:
        if panel.values.shape != (len(queries), len(keys)):
            raise ValueError(f"labels: as many as values, {panel.values.shape}, given {len(queries), len(keys)}")
    layout = lay_out(queries, keys, len(panels))
    _check_size(layout.tiles.size, max_pixels)
    sheet = layout.tiles.sheet([panel.title for panel in panels], layout.left)
    row_labels, above = _row_labels(queries, layout), _column_labels(keys, layout)
    for index, panel in enumerate(panels):
        left, top = layout.corner(index)
        sheet.paste(row_labels, (left - layout.left, top))
        sheet.paste(above, (left, top - layout.above))
        values = _finite(panel.values)
        scale, colours = matrix_range(values, signed=panel.signed), _colours(panel, style)
        _draw_cells(sheet, (left, top), colours[_levels(scale.shares(values), colours)], layout.cell)
        _draw_legend(sheet, (left, top + layout.queries * layout.cell), scale, colours, layout.text)
    return _png(sheet)


def matrix_pixels(queries: int, keys: int, panels: int) -> int:
    """Return the largest number of pixels that `matrix` can draw for these numbers of labels and panels."""
    text = _text(cell_side(queries, keys))
    longest, gap = LONGEST_LABEL * text, _gap(text)  # no glyph is wider than the height of the text
    return math.prod(Layout(queries, keys, panels, longest + gap, longest + 2 * gap, upright=False).tiles.size)


def cell_side(queries: int, keys: int) -> int:
    """Return the side of a cell in pixels: the more cells, the smaller."""
    return min(max(MOST_CELLS_SIDE // max(queries, keys, 1), LEAST_CELL_SIDE), LARGEST_CELL_SIDE)


def lay_out(queries: Sequence[str], keys: Sequence[str], panels: int) -> Layout:
    """Return where `matrix` draws its cells for these texts."""
    cell = cell_side(len(queries), len(keys))
    text, gap = _text(cell), _gap(_text(cell))
    left, above = (longest(map(label, texts), font_of(text)) for texts in (queries, keys))
    upright = above <= cell - gap
    return Layout(len(queries), len(keys), panels, left + gap, (text if upright else above) + 2 * gap, upright)


def _text(cell: int) -> int:
    """Return the height of text for cells of this side."""
    return round(cell * TEXT_SHARE_OF_CELL)


def _gap(text: int) -> int:
    """Return the pixels between a label and what it labels."""
    return math.ceil(text / 2)


def _tiles(width: int, height: int, panels: int) -> Tiles:
    factor = math.ceil(LEAST_PANEL_WIDTH / width)
    return Tiles(
        panels, width * factor, height * factor, max(LEAST_TITLE_HEIGHT, width * factor // TEXT_HEIGHTS_PER_IMAGE_WIDTH)
    )


def _check_size(size: tuple[int, int], max_pixels: int) -> None:
    if math.prod(size) > max_pixels:
        raise TooLarge(
            f"picture: at most {max_pixels} pixels, this one would have {size[0]} x {size[1]}; "
            "ask for fewer layers, heads or queries"
        )


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=COMPRESSION_LEVEL)
    return file.getvalue()


def _heated(image: Image.Image, box: Box, panel: Panel, style: Style) -> Image.Image:
    """Return the image under the heat map. It is computed in bands, to hold no second copy of a large image."""
    heated = image.convert("RGB")  # a copy, whatever the mode was
    values = _finite(panel.values)
    columns, rows = _covered(box[0], box[2], image.width), _covered(box[1], box[3], image.height)
    if not columns or not rows:
        return heated
    shares = overlay_range(values, signed=panel.signed).shares(values)
    wide = shares @ _weights(columns, box[0], box[2], values.shape[1]).T  # (rows of the grid, pixels across)
    down = _weights(rows, box[1], box[3], values.shape[0])  # (pixels down, rows of the grid)
    colours = _overlay_colours(panel, style)
    coldest = -style.opacity if panel.signed else 0.0  # the sign says which of two colours it is
    heat = np.abs(np.linspace(coldest, style.opacity, len(colours), dtype=np.float32))[:, None]  # (level, 1)
    image_share, heat_colours = 1 - heat, heat * colours
    step = max(1, BAND_PIXELS // len(columns))
    for start in range(0, len(rows), step):
        levels = _levels(down[start : start + step] @ wide, colours)
        top = rows.start + start
        band = np.asarray(heated.crop((columns.start, top, columns.stop, top + len(levels))))
        shaded = band * image_share[levels] + heat_colours[levels] + np.float32(0.5)
        heated.paste(Image.fromarray(shaded.astype(np.uint8)), (columns.start, top))
    return heated


def _covered(low: float, high: float, length: int) -> range:
    """Return the pixels, of `length`, whose middles are between `low` and `high`."""
    return range(max(0, math.ceil(low - 0.5)), min(length, math.ceil(high - 0.5)))


def _weights(pixels: range, low: float, high: float, cells: int) -> npt.NDArray[np.float32]:
    """Return the weight of each cell in each pixel, (pixels, cells).

    The cells lie side by side from `low` to `high`. A pixel is interpolated linearly between the middles of cells, or
    averages the cells if they are smaller than a pixel.
    """
    scale = cells / (high - low)  # cells per pixel
    places = (np.arange(pixels.start, pixels.stop) + 0.5 - low) * scale - 0.5
    weights: npt.NDArray[np.float64] = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(cells)) / max(scale, 1))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)


def _finite(values: Values) -> npt.NDArray[np.float64]:
    return np.nan_to_num(values.astype(np.float64), nan=0, posinf=0, neginf=0)


def _colours(panel: Panel, style: Style) -> Pixels:
    """Return the colours of a map by level, (levels, 3). Of a signed one, the middle is white."""
    return SIGNED if panel.signed else COLORMAPS[style.colormap]


def _overlay_colours(panel: Panel, style: Style) -> Pixels:
    """Return the colours over an image by level, (levels, 3). Of a signed map they are two, of growing opacity."""
    return AGAINST_AND_FOR if panel.signed else COLORMAPS[style.colormap]


def _levels(shares: npt.NDArray[np.float32], colours: Pixels) -> Pixels:
    """Return the nearest level of a table of colours for each share, 0 to 1."""
    return (shares * (len(colours) - 1) + np.float32(0.5)).astype(np.uint8)


def _row_labels(texts: Sequence[str], layout: Layout) -> Image.Image:
    """Return a strip of the labels of rows, each at the height of its row."""
    strip = Image.new("RGB", (layout.left, layout.cell * len(texts)), PAPER)
    pen, font = ImageDraw.Draw(strip), font_of(layout.text)
    for index, text in enumerate(map(label, texts)):
        pen.text((layout.left - _gap(layout.text), (index + 0.5) * layout.cell), text, INK, font, "rm")
    return strip


def _column_labels(texts: Sequence[str], layout: Layout) -> Image.Image:
    """Return a strip of the labels of columns, each above its column, turned to read upwards unless all are short."""
    size = layout.cell * len(texts), layout.above
    strip = Image.new("RGB", size if layout.upright else size[::-1], PAPER)
    pen, font, gap = ImageDraw.Draw(strip), font_of(layout.text), _gap(layout.text)
    for index, text in enumerate(map(label, texts)):
        middle = (index + 0.5) * layout.cell
        place, anchor = ((middle, layout.above - gap), "ms") if layout.upright else ((gap, middle), "lm")
        pen.text(place, text, INK, font, anchor)
    return strip if layout.upright else strip.transpose(Image.Transpose.ROTATE_90)


def _draw_cells(sheet: Image.Image, corner: tuple[int, int], colours: Pixels, side: int) -> None:
    """Draw cells of these colours, (rows, columns, 3), in a thin frame."""
    (left, top), (height, width) = corner, (colours.shape[0] * side, colours.shape[1] * side)
    ImageDraw.Draw(sheet).rectangle((left - 1, top - 1, left + width, top + height), outline=FRAME)
    sheet.paste(Image.fromarray(colours.repeat(side, 0).repeat(side, 1)), corner)


def _draw_legend(sheet: Image.Image, corner: tuple[int, int], scale: Range, colours: Pixels, text: int) -> None:
    """Draw the colour bar between the numbers at its ends. `corner` is the lower left corner of the cells."""
    pen, font, gap = ImageDraw.Draw(sheet), font_of(text), _gap(text)
    left, middle = corner[0], corner[1] + round(text * 1.3)
    low, high = scale.numbers
    pen.text((left, middle), low, INK, font, "lm")
    left += math.ceil(font.getlength(low)) + gap
    levels = np.linspace(0, len(colours) - 1, BAR_TEXTS * text).astype(np.uint8)
    _draw_cells(sheet, (left, middle - text // 3), colours[None, levels].repeat(2 * (text // 3), 0), 1)
    pen.text((left + BAR_TEXTS * text + gap, middle), high, INK, font, "lm")
