"""Encoded images as clients send them: their sizes are checked, and base64 is decoded."""

import asyncio
import binascii
import re
from collections.abc import Sequence

from service.errors import Malformed, TooLarge, about_input
from service.settings import Settings

PIECE_CHARACTERS = 1 << 20
"""How much base64 is decoded in one turn of the event loop, which takes three milliseconds."""
NOT_BASE64 = "must be base64 or a data: URL of it; addresses are not fetched"
DATA_URL = re.compile(r"\s{0,8}data:[^,]{0,256};base64,", re.IGNORECASE)
LEAST_LENGTH = 64
"""A text of at least this number of characters is taken to hold an image, until it is decoded."""
SPACES = b"\t\n\f\r "
"""What may stand between the characters of base64 (WHATWG Infra, section 6.2), as where lines are wrapped."""
_URL_SAFE = bytes.maketrans(b"-_", b"+/")  # RFC 4648, section 5; neither means anything else


def check_image(length: int, settings: Settings) -> None:
    """Check the bytes of an encoded image. Raises Malformed for none, and TooLarge."""
    if not length:
        raise Malformed("image: must hold at least one byte, given none")
    if length > settings.max_image_bytes:
        raise TooLarge(f"image: at most {settings.max_image_bytes} bytes, given {length}")


async def decode_images(subject: str, texts: Sequence[str], settings: Settings) -> list[bytes]:
    """Return images from base64 or data URLs. Raises TooLarge before any is decoded, and Malformed if one is none."""
    starts = []
    for number, text in enumerate(texts):
        with about_input(number, len(texts)):
            starts.append(_check_base64(text, settings))
    images = []
    for number, (text, start) in enumerate(zip(texts, starts, strict=True)):
        with about_input(number, len(texts)):
            images.append(await _decode_base64(subject, text, start))
            check_image(len(images[-1]), settings)
    return images


async def decode_image(subject: str, text: str, settings: Settings) -> bytes:
    """Return one image from base64. Raises what `decode_images` does."""
    (image,) = await decode_images(f"{subject}: image", [text], settings)
    return image


def _check_base64(text: str, settings: Settings) -> int:
    """Check how long the image is that a text of base64 holds; return where in the text the base64 begins."""
    head = DATA_URL.match(text)
    start = head.end() if head else 0
    characters = len(text) - start
    if characters < LEAST_LENGTH or characters * 3 // 4 > settings.max_image_bytes:  # else counting takes too long
        characters = len(text[start:].encode("ascii", "replace").translate(None, SPACES + b"="))
    check_image(max(characters * 3 // 4, min(characters, 1)), settings)
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
