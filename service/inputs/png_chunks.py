"""The chunks of a PNG that its pixels depend on. The others, which may be broken or very large, are left out."""

import struct
import zlib

KEPT = frozenset((b"tRNS", b"eXIf"))
"""Of the ancillary chunks: which colour is transparent, and which way is up."""
MOST_CHUNKS = 1 << 15
"""So many are looked at. An image of 16 megapixels has a tenth of that, in parts of 8 KiB."""
BESIDE = 12
"""Bytes of a chunk beside its data: the length, the name, and the checksum."""


def needed_chunks(data: bytes) -> bytes:
    """Return a PNG with its critical chunks (PNG specification, section 5.4) and, of the ancillary ones, those KEPT.

    One of these whose checksum is wrong is left out, too. Whatever is no chunk stays as it is, for a decoder to refuse.
    """
    parts, at = [data[:8]], 8
    for _ in range(MOST_CHUNKS):
        if at + BESIDE > len(data):
            break
        (length,) = struct.unpack_from(">I", data, at)
        name, end = data[at + 4 : at + 8], at + BESIDE + length
        if end > len(data):
            break
        if name[:1].isupper() or (name in KEPT and _is_whole(data, at, end)):
            parts.append(data[at:end])
        at = end
    return b"".join([*parts, data[at:]])


def _is_whole(data: bytes, at: int, end: int) -> bool:
    """Return whether a chunk has the checksum that it says."""
    return zlib.crc32(data[at + 4 : end - 4]) == int.from_bytes(data[end - 4 : end], "big")
