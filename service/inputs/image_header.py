"""The size of an image as its header announces it, read in plain Python before a decoder is given the image.

What it says is no more than an announcement: the decoder is told it, and refuses an image of more pixels.
"""

import struct

from service.errors import TooLarge
from service.inputs.avif_header import avif_size
from service.inputs.image_kinds import kind_of
from service.inputs.tiff_header import tiff_size

MOST_SEGMENTS = 512
"""The most segments of a JPEG, or blocks of a GIF, before its frame. A colour profile may take 255, each is a step."""
START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # those three are tables and a reserved marker
OTHER_SEGMENTS = frozenset((0xC4, 0xCC, *range(0xDB, 0xFF)))  # markers that a length follows


def read_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height that the header of an image announces.

    None means that the bytes are of no kind that is decoded, or that the header is not in the form in which encoders
    write it. Costs at most some thousand steps, however long the image is.
    """
    reader = _READERS.get(kind_of(data) or "")
    try:
        return reader(data) if reader else None
    except (struct.error, IndexError, OverflowError):  # the header is cut off, or names a place beyond any file
        return None


def check_pixels(width: int, height: int, most: int) -> None:
    """Raise TooLarge for an image of more than `most` pixels."""
    if width * height > most:
        raise TooLarge(f"image: at most {most} pixels, given {width} x {height}")


def _png_size(data: bytes) -> tuple[int, int] | None:
    """Read IHDR, which comes first (PNG specification, section 5.6)."""
    if data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Skip segments until the frame header (ITU T.81, section B.2.2)."""
    at = 2
    for _ in range(MOST_SEGMENTS):
        prefix, marker = data[at], data[at + 1]
        if prefix != 0xFF:
            return None
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in START_OF_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        elif marker in OTHER_SEGMENTS:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + length
        else:
            return None
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Read the first chunk (RFC 9649): a lossy frame (RFC 6386, section 9.1), a lossless one, or the canvas."""
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF  # the upper two bits ask for scaling
    if kind == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _gif_size(data: bytes) -> tuple[int, int] | None:
    """Skip extensions until the first image (GIF89a, appendix B), which may reach beyond the screen."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, extended = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0), False
    for _ in range(MOST_SEGMENTS):
        if extended:  # in blocks, each behind its length; the last has none
            extended = data[at] > 0
            at += 1 + data[at]
        elif data[at] == 0x21:
            extended = True
            at += 2
        elif data[at] == 0x2C:
            left, top, across, down = struct.unpack_from("<HHHH", data, at + 1)
            return max(width, left + across), max(height, top + down)
        else:
            return None
    return None


def _bmp_size(data: bytes) -> tuple[int, int]:
    """Read the header, of OS/2 or of Windows, which writes the height of a bitmap from top to bottom as negative."""
    if data[14] == 12:
        width, height = struct.unpack_from("<HH", data, 18)
        return width, height
    width, height = struct.unpack_from("<Ii", data, 18)
    return width, abs(height)


_READERS = {
    "JPEG": _jpeg_size,
    "PNG": _png_size,
    "WEBP": _webp_size,
    "GIF": _gif_size,
    "BMP": _bmp_size,
    "TIFF": tiff_size,
    "AVIF": avif_size,
}
