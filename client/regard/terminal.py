"""Words in a terminal, and pictures: by the protocols of kitty and iTerm2, or in half blocks of 24-bit colours."""

import base64
import io
import os
import re
import shutil
import sys
from collections.abc import Mapping
from typing import TextIO

from PIL import Image

COLUMNS = 60
"""A picture is at most so wide."""
CHUNK = 4096
"""Bytes of a chunk, by kitty's protocol."""
BLOCK = "▀"


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys; lines may end, and have tabs."""


def harmless(text: object) -> str:
    """Return words with the characters that a terminal would obey as `\\x1b`."""
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", str(text))


def say(text: object, stream: TextIO | None = None) -> None:
    """Print words that may be of a service or a file, with the characters that a terminal would obey as `\\x1b`."""
    print(harmless(text), file=stream or sys.stdout)


def can_show(stream: TextIO | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """True if the stream is a terminal that shows pictures, or 24-bit colours and the letter that has them."""
    stream, way = stream or sys.stdout, _way(environment)
    if stream is None or way is None or not stream.isatty():
        return False
    return way != "blocks" or _can_write(BLOCK, stream.encoding or "utf-8")


def _can_write(letter: str, encoding: str) -> bool:
    try:
        return bool(letter.encode(encoding))
    except UnicodeEncodeError:
        return False


def drawn(image: Image.Image, environment: Mapping[str, str] = os.environ) -> str:
    """Return what a terminal shows as an image, ending with a new line. It is empty where the terminal cannot."""
    way = _way(environment)
    if way == "kitty":
        return _kitty(_png(image))
    if way == "iterm":
        content = _png(image)
        data = base64.b64encode(content).decode()
        return f"\x1b]1337;File=inline=1;size={len(content)};width={_columns()}:{data}\a\n"
    return _blocks(image) if way == "blocks" else ""


def _way(environment: Mapping[str, str]) -> str | None:
    """Return how the terminal shows pictures, which it says in its environment; within tmux and screen, in blocks.

    None where somebody wants no colours (https://no-color.org).
    """
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return None
    if not environment.get("TMUX") and not environment.get("STY"):
        if environment.get("KITTY_WINDOW_ID") or environment.get("TERM_PROGRAM") == "ghostty":
            return "kitty"
        if environment.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm"):
            return "iterm"
    return "blocks" if environment.get("COLORTERM") in ("truecolor", "24bit") else None


def _columns() -> int:
    return min(COLUMNS, shutil.get_terminal_size().columns)


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _kitty(content: bytes) -> str:
    """Return the escape codes of kitty's graphics protocol: PNG in chunks, as wide as `_columns`."""
    data = base64.b64encode(content).decode()
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    written = []
    for number, chunk in enumerate(chunks):
        head = f"a=T,f=100,c={_columns()}," if number == 0 else ""
        written.append(f"\x1b_G{head}m={int(number < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(written) + "\n"


def _blocks(image: Image.Image) -> str:
    """Return the picture in upper half blocks, each two pixels: the colour of the letter, and that behind it."""
    width = _columns()
    height = max(2, round(image.height * width / image.width / 2) * 2)
    small = image.convert("RGB").resize((width, height))
    lines = []
    for row in range(0, height, 2):
        cells = []
        for column in range(width):
            upper, lower = (_colour(small, column, row + below) for below in (0, 1))
            cells.append(f"\x1b[38;2;{upper};48;2;{lower}m{BLOCK}")
        lines.append("".join(cells) + "\x1b[0m\n")
    return "".join(lines)


def _colour(image: Image.Image, column: int, row: int) -> str:
    return ";".join(map(str, image.getpixel((column, row))))  # type: ignore[arg-type] # of RGB it is a tuple
