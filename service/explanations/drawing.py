"""Drawing of attention as PNG: a heat map over the image that was sent, or a matrix between the tokens of texts."""

import io
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from service.errors import TooLarge
from service.explanations.colormaps import COLORMAPS, Colormap
from service.inputs.model_input import Box, Pixels

Values: TypeAlias = npt.NDArray[np.floating]

PAPER, INK, FRAME = "#ffffff", "#1c2126", "#9ca8b1"
GLYPHS = frozenset(map(chr, range(33, 127))) | frozenset("©«°±´·»‘’“”…‹›⁄™")  # noqa: RUF001 # what Pillow's font has
REPLACEMENTS = {" ": "·", "▁": "·", "\n": "\\n", "\r": "\\r", "\t": "\\t", "ß": "ss"}
MISSING_GLYPH = "\N{REPLACEMENT CHARACTER}"  # the font lacks it, and draws a box for every character that it lacks
LONGEST_LABEL = 24  # characters of a label
EMPTY_LABEL = '""'

COMPRESSION_LEVEL = 1  # of zlib: a photograph takes a sixth of the time of the default level 6, and a fifth more bytes
BAND_PIXELS = 2**18  # pixels that are coloured at once: few enough to stay in the processor's cache
LEAST_PANEL_WIDTH = 120  # pixels of a panel with a title
LEAST_TITLE_HEIGHT = 12  # pixels of the text of a title
TEXT_HEIGHTS_PER_IMAGE_WIDTH = 28  # a title's text is 1/28 of the image's width high, but at least LEAST_TITLE_HEIGHT

LEAST_CELL_SIDE, LARGEST_CELL_SIDE = 14, 28  # pixels of the side of a cell
MOST_CELLS_SIDE = 2560  # pixels; cells shrink, down to LEAST_CELL_SIDE, so that the longer side of all cells fits
TEXT_SHARE_OF_CELL = 0.62  # the height of text, of the side of a cell
# in heights of text: the length of the colour bar, the space for its numbers, and the space below a matrix
BAR_TEXTS, NUMBER_TEXTS, LEGEND_TEXTS = 8, 8, 2


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
    """True if values are below zero where they speak against something."""


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
        pen, font = ImageDraw.Draw(sheet), _font(self.text)
        for index, title in enumerate(titles):
            left, top = self.corner(index)
            shown = _fitting(" ".join(map(readable, title.split())), font, self.width - indent)
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

    A single panel has the size of the image and no title. Heat goes from the minimum of a panel to its maximum. At the
    minimum, and outside the box, the image is unchanged. Raises TooLarge for a picture of more than `max_pixels`.
    """
    if len(panels) == 1:
        _check_size(image.size, max_pixels)
        return _png(_heated(image, box, panels[0].values, style))
    tiles = _tiles(*image.size, len(panels))
    _check_size(tiles.size, max_pixels)
    factor = tiles.width // image.width
    image = image.resize((tiles.width, tiles.height), Image.Resampling.NEAREST)
    box = (box[0] * factor, box[1] * factor, box[2] * factor, box[3] * factor)
    sheet = tiles.sheet([panel.title for panel in panels])
    for index, panel in enumerate(panels):
        sheet.paste(_heated(image, box, panel.values, style), tiles.corner(index))
    return _png(sheet)


def overlay_pixels(width: int, height: int, panels: int) -> int:
    """Return the number of pixels that `overlay` draws for an image of this size and at least one panel."""
    return math.prod(_tiles(width, height, panels).size) if panels > 1 else width * height


def matrix(
    panels: Sequence[Panel], queries: Sequence[str], keys: Sequence[str], style: Style, max_pixels: int
) -> bytes:
    """Return, as PNG, the matrix of each panel, with queries down and keys across, coloured from 0 to its maximum.

    Raises TooLarge for a picture of more than `max_pixels`, and ValueError if the numbers of labels and values differ.
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
        most = values.max(initial=0)
        _draw_cells(sheet, (left, top), COLORMAPS[style.colormap][_levels(_shares(values, 0, most))], layout.cell)
        _draw_legend(sheet, (left, top + layout.queries * layout.cell), most, style, layout.text)
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
    left, above = (_longest(map(label, texts), _font(text)) for texts in (queries, keys))
    upright = above <= cell - gap
    return Layout(len(queries), len(keys), panels, left + gap, (text if upright else above) + 2 * gap, upright)


def label(text: str) -> str:
    """Return the label of a token's text: invisible characters are made visible, and a long text is cut."""
    shown = readable(text[: 4 * LONGEST_LABEL]) or EMPTY_LABEL  # a character may be written as several code points
    return shown if len(shown) <= LONGEST_LABEL else shown[: LONGEST_LABEL - 1] + "…"


def readable(text: str) -> str:
    """Return a text in glyphs of the font: letters without accents, and a box for other characters that it lacks."""
    return "".join(_glyphs(character) for character in unicodedata.normalize("NFC", text))


def _glyphs(character: str) -> str:
    if character in GLYPHS:
        return character
    if unicodedata.category(character) == "Pd":
        return "-"
    parts = (part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part))
    shown = "".join(REPLACEMENTS.get(part, part) for part in parts)
    return shown if shown and GLYPHS.issuperset(shown) else MISSING_GLYPH


def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)  # noqa: S101 # with a size, it returns this class or raises
    return font


def _longest(texts: Iterable[str], font: ImageFont.FreeTypeFont) -> int:
    return math.ceil(max((font.getlength(text) for text in texts), default=0))


def _fitting(text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """Return a text, cut with an ellipsis if it is wider than `width`."""
    shown, end = text, ""
    while shown and font.getlength(shown + end) > width:
        shown, end = shown[:-1], "…"
    return shown + end


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


def _heated(image: Image.Image, box: Box, values: Values, style: Style) -> Image.Image:
    """Return the image under the heat map. It is computed in bands, to hold no second copy of a large image."""
    heated = image.convert("RGB")  # a copy, whatever the mode was
    values = _finite(values)
    columns, rows = _covered(box[0], box[2], image.width), _covered(box[1], box[3], image.height)
    if not columns or not rows:
        return heated
    shares = _shares(values, values.min(), values.max())
    wide = shares @ _weights(columns, box[0], box[2], values.shape[1]).T  # (rows of the grid, pixels across)
    down = _weights(rows, box[1], box[3], values.shape[0])  # (pixels down, rows of the grid)
    heat = np.linspace(0, style.opacity, 256, dtype=np.float32)[:, None]  # (level, 1)
    image_share, heat_colours = 1 - heat, heat * COLORMAPS[style.colormap]
    step = max(1, BAND_PIXELS // len(columns))
    for start in range(0, len(rows), step):
        levels = _levels(down[start : start + step] @ wide)
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


def _shares(values: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.float32]:
    """Return values scaled from 0 at `low` to 1 at `high`; all 0 if `low` equals `high`."""
    span = high - low or 1.0
    return ((values - low) / span).clip(0, 1).astype(np.float32)


def _levels(shares: npt.NDArray[np.float32]) -> Pixels:
    return (shares * 255 + np.float32(0.5)).astype(np.uint8)


def _row_labels(texts: Sequence[str], layout: Layout) -> Image.Image:
    """Return a strip of the labels of rows, each at the height of its row."""
    strip = Image.new("RGB", (layout.left, layout.cell * len(texts)), PAPER)
    pen, font = ImageDraw.Draw(strip), _font(layout.text)
    for index, text in enumerate(map(label, texts)):
        pen.text((layout.left - _gap(layout.text), (index + 0.5) * layout.cell), text, INK, font, "rm")
    return strip


def _column_labels(texts: Sequence[str], layout: Layout) -> Image.Image:
    """Return a strip of the labels of columns, each above its column, turned to read upwards unless all are short."""
    size = layout.cell * len(texts), layout.above
    strip = Image.new("RGB", size if layout.upright else size[::-1], PAPER)
    pen, font, gap = ImageDraw.Draw(strip), _font(layout.text), _gap(layout.text)
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


def _draw_legend(sheet: Image.Image, corner: tuple[int, int], most: float, style: Style, text: int) -> None:
    """Draw the colour bar between the numbers at its ends. `corner` is the lower left corner of the cells."""
    pen, font, gap = ImageDraw.Draw(sheet), _font(text), _gap(text)
    left, middle = corner[0], corner[1] + round(text * 1.3)
    pen.text((left, middle), "0", INK, font, "lm")
    left += math.ceil(font.getlength("0")) + gap
    levels = np.linspace(0, 255, BAR_TEXTS * text).astype(np.uint8)
    _draw_cells(
        sheet, (left, middle - text // 3), COLORMAPS[style.colormap][None, levels].repeat(2 * (text // 3), 0), 1
    )
    pen.text((left + BAR_TEXTS * text + gap, middle), f"{most:.3g}", INK, font, "lm")
