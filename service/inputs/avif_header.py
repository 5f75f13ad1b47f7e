"""The size that an AVIF announces: in its boxes, and in the AV1 in them, which may be of more pixels.

Boxes: ISO/IEC 14496-12; items: ISO/IEC 23008-12; AV1: the AV1 Bitstream & Decoding Process Specification, section 5.5.
"""

import struct
from collections.abc import Iterator

MOST_STEPS = 512
"""Boxes, items and units of AV1 that are looked at, together. What has more is given up."""
SEQUENCE_HEADER = 1  # of the types of units
SEQUENCE_STEPS, SEQUENCE_BYTES = 16, 256
"""What reading a sequence header counts as, and how much of one is read; that of a picture has about ten bytes."""
MOST_ZEROS = 32  # of a number of variable length


class _Reader:
    """Reads numbers of some bits, one after another."""

    def __init__(self, data: bytes) -> None:
        self._bits, self._left = int.from_bytes(data, "big"), 8 * len(data)

    def take(self, bits: int) -> int:
        """Return the next `bits` as a number. Raises IndexError if there are fewer."""
        self._left -= bits
        if self._left < 0:
            raise IndexError
        return self._bits >> self._left & (1 << bits) - 1


class _Avif:
    """An AVIF whose boxes are walked through, each step of which is counted."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._steps = 0

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the width and height of every image and every sequence of AV1. Raises IndexError, struct.error."""
        for kind, start, end in self._boxes(0, len(self._data)):
            if kind == b"meta":
                parts = {part: (begin, stop) for part, begin, stop in self._boxes(start + 4, end)}
                yield from self._properties(*parts.get(b"iprp", (0, 0)))
                yield from self._sequences(parts)

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > MOST_STEPS:
            raise IndexError

    def _boxes(self, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
        """Yield the type of each box, where its content begins and where it ends."""
        while at + 8 <= end:
            self._step()
            length, kind = struct.unpack_from(">I4s", self._data, at)
            start = at + 8
            if length == 1:
                (length,) = struct.unpack_from(">Q", self._data, start)
                start += 8
            stop = at + length if length else end
            if not start <= stop <= end:
                raise IndexError
            yield kind, start, stop
            at = stop

    def _properties(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for kind, begin, stop in self._boxes(start, end):
            if kind == b"ipco":
                for name, at, _ in self._boxes(begin, stop):
                    if name == b"ispe":
                        width, height = struct.unpack_from(">II", self._data, at + 4)
                        yield width, height

    def _sequences(self, parts: dict[bytes, tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the sizes of the AV1 of every item that is such."""
        kinds = dict(self._kinds(*parts.get(b"iinf", (0, 0))))
        inside = parts.get(b"idat", (0, 0))[0]
        for item, method, begin, length in self._places(*parts.get(b"iloc", (0, 0))):
            if kinds.get(item) == b"av01":
                at = begin + (inside if method == 1 else 0)
                yield from self._units(at, min(at + length if length else len(self._data), len(self._data)))

    def _kinds(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the type of each item."""
        if start == end:
            return
        wide = self._data[start] > 0
        for kind, at, _ in self._boxes(start + (8 if wide else 6), end):
            if kind == b"infe" and self._data[at] >= 2:
                number, name = struct.unpack_from(">I2x4s" if self._data[at] > 2 else ">H2x4s", self._data, at + 4)
                yield number, name

    def _places(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the number of each item, how its place is counted, where it begins, and how long it is."""
        if start == end:
            return
        version, sizes, more = self._data[start], self._data[start + 4], self._data[start + 5]
        wide = 4 if version == 2 else 2
        at = start + 6

        def take(size: int) -> int:
            nonlocal at
            at += size
            if at > end:
                raise IndexError
            return int.from_bytes(self._data[at - size : at], "big")

        for _ in range(take(wide)):
            self._step()
            item = take(wide)
            method = take(2) & 15 if version else 0
            take(2)
            base = take(more >> 4)
            parts = take(2)
            if parts > 1 or method > 1:  # in pieces, or within another item: what they hold is not known
                raise IndexError
            for _ in range(parts):
                take(more & 15 if version else 0)
                begin, length = take(sizes >> 4), take(sizes & 15)
                yield item, method, base + begin, length

    def _units(self, at: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the size of each sequence among the units of AV1."""
        while at < end:
            self._step()
            kind, extended, sized = self._data[at] >> 3 & 15, self._data[at] & 4, self._data[at] & 2
            at += 2 if extended else 1
            length = end - at
            if sized:
                length, shift = 0, 0
                while True:
                    byte = self._data[at]
                    length |= (byte & 127) << shift
                    at, shift = at + 1, shift + 7
                    if byte < 128 or shift > 28:
                        break
            if kind == SEQUENCE_HEADER:
                self._step(SEQUENCE_STEPS)
                yield _sequence_size(self._data[at : min(at + length, end, at + SEQUENCE_BYTES)])
            at += length


def _sequence_size(data: bytes) -> tuple[int, int]:
    """Return the largest width and height of a sequence, from its header."""
    bits = _Reader(data)
    bits.take(4)
    if bits.take(1):  # of a still picture, reduced
        bits.take(5)
    else:
        delay = 0
        if bits.take(1):  # timing
            bits.take(64)
            if bits.take(1):
                zeros = 0
                while not bits.take(1) and zeros < MOST_ZEROS:
                    zeros += 1
                bits.take(zeros)
            if bits.take(1):  # the decoder's model
                delay = bits.take(5) + 1
                bits.take(42)
        delayed = bits.take(1)
        for _ in range(bits.take(5) + 1):
            bits.take(12)
            if bits.take(5) > 7:
                bits.take(1)
            if delay and bits.take(1):
                bits.take(2 * delay + 1)
            if delayed and bits.take(1):
                bits.take(4)
    across, down = bits.take(4) + 1, bits.take(4) + 1
    return bits.take(across) + 1, bits.take(down) + 1


def avif_size(data: bytes) -> tuple[int, int] | None:
    """Return the largest width and height in pixels of what an AVIF holds; None if it says none.

    Raises IndexError or struct.error for boxes that are cut off, or too many.
    """
    return max(_Avif(data).sizes(), key=lambda size: size[0] * size[1], default=None)


def still(data: bytes) -> bytes:
    """Return an AVIF as that of a picture: of an animation its picture is decoded, rather than its first frame."""
    return data[:8] + b"avif" + data[12:]
