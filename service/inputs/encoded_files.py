"""Encoded images and sounds as clients send them: their sizes are checked, and base64 is decoded."""

import asyncio
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass

from service.errors import Malformed, TooLarge, about_input
from service.settings import Settings

PIECE_CHARACTERS = 1 << 20
"""How much base64 is decoded in one turn of the event loop, which takes three milliseconds."""
NOT_BASE64 = "must be base64 or a data: URL of it; addresses are not fetched"
DATA_URL = re.compile(r"\s{0,8}data:[^,]{0,256};base64,", re.IGNORECASE)
LEAST_LENGTH = 64
"""A text of at least this number of characters is taken to hold a file, until it is decoded."""
SPACES = b"\t\n\f\r "
"""What may stand between the characters of base64 (WHATWG Infra, section 6.2), as where lines are wrapped."""
_URL_SAFE = bytes.maketrans(b"-_", b"+/")  # RFC 4648, section 5; neither means anything else


@dataclass(frozen=True)
class FileSort:
    """A sort of files that requests hold."""

    name: str
    """Of one, in refusals and where it is sent in a form."""
    plural: str
    """Of several, where they are sent in JSON."""
    one: str
    """With an article."""
    media: str
    """How the media types of single ones begin."""
    example: str
    """A media type."""
    most_bytes: str
    """The setting of the most bytes of one."""
    most: str
    """The setting of how many a request may have."""

    def check(self, length: int, settings: Settings) -> None:
        """Check the bytes of an encoded file. Raises Malformed for none, and TooLarge."""
        if not length:
            raise Malformed(f"{self.name}: must hold at least one byte, given none")
        most = getattr(settings, self.most_bytes)
        if length > most:
            raise TooLarge(f"{self.name}: at most {most} bytes, given {length}")


IMAGE = FileSort("image", "images", "an image", "image/", "image/png", "max_image_bytes", "max_images")
SOUND = FileSort("audio", "audio", "a sound", "audio/", "audio/wav", "max_audio_bytes", "max_sounds")


async def decode_files(sort: FileSort, subject: str, texts: Sequence[str], settings: Settings) -> list[bytes]:
    """Return files from base64 or data URLs. Raises TooLarge before any is decoded, and Malformed if one is none."""
    starts = []
    for number, text in enumerate(texts):
        with about_input(number, len(texts)):
            starts.append(_check_base64(sort, text, settings))
    files = []
    for number, (text, start) in enumerate(zip(texts, starts, strict=True)):
        with about_input(number, len(texts)):
            files.append(await _decode_base64(subject, text, start))
            sort.check(len(files[-1]), settings)
    return files


async def decode_file(sort: FileSort, subject: str, text: str, settings: Settings) -> bytes:
    """Return one file from base64. Raises what `decode_files` does."""
    (file,) = await decode_files(sort, f"{subject}: {sort.name}", [text], settings)
    return file


def _check_base64(sort: FileSort, text: str, settings: Settings) -> int:
    """Check how long the file is that a text of base64 holds; return where in the text the base64 begins."""
    head = DATA_URL.match(text)
    start = head.end() if head else 0
    characters = len(text) - start
    # else counting takes too long
    if characters < LEAST_LENGTH or characters * 3 // 4 > getattr(settings, sort.most_bytes):
        characters = len(text[start:].encode("ascii", "replace").translate(None, SPACES + b"="))
    sort.check(max(characters * 3 // 4, min(characters, 1)), settings)
    return start


async def _decode_base64(subject: str, text: str, start: int) -> bytes:
    """Decode base64 (RFC 4648, section 4), a long one in turns with what else the event loop has to do.

    It may be wrapped, lack the padding at its end, or be of the alphabet of addresses.
    """
    decoded, left = [], b""
    try:
        for place in range(start, len(text), PIECE_CHARACTERS):
            if place > start:
                await asyncio.sleep(0)
            piece = text[place : place + PIECE_CHARACTERS].encode("ascii")
            left += piece.translate(_URL_SAFE, SPACES)
            whole = max(0, (len(left) - 1) // 4 * 4)  # the last four may be padded, and may not be whole
            decoded.append(binascii.a2b_base64(left[:whole], strict_mode=True))
            if left[:whole].endswith(b"="):
                raise ValueError
            left = left[whole:]
        decoded.append(binascii.a2b_base64(left + b"=" * (-len(left) % 4), strict_mode=True))
    except ValueError as error:  # binascii.Error is one, and so is what a character beyond ASCII raises
        raise Malformed(f"{subject} {NOT_BASE64}") from error
    return b"".join(decoded)
