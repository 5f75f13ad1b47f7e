"""Drawing of attention as heat maps over the image that was sent, and what all drawings of maps have in common.

A map without signs is drawn from cold to hot, in the colours of a table. A signed one has zero in the middle of its
range: what speaks for the answer is red, what speaks against it blue, and where a value is zero there is no colour.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from service.errors import TooLarge
from service.explanations.colormaps import AGAINST_AND_FOR, COLORMAPS, Colormap
from service.explanations.lettering import INK, PAPER, fitting, font_of, readable
from service.explanations.scale import Scale, count_above, overlay_range
from service.inputs.model_input import Box, Pixels

Values: TypeAlias = npt.NDArray[np.floating]


BAND_PIXELS = 2**18  # pixels that are coloured at once: few enough to stay in the processor's cache
LEAST_PANEL_WIDTH = 120  # pixels of a panel with a title
LEAST_TITLE_HEIGHT = 12  # pixels of the text of a title
LINES_PER_IMAGE_WIDTH = 200  # the edge of a box is 1/200 of the image's width, but at least one pixel
TEXT_HEIGHTS_PER_IMAGE_WIDTH = 28  # a title's text is 1/28 of the image's width high, but at least LEAST_TITLE_HEIGHT
SHRINKING_GAP = 2.0  # a photograph is first shrunk by whole numbers to twice the size that is drawn: half of the time


GREY = np.array([0.30, 0.59, 0.11], np.float32)
"""What red, green and blue add to a grey: the weights of the blend mode by which the page does it."""
COLOURED = 3
"""The axes of a panel's values that are colours."""
SEEN, UNSEEN = 0.8, 0.4  # brightness of a grey ground, where the model looks and beside it


@dataclass(frozen=True)
class Style:
    """The style of a heat map. A matrix has its colormap alone."""

    colormap: Colormap = "viridis"
    opacity: float = 0.8
    """The opacity of heat over an image where it is hottest, 0 to 1."""
    ground: Literal["grey", "photo"] = "grey"
    """What is under the heat: the image in grey, darker where the model does not look, or as it was sent."""
    scale: Scale = "clipped"
    """Where colours end: where most values are seen (`end_of_colours`), or at the largest."""


@dataclass(frozen=True)
class Panel:
    """One map: (rows, columns) of the grid of patches, or (queries, keys) of a matrix. NaN and infinity count as 0.

    Over the grid, values may be colours: (rows, columns, 3), from 0 to 1.
    """

    title: str
    values: Values
    signed: bool = False
    """True if it is drawn in two colours with zero in the middle."""
    outline: Box | None = None
    """A rectangle of the image that is drawn over the heat: where the object is that the map belongs to."""
    shares: bool = False
    """True if values are shares of a whole, which are read as per cent."""
    caution: str = ""
    """What must be said of the values: it is written above, also where there is one panel."""


@dataclass(frozen=True)
class Tiles:
    """A grid of panels on white, each under a title. Sizes are pixels; `text` is the height of text."""

    panels: int
    width: int
    height: int
    text: int
    columns: int
    margin: int = 0
    """Pixels at the right that no panel fills."""

    @property
    def strip(self) -> int:
        """Return the height of a title with the space above and below it."""
        return round(self.text * 2.5)

    @property
    def size(self) -> tuple[int, int]:
        """Return the width and height of the picture."""
        rows, across = math.ceil(self.panels / self.columns), self.columns * (self.width + self.text)
        return across + self.text + self.margin, rows * (self.height + self.strip) + self.text

    def corner(self, panel: int) -> tuple[int, int]:
        """Return the left and top of a panel."""
        row, column = divmod(panel, self.columns)
        return self.text + column * (self.width + self.text), self.strip + row * (self.height + self.strip)

    def sheet(self, titles: Sequence[str], indent: int = 0) -> Image.Image:
        """Return the picture with its titles, `indent` pixels from the left of their panels."""
        sheet = Image.new("RGB", self.size, PAPER)
        pen = ImageDraw.Draw(sheet)
        font = font_of(self.text)
        for index, title in enumerate(titles):
            left, top = self.corner(index)
            shown = fitting(" ".join(map(readable, title.split())), font, self.width - indent)
            pen.text((left + indent, top - round(self.text * 0.6)), shown, INK, font, "ls")
        return sheet


def columns_of(panels: int, width: int | None = None, least: int = 0, text: int = 0) -> int:
    """Return how many panels stand side by side: in a nearly square grid or, if the picture has a width, in fewer.

    There, each has at least `least` pixels and the space of a text beside it, as far as there is room for one.
    """
    square = math.ceil(math.sqrt(panels))
    return square if width is None else min(square, max(1, (width - text) // (least + text)))


def panel_width(width: int, columns: int, text: int) -> int:
    """Return the width of each panel of a picture of this width, with a space of a text around it."""
    return max(1, (width - text) // columns - text)


def overlay(
    image: Image.Image, box: Box, panels: Sequence[Panel], style: Style, max_pixels: int, width: int | None = None
) -> Image.Image:
    """Return the image (`L` or `RGB`) with the heat map of each panel over it, or as it is. Grids cover the box.

    A single panel without a caution has the size of the image and no title. Heat goes from the minimum of a panel to
    the end of its colours; where it is signed, two colours go from zero to it. At the minimum or at zero, and outside
    the box, the ground alone is seen. If the picture is to have a `width`, the image is scaled first, not what is
    drawn. Raises TooLarge for a picture of more than `max_pixels`.
    """
    titled = len(panels) > 1 or any(panel.caution for panel in panels)
    tiles = tiles_of(*image.size, len(panels), width) if titled else None
    size = overlay_size(*image.size, len(panels), width, titled=titled)
    check_size(size, max_pixels)
    drawn = (tiles.width, tiles.height) if tiles else size
    across, down = drawn[0] / image.width, drawn[1] / image.height
    box = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
    image = _scaled(image, drawn)

    def drawn_of(panel: Panel) -> Image.Image:
        heated = _heated(image, box, panel, style)
        if panel.outline:
            left, top, right, bottom = panel.outline
            _outline(heated, (left * across, top * down, right * across, bottom * down))
        return heated

    if tiles is None:
        return drawn_of(panels[0]) if panels else image.convert("RGB")
    sheet = tiles.sheet([_titled(panel, style) for panel in panels])
    for index, panel in enumerate(panels):
        sheet.paste(drawn_of(panel), tiles.corner(index))
    return sheet


def _outline(image: Image.Image, box: Box) -> None:
    """Draw the edges of a rectangle: a white line between two dark ones, which is seen on any ground."""
    pen = ImageDraw.Draw(image)
    line = max(1, image.width // LINES_PER_IMAGE_WIDTH)
    left, top, beyond, below = (round(edge) for edge in box)
    right, bottom = max(left, beyond - 1), max(top, below - 1)
    for grown, colour in ((line, INK), (-line, INK), (0, PAPER)):
        edges = (left - grown, top - grown, max(left - grown, right + grown), max(top - grown, bottom + grown))
        pen.rectangle(edges, outline=colour, width=line)


def overlay_size(
    width: int, height: int, panels: int, picture_width: int | None = None, *, titled: bool = False
) -> tuple[int, int]:
    """Return the size of what `overlay` draws of an image of this size. A single panel with a caution is `titled`."""
    if titled or panels > 1:
        return tiles_of(width, height, panels, picture_width).size
    return (width, height) if picture_width is None else (picture_width, _height(width, height, picture_width))


def tiles_of(width: int, height: int, panels: int, picture_width: int | None = None) -> Tiles:
    """Return the places of panels of this size, or of its shape where the picture has a width."""
    if picture_width is None:
        factor = math.ceil(LEAST_PANEL_WIDTH / width)
        text = max(LEAST_TITLE_HEIGHT, width * factor // TEXT_HEIGHTS_PER_IMAGE_WIDTH)
        return Tiles(panels, width * factor, height * factor, text, columns_of(panels))
    columns = columns_of(panels, picture_width, LEAST_PANEL_WIDTH, LEAST_TITLE_HEIGHT)
    text = max(LEAST_TITLE_HEIGHT, picture_width // columns // TEXT_HEIGHTS_PER_IMAGE_WIDTH)
    own = panel_width(picture_width, columns, text)
    margin = picture_width - columns * (own + text) - text
    return Tiles(panels, own, _height(width, height, own), text, columns, margin)


def _height(width: int, height: int, scaled_width: int) -> int:
    """Return the height of an image that is scaled to a width."""
    return max(1, round(height * scaled_width / width))


def _scaled(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return an image at another size: its pixels stay sharp where it grows, and are averaged where it shrinks."""
    if size == image.size:
        return image
    if size[0] > image.width:
        return image.resize(size, Image.Resampling.NEAREST)
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=SHRINKING_GAP)


def check_size(size: tuple[int, int], max_pixels: int) -> None:
    """Raise TooLarge for a picture of more than `max_pixels`."""
    if math.prod(size) > max_pixels:
        raise TooLarge(
            f"png: at most {max_pixels} pixels, this one would have {size[0]} x {size[1]}; "
            "ask for a smaller width, or for fewer layers, heads, queries or inputs"
        )


def _titled(panel: Panel, style: Style) -> str:
    """Return the title of a panel, with what is above the end of its colours."""
    values = finite(panel.values)
    if values.ndim == COLOURED:
        return panel.title
    above = count_above(values, overlay_range(values, signed=panel.signed, scale=style.scale))
    title = ", ".join(filter(None, (panel.caution, panel.title)))
    if not above:
        return title
    most = float((np.abs(values) if panel.signed else values).max())
    number = f"{100 * most:.3g} %" if panel.shares else f"{most:.3g}"
    return f"{title}, {above} {'patch' if above == 1 else 'patches'} above: up to {number}"


def _heated(image: Image.Image, box: Box, panel: Panel, style: Style) -> Image.Image:
    """Return the image under the heat map. It is computed in bands, to hold no second copy of a large image."""
    heated = image.convert("RGB")  # a copy, whatever the mode was
    columns, rows = _covered(box[0], box[2], image.width), _covered(box[1], box[3], image.height)
    if not columns or not rows:
        columns = rows = range(0)
    kind = _Colours if panel.values.ndim == COLOURED else _Heat
    heat = kind(box, panel, style, columns, rows) if rows else None
    step = max(1, BAND_PIXELS // image.width)
    for top in range(0, image.height, step):
        bottom = min(top + step, image.height)
        band = np.asarray(heated.crop((0, top, image.width, bottom)))
        covered = range(max(top, rows.start), max(min(bottom, rows.stop), top, rows.start))
        seen = slice(covered.start - top, covered.stop - top), slice(columns.start, columns.stop)
        shaded = _grey(band, seen) if style.ground == "grey" else band.astype(np.float32)
        if heat and covered:
            shaded[seen] = heat.over(shaded[seen], covered)
        heated.paste(Image.fromarray((shaded + np.float32(0.5)).astype(np.uint8)), (0, top))
    return heated


class _Heat:
    """The colours of a panel over the pixels that its grid covers."""

    def __init__(self, box: Box, panel: Panel, style: Style, columns: range, rows: range) -> None:
        values = finite(panel.values)
        shares = overlay_range(values, signed=panel.signed, scale=style.scale).shares(values)
        self.wide = shares @ _weights(columns, box[0], box[2], values.shape[1]).T  # (rows of the grid, pixels across)
        self.down = _weights(rows, box[1], box[3], values.shape[0])  # (pixels down, rows of the grid)
        self.first = rows.start
        self.table = _overlay_colours(panel, style)
        coldest = -style.opacity if panel.signed else 0.0  # the sign says which of two colours it is
        heat = np.abs(np.linspace(coldest, style.opacity, len(self.table), dtype=np.float32))[:, None]  # (level, 1)
        self.ground_share, self.colours = 1 - heat, heat * self.table

    def over(self, ground: npt.NDArray[np.float32], rows: range) -> npt.NDArray[np.float32]:
        """Return pixels (rows, columns, 3) under the heat."""
        levels = levels_of(self.down[rows.start - self.first : rows.stop - self.first] @ self.wide, self.table)
        mixed: npt.NDArray[np.float32] = ground * self.ground_share[levels] + self.colours[levels]
        return mixed


class _Colours:
    """A panel whose values are colours, over the pixels that its grid covers."""

    def __init__(self, box: Box, panel: Panel, style: Style, columns: range, rows: range) -> None:
        values = finite(panel.values)
        across = _weights(columns, box[0], box[2], values.shape[1])
        self.wide = (255 * np.einsum("ijc,wj->iwc", values, across)).astype(np.float32)  # (rows of the grid, pixels, 3)
        self.down = _weights(rows, box[1], box[3], values.shape[0])
        self.first, self.opacity = rows.start, np.float32(style.opacity)

    def over(self, ground: npt.NDArray[np.float32], rows: range) -> npt.NDArray[np.float32]:
        """Return pixels (rows, columns, 3) under the colours."""
        colours = np.tensordot(self.down[rows.start - self.first : rows.stop - self.first], self.wide, 1)
        mixed: npt.NDArray[np.float32] = ground + self.opacity * (colours - ground)
        return mixed


def _grey(band: Pixels, seen: tuple[slice, slice]) -> npt.NDArray[np.float32]:
    """Return pixels (height, width, 3) in grey, less bright, and still less where they are not `seen`."""
    light = band @ GREY
    brightness = np.full(light.shape, UNSEEN, np.float32)
    brightness[seen] = SEEN
    return np.repeat((light * brightness)[:, :, None], 3, axis=2)


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


def finite(values: Values) -> npt.NDArray[np.float64]:
    """Return values with 0 in place of NaN and infinity."""
    return np.nan_to_num(values.astype(np.float64), nan=0, posinf=0, neginf=0)


def _overlay_colours(panel: Panel, style: Style) -> Pixels:
    """Return the colours over an image by level, (levels, 3). Of a signed map they are two, of growing opacity."""
    return AGAINST_AND_FOR if panel.signed else COLORMAPS[style.colormap]


def levels_of(shares: npt.NDArray[np.float32], colours: Pixels) -> Pixels:
    """Return the nearest level of a table of colours for each share, 0 to 1."""
    return (shares * (len(colours) - 1) + np.float32(0.5)).astype(np.uint8)
