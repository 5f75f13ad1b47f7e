"""The size that a TIFF announces (TIFF 6.0, section 2; BigTIFF, which has wider offsets)."""

import struct
from dataclasses import dataclass

MOST_ENTRIES = 512
"""Of a directory that are looked at; they are sorted, and those of the size come first."""
WIDTH, HEIGHT, TILE_WIDTH, TILE_HEIGHT = 256, 257, 322, 323
VALUES = {3: "H", 4: "I", 16: "Q"}
"""By the number of a type: that of one value."""


@dataclass(frozen=True)
class _Layout:
    """How a file stores its directory: where it is, how many entries it has, and each of them."""

    place: str
    at: int
    count: str
    entry: str
    value: int
    """Where in an entry its value is."""


CLASSIC = _Layout("I", 4, "H", "HHI4x", 8)
BIG = _Layout("Q", 8, "Q", "HHQ8x", 12)


def tiff_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of the first image, or of its tiles where one of these is larger; None without any.

    Raises struct.error for a header that is cut off.
    """
    order, layout = "<" if data[:2] == b"II" else ">", BIG if b"+" in data[:4] else CLASSIC
    (at,) = struct.unpack_from(order + layout.place, data, layout.at)
    (count,) = struct.unpack_from(order + layout.count, data, at)
    at += struct.calcsize(order + layout.count)
    found: dict[int, int] = {}
    for _ in range(min(count, MOST_ENTRIES)):
        tag, kind, _ = struct.unpack_from(order + layout.entry, data, at)
        if tag in (WIDTH, HEIGHT, TILE_WIDTH, TILE_HEIGHT) and kind in VALUES:
            (found[tag],) = struct.unpack_from(order + VALUES[kind], data, at + layout.value)
        at += struct.calcsize(order + layout.entry)
    if not (WIDTH in found and HEIGHT in found):
        return None
    tile = found.get(TILE_WIDTH, 0), found.get(TILE_HEIGHT, 0)
    return max((found[WIDTH], found[HEIGHT]), tile, key=lambda size: size[0] * size[1])
