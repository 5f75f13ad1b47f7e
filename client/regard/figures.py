"""Figures of attention for papers and slides: drawn once as shapes, written as SVG, on axes of matplotlib, or as PDF.

SVG needs nothing but this package. Axes and PDF need matplotlib (`pip install "regard-client[figures]"`), whose PDF
holds lines, cells and letters as such; a picture within it stays a picture.
"""

from __future__ import annotations

import base64
import functools
import importlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image, ImageFont

from regard.errors import NotInstalled

INK, FRAME = "#000000", "#b4b4b4"
POINTS_PER_INCH = 72
FONTS = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
MEASURED = 100
"""Points of the font that texts are measured by."""
WIDER = 1.12
"""So much wider than that font are those that draw."""
NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
ANCHORS = {"start": "left", "middle": "center", "end": "right"}
S = TypeVar("S", bound="Shape")


@dataclass(frozen=True)
class Shape:
    """A part of a figure. Places are points from its left and top."""

    left: float
    top: float

    def moved(self: S, right: float, down: float) -> S:
        """Return it at another place."""
        return replace(self, left=self.left + right, top=self.top + down)

    def svg(self) -> str:
        """Return it as SVG."""
        raise NotImplementedError

    def draw(self, ax: Any, scale: float) -> None:  # noqa: ANN401 # matplotlib's
        """Draw it on axes whose units are points, drawn `scale` times as large."""
        raise NotImplementedError


@dataclass(frozen=True)
class Cell(Shape):
    """A rectangle."""

    width: float
    height: float
    fill: str = "none"
    edge: str = "none"
    line: float = 0.5

    def svg(self) -> str:
        """Return it as SVG."""
        edge = f' stroke="{self.edge}" stroke-width="{self.line:g}"'
        edge = edge if self.edge != "none" else ' shape-rendering="crispEdges"'  # no seams between cells
        at = f'x="{_round(self.left)}" y="{_round(self.top)}"'
        return f'<rect {at} width="{_round(self.width)}" height="{_round(self.height)}" fill="{self.fill}"{edge}/>'

    def draw(self, ax: Any, scale: float) -> None:  # noqa: ANN401 # as above
        """Draw it on axes."""
        patches = importlib.import_module("matplotlib.patches")
        line = self.line * scale if self.edge != "none" else 0
        size = (self.left, self.top), self.width, self.height
        ax.add_patch(patches.Rectangle(*size, facecolor=self.fill, edgecolor=self.edge, linewidth=line))


@dataclass(frozen=True)
class Words(Shape):
    """A text, whose middle line is at `top`."""

    text: str
    size: float
    anchor: Literal["start", "middle", "end"] = "start"
    ink: str = INK
    turned: bool = False
    """Read upwards."""

    def svg(self) -> str:
        """Return it as SVG, as wide as it was measured."""
        turn = f' transform="rotate(-90 {_round(self.left)} {_round(self.top)})"' if self.turned else ""
        at = f'x="{_round(self.left)}" y="{_round(self.top)}"'
        width = f'textLength="{_round(width_of(self.text, self.size))}" lengthAdjust="spacingAndGlyphs"'
        look = f'font-size="{self.size:g}" fill="{self.ink}" text-anchor="{self.anchor}"'
        text = escape(NOT_IN_XML.sub("\ufffd", self.text))
        return f'<text {at} dy="0.35em" {look} {width}{turn} xml:space="preserve">{text}</text>'

    def draw(self, ax: Any, scale: float) -> None:  # noqa: ANN401 # as above
        """Draw it on axes. A text is no formula there, whatever its letters."""
        ax.text(
            self.left, self.top, self.text, fontsize=self.size * scale, color=self.ink, ha=ANCHORS[self.anchor],
            va="center", rotation=90 if self.turned else 0, rotation_mode="anchor", parse_math=False,
        )  # fmt: skip


@dataclass(frozen=True)
class Picture(Shape):
    """An image."""

    width: float
    height: float
    image: Image.Image

    def svg(self) -> str:
        """Return it as SVG, which holds it as PNG."""
        file = io.BytesIO()
        self.image.save(file, "PNG")
        at = f'x="{_round(self.left)}" y="{_round(self.top)}" width="{_round(self.width)}"'
        data = base64.b64encode(file.getvalue()).decode()
        size = f'height="{_round(self.height)}" preserveAspectRatio="none"'
        return f'<image {at} {size} href="data:image/png;base64,{data}"/>'

    def draw(self, ax: Any, scale: float) -> None:  # noqa: ANN401 # as above
        """Draw it on axes, pixel by pixel."""
        extent = (self.left, self.left + self.width, self.top + self.height, self.top)
        limits = ax.get_xlim(), ax.get_ylim()
        ax.imshow(np.asarray(self.image), extent=extent, interpolation="none", aspect="auto")
        ax.set(xlim=limits[0], ylim=limits[1])


@dataclass(frozen=True)
class Figure:
    """A drawing, in points. In a notebook it shows itself."""

    width: float
    height: float
    shapes: Sequence[Shape]

    def svg(self) -> str:
        """Return it as a file of SVG, which needs no other."""
        size = f"{_round(self.width)} {_round(self.height)}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{_round(self.width)}pt" '
            f'height="{_round(self.height)}pt" font-family="{FONTS}">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
            + "\n".join(shape.svg() for shape in self.shapes)
            + "\n</svg>\n"
        )

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401 # matplotlib's
        """Draw it on axes of matplotlib, or on a new figure of its size; return the axes. Raises NotInstalled."""
        if ax is None:
            figure = _matplotlib("pyplot").figure(figsize=self._inches)
            ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, self.width), ylim=(self.height, 0))
        ax.axis("off")
        ax.set_aspect("equal")
        room = ax.get_window_extent()
        scale = min(room.width / self.width, room.height / self.height) * POINTS_PER_INCH / ax.figure.dpi
        for shape in self.shapes:
            shape.draw(ax, scale)
        ax.set_aspect("equal")  # which a picture changes
        return ax

    def save(self, path: str | Path) -> None:
        """Write it as .svg, or by matplotlib as .pdf. Raises KeyError for another name, OSError and NotInstalled."""
        to = Path(path)
        {".svg": self._save_svg, ".pdf": self._save_pdf}[to.suffix.lower()](to)

    def _save_svg(self, to: Path) -> None:
        to.write_text(self.svg(), encoding="utf-8")

    def _save_pdf(self, to: Path) -> None:
        figure = _matplotlib("figure").Figure(figsize=self._inches, dpi=POINTS_PER_INCH)
        self.plot(figure.add_axes((0, 0, 1, 1)))
        with _matplotlib().rc_context({"pdf.fonttype": 42}):  # letters that one can search for and copy
            figure.savefig(to, format="pdf")

    @property
    def _inches(self) -> tuple[float, float]:
        return self.width / POINTS_PER_INCH, self.height / POINTS_PER_INCH

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"<figure of {self.width:.0f} x {self.height:.0f} points>"


def width_of(text: str, size: float) -> float:
    """Return about how wide a text is in points, at a size of its letters in points."""
    return float(_font().getlength(text)) * size / MEASURED * WIDER


@functools.cache
def _font() -> Any:  # noqa: ANN401 # either class of Pillow's
    return ImageFont.load_default(MEASURED)


def _matplotlib(part: str = "") -> Any:  # noqa: ANN401 # a module
    try:
        return importlib.import_module(f"matplotlib.{part}" if part else "matplotlib")
    except ImportError as error:
        raise NotInstalled("figures: need matplotlib for axes and PDF; SVG needs nothing") from error


def _round(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
