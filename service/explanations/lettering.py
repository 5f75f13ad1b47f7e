"""Lettering of pictures: the font, and texts made of the glyphs that it has."""

import math
import unicodedata
from collections.abc import Iterable

from PIL import ImageFont

PAPER, INK, FRAME = "#ffffff", "#1c2126", "#9ca8b1"
GLYPHS = frozenset(map(chr, range(33, 127))) | frozenset("©«°±´·»‘’“”…‹›⁄™")  # noqa: RUF001 # what Pillow's font has
REPLACEMENTS = {" ": "·", "▁": "·", "\n": "\\n", "\r": "\\r", "\t": "\\t", "ß": "ss"}
MISSING_GLYPH = "\N{REPLACEMENT CHARACTER}"  # the font lacks it, and draws a box for every character that it lacks
LONGEST_LABEL = 24  # characters of a label
EMPTY_LABEL = '""'


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


def font_of(size: int) -> ImageFont.FreeTypeFont:
    """Return the font at a height in pixels."""
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)  # noqa: S101 # with a size, it returns this class or raises
    return font


def longest(texts: Iterable[str], font: ImageFont.FreeTypeFont) -> int:
    """Return the width in pixels of the widest text."""
    return math.ceil(max((font.getlength(text) for text in texts), default=0))


def fitting(text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """Return a text, cut with an ellipsis if it is wider than `width`."""
    shown, end = text, ""
    while shown and font.getlength(shown + end) > width:
        shown, end = shown[:-1], "…"
    return shown + end
