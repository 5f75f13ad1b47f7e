"""Encoded images as clients send them: their sizes are checked, and base64 is decoded."""

import asyncio
import binascii
from collections.abc import Sequence

from service.errors import Malformed, TooLarge, about_input
from service.settings import Settings

PIECE_CHARACTERS = 1 << 20
"""How much base64 is decoded in one turn of the event loop, which takes three milliseconds; a multiple of four."""
NOT_BASE64 = "must be base64 without spaces or a data: prefix"


def check_image(length: int, settings: Settings) -> None:
    """Check the bytes of an encoded image. Raises Malformed for none, and TooLarge."""
    if not length:
        raise Malformed("image: must hold at least one byte, given none")
    if length > settings.max_image_bytes:
        raise TooLarge(f"image: at most {settings.max_image_bytes} bytes, given {length}")


async def decode_images(subject: str, texts: Sequence[str], settings: Settings) -> list[bytes]:
    """Return images from base64. Raises TooLarge before any is decoded, and Malformed if one is none."""
    for number, text in enumerate(texts):
        with about_input(number, len(texts)):
            _check_base64(subject, text, settings)
    images = []
    for number, text in enumerate(texts):
        with about_input(number, len(texts)):
            images.append(await _decode_base64(subject, text))
    return images


async def decode_image(subject: str, text: str, settings: Settings) -> bytes:
    """Return one image from base64. Raises what `decode_images` does."""
    (image,) = await decode_images(f"{subject}: image", [text], settings)
    return image


def _check_base64(subject: str, text: str, settings: Settings) -> None:
    """Check how long the image is that a text of base64 holds."""
    if len(text) % 4:
        raise Malformed(f"{subject} {NOT_BASE64}")
    check_image(len(text) // 4 * 3 - text.count("=", -2), settings)


async def _decode_base64(subject: str, text: str) -> bytes:
    """Decode base64 (RFC 4648, section 4), a long one in turns with what else the event loop has to do."""
    decoded = []
    for start in range(0, len(text), PIECE_CHARACTERS):
        if start:
            await asyncio.sleep(0)
        piece = text[start : start + PIECE_CHARACTERS]
        try:
            decoded.append(binascii.a2b_base64(piece, strict_mode=True))
        except ValueError as error:  # binascii.Error is one, and so is what a character beyond ASCII raises
            raise Malformed(f"{subject} {NOT_BASE64}") from error
        if piece.endswith("=") and start + len(piece) < len(text):
            raise Malformed(f"{subject} {NOT_BASE64}")
    return b"".join(decoded)
