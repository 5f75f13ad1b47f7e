"""The png of a request: what is drawn of its inputs, one below the other, each under a title if there are several."""

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw

from service.explanations.drawing import check_size
from service.explanations.lettering import INK, PAPER, fitting, font_of, readable

COMPRESSION_LEVEL = 1  # of zlib: a photograph takes a sixth of the time of the default level 6, and a fifth more bytes
TITLE = 16  # pixels, the height of the text of a title
MOST_CHARACTERS = 160  # of a title; each is measured with all before it, so that the whole of a text would take long
STRIP = 32  # pixels, the height of a title with the space around it


class Space:
    """The size of the png of a request, as far as its inputs are known, and its limit in pixels."""

    def __init__(self, max_pixels: int, inputs: int = 1) -> None:
        self._max_pixels, self._strip = max_pixels, STRIP if inputs > 1 else 0
        self._width = self._height = 0

    def take(self, size: tuple[int, int]) -> None:
        """Count what is drawn of one more input. Raises TooLarge if it does not fit."""
        self._width, self._height = max(self._width, size[0]), self._height + size[1] + self._strip
        check_size((self._width, self._height), self._max_pixels)


def png(pictures: Sequence[tuple[str, Image.Image]]) -> bytes:
    """Return pictures as one PNG: one as it is, several below their titles."""
    whole = pictures[0][1] if len(pictures) == 1 else _stacked(pictures)
    file = io.BytesIO()
    whole.save(file, "PNG", compress_level=COMPRESSION_LEVEL)
    return file.getvalue()


def _stacked(pictures: Sequence[tuple[str, Image.Image]]) -> Image.Image:
    size = max(picture.width for _, picture in pictures), sum(STRIP + picture.height for _, picture in pictures)
    sheet = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(sheet)
    font = font_of(TITLE)
    top = 0
    for title, picture in pictures:
        words = " ".join(map(readable, title[:MOST_CHARACTERS].split()))
        shown = fitting(words, font, sheet.width - TITLE)
        pen.text((TITLE // 2, top + STRIP // 2), shown, INK, font, "lm")
        sheet.paste(picture, (0, top + STRIP))
        top += STRIP + picture.height
    return sheet
