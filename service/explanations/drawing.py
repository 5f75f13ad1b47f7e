"""Draws attention as PNG: a heat map over the image that was sent, or a matrix between the tokens of texts."""

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
MISSING_GLYPH = "\N{REPLACEMENT CHARACTER}"  # the font lacks it, and draws the box that it has for all such
LONGEST_LABEL = 24  # characters of a label
EMPTY_LABEL = '""'

COMPRESSION_LEVEL = 1  # of zlib's levels: a photograph takes a sixth of the time of the usual 6, and a fifth more bytes
BAND_PIXELS = 2**18  # pixels that are coloured at once: few enough to stay in the processor's cache
LEAST_PANEL_WIDTH = 120  # pixels across, where panels have titles
LEAST_TITLE_HEIGHT = 12  # pixels, the height of text
TEXT_HEIGHTS_PER_IMAGE_WIDTH = 28  # heights of a title's text that an image is wide, unless the text is at its least

LEAST_CELL_SIDE, LARGEST_CELL_SIDE = 14, 28  # pixels of a side
MOST_CELLS_SIDE = 2560  # pixels that the longer side of the cells may have, unless they are at their least
TEXT_SHARE_OF_CELL = 0.62  # of a cell, the height of text
BAR_TEXTS, NUMBER_TEXTS, LEGEND_TEXTS = (
    8,
    8,
    2,
)  # heights of text: the colour bar's length, the room of its numbers, and that below


@dataclass(frozen=True)
class Style:
    """How a heat map is shown."""

    colormap: Colormap = "viridis"
    opacity: float = 0.6
    """0 to 1, where the heat map over an image is hottest. A matrix ignores it."""


@dataclass(frozen=True)
class Panel:
    """One map: (rows, columns) of the grid of patches, or (queries, keys) of a matrix. Values not finite count as 0."""

    title: str
    values: Values


@dataclass(frozen=True)
class Tiles:
    """Panels of one size in a nearly square grid on white, each under a title with text of a height; in pixels."""

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
    """Where the cells of matrices are: in each tile right of `left` and below `above`, the pixels that labels take."""

    queries: int
    keys: int
    panels: int
    left: int
    above: int
    upright: bool
    """True if the labels of columns are so short that none has to be turned."""

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
        """Return where, across and down, the middle of a cell is."""
        left, top = self.corner(panel)
        return left + key * self.cell + self.cell // 2, top + query * self.cell + self.cell // 2


def overlay(image: Image.Image, box: Box, panels: Sequence[Panel], style: Style, max_pixels: int) -> bytes:
    """Return, as PNG, the image (`L` or `RGB`) under the heat of each panel, whose grid covers the box.

    One panel has the image's size and no title. Heat goes from a panel's minimum to its maximum; where it is cold, and
    outside the box, the image is as it was. Raises TooLarge for a picture of more than `max_pixels`.
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
    """Return the pixels of the picture that `overlay` makes of an image of this size and at least one panel."""
    return math.prod(_tiles(width, height, panels).size) if panels > 1 else width * height


def matrix(
    panels: Sequence[Panel], queries: Sequence[str], keys: Sequence[str], style: Style, max_pixels: int
) -> bytes:
    """Return, as PNG, the cells of each panel, queries down and keys across, coloured from 0 to its maximum.

    Raises TooLarge for a picture of more than `max_pixels`, and ValueError where labels are not as many as values.
    """
    for panel in panels:
        if panel.values.shape != (len(queries), len(keys)):
            raise ValueError(f"labels: as many as values, {panel.values.shape}, given {len(queries), len(keys)}")
    layout = lay_out(queries, keys, len(panels))
    _check_size(layout.tiles.size, max_pixels)
    sheet = layout.tiles.sheet([panel.title for panel in panels], layout.left)
    beside, above = _row_labels(queries, layout), _column_labels(keys, layout)
    for index, panel in enumerate(panels):
        left, top = layout.corner(index)
        sheet.paste(beside, (left - layout.left, top))
        sheet.paste(above, (left, top - layout.above))
        values = _finite(panel.values)
        most = values.max(initial=0)
        _draw_cells(sheet, (left, top), COLORMAPS[style.colormap][_levels(_shares(values, 0, most))], layout.cell)
        _draw_legend(sheet, (left, top + layout.queries * layout.cell), most, style, layout.text)
    return _png(sheet)


def matrix_pixels(queries: int, keys: int, panels: int) -> int:
    """Return the most pixels that the picture can have which `matrix` makes of so many labels."""
    text = _text(cell_side(queries, keys))
    longest, gap = LONGEST_LABEL * text, _gap(text)  # no glyph is wider than its text is high
    return math.prod(Layout(queries, keys, panels, longest + gap, longest + 2 * gap, upright=False).tiles.size)


def cell_side(queries: int, keys: int) -> int:
    """Return the pixels of a cell's side: fewer where there are many."""
    return min(max(MOST_CELLS_SIDE // max(queries, keys, 1), LEAST_CELL_SIDE), LARGEST_CELL_SIDE)


def lay_out(queries: Sequence[str], keys: Sequence[str], panels: int) -> Layout:
    """Return where `matrix` draws its cells for these texts."""
    cell = cell_side(len(queries), len(keys))
    text, gap = _text(cell), _gap(_text(cell))
    left, above = (_longest(map(label, texts), _font(text)) for texts in (queries, keys))
    upright = above <= cell - gap
    return Layout(len(queries), len(keys), panels, left + gap, (text if upright else above) + 2 * gap, upright)


def label(text: str) -> str:
    """Return a token's text as its label: what cannot be seen is made visible, and what is long is cut."""
    shown = readable(text[: 4 * LONGEST_LABEL]) or EMPTY_LABEL  # a character may be written as several code points
    return shown if len(shown) <= LONGEST_LABEL else shown[: LONGEST_LABEL - 1] + "…"


def readable(text: str) -> str:
    """Return a text in glyphs of the font: letters without their accents, and a box for what it does not have."""
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
    assert isinstance(font, ImageFont.FreeTypeFont)  # noqa: S101 # of a size it is, or it raises
    return font


def _longest(texts: Iterable[str], font: ImageFont.FreeTypeFont) -> int:
    return math.ceil(max((font.getlength(text) for text in texts), default=0))


def _fitting(text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """Return a text, its end an ellipsis where it would be wider."""
    shown, end = text, ""
    while shown and font.getlength(shown + end) > width:
        shown, end = shown[:-1], "…"
    return shown + end


def _text(cell: int) -> int:
    """Return the height of text beside cells of a side."""
    return round(cell * TEXT_SHARE_OF_CELL)


def _gap(text: int) -> int:
    """Return the pixels between labels and what is beside them."""
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
    """Return the image under heat, worked on in bands so that little is held beside it."""
    pixels: Pixels = np.array(image.convert("RGB"))
    values = _finite(values)
    columns, rows = _covered(box[0], box[2], image.width), _covered(box[1], box[3], image.height)
    if not columns or not rows:
        return Image.fromarray(pixels)
    shares = _shares(values, values.min(), values.max())
    wide = shares @ _weights(columns, box[0], box[2], values.shape[1]).T  # (rows of the grid, pixels across)
    down = _weights(rows, box[1], box[3], values.shape[0])  # (pixels down, rows of the grid)
    heat = np.linspace(0, style.opacity, 256, dtype=np.float32)[:, None]  # (level, 1)
    kept, added = 1 - heat, heat * COLORMAPS[style.colormap]
    step = max(1, BAND_PIXELS // len(columns))
    for start in range(0, len(rows), step):
        levels = _levels(down[start : start + step] @ wide)
        top = rows.start + start
        band = pixels[top : top + len(levels), columns.start : columns.stop]
        band[:] = band * kept[levels] + added[levels] + np.float32(0.5)
    return Image.fromarray(pixels)


def _covered(low: float, high: float, length: int) -> range:
    """Return which of `length` pixels have their middles between two places."""
    return range(max(0, math.ceil(low - 0.5)), min(length, math.ceil(high - 0.5)))


def _weights(pixels: range, low: float, high: float, cells: int) -> npt.NDArray[np.float32]:
    """Return how much of each cell, (pixels, cells), a pixel shows: linear between middles, and averaged if many.

    The cells lie one beside the other from `low` to `high`.
    """
    scale = cells / (high - low)  # cells a pixel
    places = (np.arange(pixels.start, pixels.stop) + 0.5 - low) * scale - 0.5
    weights: npt.NDArray[np.float64] = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(cells)) / max(scale, 1))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)


def _finite(values: Values) -> npt.NDArray[np.float64]:
    return np.nan_to_num(values.astype(np.float64), nan=0, posinf=0, neginf=0)


def _shares(values: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.float32]:
    """Return values from 0 at `low` to 1 at `high`; all 0 where these are one."""
    span = high - low or 1.0
    return ((values - low) / span).clip(0, 1).astype(np.float32)


def _levels(shares: npt.NDArray[np.float32]) -> Pixels:
    return (shares * 255 + np.float32(0.5)).astype(np.uint8)


def _row_labels(texts: Sequence[str], layout: Layout) -> Image.Image:
    """Return the labels one below the other, each beside its row."""
    strip = Image.new("RGB", (layout.left, layout.cell * len(texts)), PAPER)
    pen, font = ImageDraw.Draw(strip), _font(layout.text)
    for index, text in enumerate(map(label, texts)):
        pen.text((layout.left - _gap(layout.text), (index + 0.5) * layout.cell), text, INK, font, "rm")
    return strip


def _column_labels(texts: Sequence[str], layout: Layout) -> Image.Image:
    """Return the labels side by side, each above its column; turned, to be read upwards, unless all are short."""
    size = layout.cell * len(texts), layout.above
    strip = Image.new("RGB", size if layout.upright else size[::-1], PAPER)
    pen, font, gap = ImageDraw.Draw(strip), _font(layout.text), _gap(layout.text)
    for index, text in enumerate(map(label, texts)):
        middle = (index + 0.5) * layout.cell
        place, anchor = ((middle, layout.above - gap), "ms") if layout.upright else ((gap, middle), "lm")
        pen.text(place, text, INK, font, anchor)
    return strip if layout.upright else strip.transpose(Image.Transpose.ROTATE_90)


def _draw_cells(sheet: Image.Image, corner: tuple[int, int], colours: Pixels, side: int) -> None:
    """Draw cells of colours, (rows, columns, 3), in a thin frame."""
    (left, top), (height, width) = corner, (colours.shape[0] * side, colours.shape[1] * side)
    ImageDraw.Draw(sheet).rectangle((left - 1, top - 1, left + width, top + height), outline=FRAME)
    sheet.paste(Image.fromarray(colours.repeat(side, 0).repeat(side, 1)), corner)


def _draw_legend(sheet: Image.Image, corner: tuple[int, int], most: float, style: Style, text: int) -> None:
    """Draw the colour bar between the numbers of its ends, below the cells that end at the corner."""
    pen, font, gap = ImageDraw.Draw(sheet), _font(text), _gap(text)
    left, middle = corner[0], corner[1] + round(text * 1.3)
    pen.text((left, middle), "0", INK, font, "lm")
    left += math.ceil(font.getlength("0")) + gap
    levels = np.linspace(0, 255, BAR_TEXTS * text).astype(np.uint8)
    _draw_cells(
        sheet, (left, middle - text // 3), COLORMAPS[style.colormap][None, levels].repeat(2 * (text // 3), 0), 1
    )
    pen.text((left + BAR_TEXTS * text + gap, middle), f"{most:.3g}", INK, font, "lm")
