"""Drawing of an evaluation as PNG: a chart for deletion, one for insertion, with a line for each order of the parts."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageDraw

from contract.manifest import Method
from service.explanations.drawing import check_size
from service.explanations.evaluation import FRACTIONS, RANDOM, Curve, CurveName, Evaluation, MeasureName, area
from service.explanations.lettering import FRAME, INK, PAPER, fitting, font_of, readable

Point: TypeAlias = tuple[float, float]

COLOURS: dict[Method, str] = {
    "raw": "#56b4e9", "rollout": "#e69f00", "norm": "#cc79a7", "relevance": "#009e73", "libra": "#d55e00",
    "integrated": "#0072b2", "saliency": "#000000",
}  # fmt: skip
"""Of Okabe & Ito (2008), which colour-blind people can tell apart."""
RANDOM_COLOUR = "#6b757d"
GRID = "#e4e9ec"

SHARPNESS = 3
"""Everything is drawn at least this many times larger and then scaled down, since Pillow's lines have hard edges."""
PLOT = 340, 280  # pixels between the axes, across and down
LEFT, RIGHT, TOP, BELOW = 52, 28, 62, 48  # pixels around a plot: numbers, a title, what the axes are
CHART_WIDTH = LEFT + PLOT[0] + RIGHT
ROW = 20  # pixels of a line of the legend
TEXT, TITLE = 13, 16  # pixels, heights of text
LINE, DASH, DOT = 2.2, 6.0, 2.8  # pixels: width of a line, a dash and the gap behind it, radius of a point
TICKS = 5  # spaces between the numbers of an axis

BETTER: dict[CurveName, str] = {"deletion": "the lower, the better", "insertion": "the higher, the better"}
WITH: dict[MeasureName, str] = {"probability": "of", "score": "of", "cosine": "with"}
DONE: dict[CurveName, str] = {"deletion": "taken away", "insertion": "put back"}


def picture_size(charts: int, orders: int, width: int | None = None) -> tuple[int, int]:
    """Return the width and height of a picture of charts, each with a number of lines; `width` is that asked for.

    Where it is less than all charts have side by side, they stand one below the other, so that texts stay legible.
    """
    columns = charts if width is None or width >= charts * CHART_WIDTH else 1
    own = columns * CHART_WIDTH, charts // columns * _chart_height(orders)
    return own if width is None else (width, round(own[1] * width / own[0]))


def draw(evaluation: Evaluation, max_pixels: int, width: int | None = None) -> Image.Image:
    """Return the curves. Raises TooLarge for a picture of more than `max_pixels`."""
    names = list(next(iter(evaluation.curves.values())))
    size = picture_size(len(names), len(evaluation.curves), width)
    check_size(size, max_pixels)
    columns = len(names) if size[0] >= len(names) * CHART_WIDTH else 1
    height = _chart_height(len(evaluation.curves))
    sharpness = max(SHARPNESS, math.ceil(size[0] / (columns * CHART_WIDTH)))
    whole = columns * CHART_WIDTH * sharpness, len(names) // columns * height * sharpness
    sheet = Image.new("RGB", whole, PAPER)
    low, high = axis_range(evaluation.curves)
    for index, name in enumerate(names):
        row, column = divmod(index, columns)
        _Chart(sheet, column * CHART_WIDTH, row * height, sharpness, low, high).draw(evaluation, name)
    return sheet.resize(size, Image.Resampling.LANCZOS)


def _chart_height(orders: int) -> int:
    """Return the height of a chart, by its number of lines and of the rows of its legend."""
    return TOP + PLOT[1] + BELOW + orders * ROW + ROW // 2


def axis_range(curves: Mapping[str, Mapping[CurveName, Curve]]) -> tuple[float, float]:
    """Return the least and largest number of the vertical axis: 0 and 1, or further where a curve goes beyond.

    Probabilities do not, cosines may be negative, and logits may have any size.
    """
    values = np.concatenate([curve for own in curves.values() for curve in own.values()])
    low = min(0.0, float(values.min()))
    high = max(1.0, float(values.max()))
    if (low, high) == (0.0, 1.0):
        return low, high
    unit = 10.0 ** math.floor(math.log10((high - low) / TICKS))
    for step in (unit * factor for factor in (1, 2, 3, 4, 5, 10, 20)):
        start = step * math.floor(low / step)
        if start + TICKS * step >= high:
            break
    return start, start + TICKS * step


@dataclass(frozen=True)
class _Chart:
    """One chart of a sheet, which is `sharpness` times larger than the places that are named here."""

    sheet: Image.Image
    left: int
    top: int
    sharpness: int
    low: float
    high: float

    def draw(self, evaluation: Evaluation, name: CurveName) -> None:
        """Draw the axes, a line for each order, and the legend."""
        score = evaluation.score
        width = PLOT[0]
        self._text((0, -42), f"{name}: {BETTER[name]}", TITLE, "ls", width)
        self._text((0, -16), f"{score.measure} {WITH[score.measure]} {_named(score.label)}", TEXT, "ls", width)
        self._axes()
        self._text((width / 2, PLOT[1] + 40), f"share of {evaluation.parts} {DONE[name]}", TEXT, "ms", width)
        drawn = [one for one in evaluation.curves if one == RANDOM]
        drawn += [one for one in evaluation.curves if one != RANDOM]  # over the random one
        for order in drawn:
            self._line(
                [self._place(*point) for point in zip(FRACTIONS, evaluation.curves[order][name], strict=True)], order
            )
        for row, order in enumerate(evaluation.curves):
            middle = PLOT[1] + BELOW + (row + 0.5) * ROW
            self._line([(0, middle), (14, middle), (28, middle)], order)
            self._text((38, middle), f"{order} order" if order == RANDOM else order, TEXT, "lm", width)
            self._text((width, middle), f"area {area(evaluation.curves[order][name]):.3f}", TEXT, "rm", width)

    def _axes(self) -> None:
        """Draw the frame of the plot, with numbers and lines at equal distances."""
        pen = ImageDraw.Draw(self.sheet)
        width, height = PLOT
        for tick in range(TICKS + 1):
            share = tick / TICKS
            x, y = width * share, height * (1 - share)
            pen.line((self._at(x, 0), self._at(x, height)), GRID, self.sharpness)
            pen.line((self._at(0, y), self._at(width, y)), GRID, self.sharpness)
            self._text((x, height + 8), f"{share:.1f}", TEXT, "ma", width)
            value = self.low + share * (self.high - self.low)
            self._text((-8, y), f"{value:.3g}" if self.high - self.low > TICKS else f"{value:.1f}", TEXT, "rm", LEFT)
        pen.rectangle((self._at(0, 0), self._at(width, height)), outline=FRAME, width=self.sharpness)

    def _line(self, points: list[Point], order: str) -> None:
        """Draw the line of an order: with points in the colour of a method, or dashed."""
        pen = ImageDraw.Draw(self.sheet)
        width = round(LINE * self.sharpness)
        if order == RANDOM:
            for start, end in _dashes(points):
                pen.line((self._at(*start), self._at(*end)), RANDOM_COLOUR, round(width * 0.75))
            return
        colour = _colour(order)
        pen.line([self._at(*point) for point in points], colour, width, joint="curve")
        for x, y in points:
            pen.ellipse((self._at(x - DOT, y - DOT), self._at(x + DOT, y + DOT)), colour)

    def _place(self, fraction: float, value: float) -> Point:
        """Return the place of a point of a curve in the plot."""
        return PLOT[0] * fraction, PLOT[1] * (self.high - value) / (self.high - self.low)

    def _at(self, x: float, y: float) -> Point:
        """Return the place on the sheet of a place in the plot."""
        return (self.left + LEFT + x) * self.sharpness, (self.top + TOP + y) * self.sharpness

    def _text(self, place: Point, text: str, height: int, anchor: str, width: float) -> None:
        font = font_of(height * self.sharpness)
        shown = fitting(text, font, width * self.sharpness)
        ImageDraw.Draw(self.sheet).text(self._at(*place), shown, INK, font, anchor)


def _dashes(points: list[Point]) -> list[tuple[Point, Point]]:
    """Return the dashes along a line from point to point."""
    dashes: list[tuple[Point, Point]] = []
    gone = 0.0  # along the whole line, so that dashes do not begin anew at every point
    for (x, y), (to_x, to_y) in itertools.pairwise(points):
        length = math.hypot(to_x - x, to_y - y)
        edges = np.unique([0.0, length, *(edge - gone for edge in np.arange(0, gone + length, DASH) if edge > gone)])
        for start, end in itertools.pairwise(edges):
            if math.floor((gone + (start + end) / 2) / DASH) % 2 == 0:
                ends = [(x + (to_x - x) * at / length, y + (to_y - y) * at / length) for at in (start, end)]
                dashes.append((ends[0], ends[1]))
        gone += length
    return dashes


def _colour(order: str) -> str:
    """Return the colour of a method."""
    return next(colour for method, colour in COLOURS.items() if method == order)


def _named(label: str) -> str:
    """Return the name of what is measured, in glyphs of the font; spaces stay spaces."""
    return " ".join(map(readable, label.split())) or '""'
