"""WAV: samples of sound in a RIFF file (IBM and Microsoft 1991; for more channels and bits WAVE_FORMAT_EXTENSIBLE)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.errors import Unacceptable, Unsupported

Samples = npt.NDArray[np.float32]

INTEGERS, FLOATS, EXTENSIBLE = 1, 3, 0xFFFE
"""Format tags: how samples are written. The extensible one has the tag of its samples in a field of its own."""
RATES = (4_000, 192_000)
"""Samples a second, at least and at most."""
MOST_CHANNELS = 8
MOST_CHUNKS = 1000
"""Before the samples. Each has a name and a length; nobody writes so much about a sound."""
UNKNOWN_LENGTH = (0, 0xFFFFFFFF)
"""Of samples that were streamed: they last until the end of the file."""
WIDTHS = {INTEGERS: (8, 16, 24, 32), FLOATS: (32, 64)}
"""Bits of a sample."""


@dataclass(frozen=True)
class WavFormat:
    """How the samples of a file are written."""

    tag: int
    channels: int
    rate: int
    bits: int

    @property
    def frame(self) -> int:
        """Bytes of the samples of all channels at one time."""
        return self.channels * self.bits // 8


def is_wav(data: bytes) -> bool:
    """Return whether bytes begin as a WAV file does."""
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


@dataclass(frozen=True)
class WavLayout:
    """Where the samples of a file are, and how they are written."""

    written: WavFormat
    start: int
    """The first byte of them."""
    count: int
    """Samples of each channel."""

    @property
    def seconds(self) -> float:
        """How long the sound is."""
        return self.count / self.written.rate


def read_layout(data: bytes) -> WavLayout:
    """Return where the samples of a file are. No sample is read.

    Raises Unsupported for what is no WAV file, or is written in another way, and Unacceptable for a file that is
    broken, or has no samples.
    """
    if not is_wav(data):
        raise Unsupported("audio: must be a WAV file")
    written: WavFormat | None = None
    for name, start, stop in _chunks(data):
        if name == b"fmt ":
            written = _format_of(data[start:stop])
        elif name == b"data":
            if written is None:
                raise Unacceptable("audio: must say how its samples are written before they come")
            layout = WavLayout(written, start, (stop - start) // written.frame)
            if not layout.count:
                break
            return layout
    raise Unacceptable("audio: must hold samples, given none")


def decode_wav(data: bytes) -> tuple[Samples, int]:
    """Return the mean of a file's channels, from -1 to 1, and its samples a second.

    Raises as `read_layout` does, and Unacceptable for samples that are no numbers.
    """
    layout = read_layout(data)
    written = layout.written
    raw = np.frombuffer(data, np.uint8, layout.count * written.frame, layout.start)
    values = _numbers(raw, written).reshape(layout.count, written.channels)
    if not np.isfinite(values).all():
        raise Unacceptable("audio: must have samples that are numbers")
    mean: Samples = values.mean(axis=1, dtype=np.float64).astype(np.float32)
    return mean, written.rate


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name of each chunk, and where its bytes begin and end. The last may be cut short."""
    place = 12
    for _ in range(MOST_CHUNKS):
        if place + 8 > len(data):
            return
        name, length = struct.unpack_from("<4sI", data, place)
        start = place + 8
        if name == b"data" and length in UNKNOWN_LENGTH:
            length = len(data) - start
        yield name, start, min(start + length, len(data))
        place = start + length + length % 2  # chunks begin at even places


def _format_of(chunk: bytes) -> WavFormat:
    if len(chunk) < 16:
        raise Unacceptable("audio: must say how its samples are written in 16 bytes or more")
    tag, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == EXTENSIBLE and len(chunk) >= 26:
        (tag,) = struct.unpack_from("<H", chunk, 24)
    written = WavFormat(tag, channels, rate, bits)
    if bits not in WIDTHS.get(tag, ()):
        raise Unsupported("audio: must have samples of 8, 16, 24 or 32 bits, or floats of 32 or 64, as a WAV file")
    if not 1 <= channels <= MOST_CHANNELS:
        raise Unacceptable(f"audio: must have 1 to {MOST_CHANNELS} channels, given {channels}")
    if not RATES[0] <= rate <= RATES[1]:
        raise Unacceptable(f"audio: must have {RATES[0]} to {RATES[1]} samples a second, given {rate}")
    if frame != written.frame:
        raise Unacceptable(f"audio: must have frames of {written.frame} bytes, given {frame}")
    return written


def _numbers(raw: npt.NDArray[np.uint8], written: WavFormat) -> npt.NDArray[np.float64]:
    """Return samples from -1 to 1; integers of 8 bits have no sign."""
    if written.tag == FLOATS:
        return raw.view(f"<f{written.bits // 8}").astype(np.float64)
    if written.bits == 8:
        return (raw.astype(np.float64) - 128) / 128
    if written.bits == 24:  # the upper bytes of 32 bits
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = raw.reshape(-1, 3)
        return wide.reshape(-1).view("<i4") / 2.0**31
    return raw.view(f"<i{written.bits // 8}") / 2.0 ** (written.bits - 1)
