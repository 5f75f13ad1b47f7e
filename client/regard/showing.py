"""What a notebook shows: a picture, and the page's own views in a frame; and pictures as the model sees them."""

import base64
import html
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from regard.errors import BadInput
from regard.inline import frame

PICTURE_BYTES = 3_000_000
"""A picture of more bytes is shown smaller: a notebook keeps what it shows."""
PICTURE_SIDE = 1024
NEARLY_WHITE = 200
"""The brightness above which the service puts a drawing on black, since on white it could not be seen."""


def bundle(words: str, seen: dict[str, object], png: bytes | None) -> dict[str, Any]:
    """Return what Jupyter shows: HTML of what is `seen`, or a picture where it cannot, or words."""
    shown: dict[str, Any] = {"text/plain": words}
    if png:
        shown["image/png"] = base64.b64encode(png).decode()
    try:
        shown["text/html"] = frame(seen, png)
    except (TypeError, ValueError):
        shown["text/html"] = f"<pre>{html.escape(words)}</pre>"
    return shown


def checked_path(path: str | Path, suffixes: Iterable[str]) -> Path:
    """Return the path of a file. Raises BadInput for another suffix, and if there is no such folder."""
    to, known = Path(path), list(suffixes)
    if to.suffix.lower() not in known:
        raise BadInput(f"path: must end in {', '.join(known[:-1])} or {known[-1]}, given {to.name!r}")
    if not to.absolute().parent.is_dir():
        raise BadInput(f"path: must be in a folder that exists, given {str(to.parent)!r}")
    return to


def opened(png: bytes) -> Image.Image:
    """Return a picture of the service."""
    image = Image.open(io.BytesIO(png))
    image.load()
    return image


def upright(picture: bytes) -> Image.Image:
    """Return a picture's file as the model sees it: upright and opaque, in red, green and blue."""
    with Image.open(io.BytesIO(picture)) as image:
        return _opaque(ImageOps.exif_transpose(image))


def as_png(picture: bytes) -> bytes:
    """Return a picture as the bytes of a PNG file: upright, opaque, and not larger than a notebook needs."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
        _opaque(ImageOps.exif_transpose(image)).save(file, "PNG")
    return file.getvalue()


def _opaque(image: Image.Image) -> Image.Image:
    """Return an image in RGB as the model sees it.

    16 bits are scaled to 8. What is transparent becomes white, or black where what is opaque is nearly white.
    """
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    opaque = np.asarray(layer.convert("L"))[np.asarray(layer.getchannel("A")) > 127]
    ground = "black" if opaque.size and np.median(opaque) > NEARLY_WHITE else "white"
    return Image.alpha_composite(Image.new("RGBA", image.size, ground), layer).convert("RGB")


def data_url(picture: bytes, media_type: str) -> str:
    """Return a picture as a data URL: as it was sent, or smaller, or opaque as the model sees it, turned as it was."""
    with Image.open(io.BytesIO(picture)) as image:
        large = len(picture) > PICTURE_BYTES
        if large or image.has_transparency_data:
            exif = image.getexif()
            if large:
                image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
            file = io.BytesIO()
            form = "JPEG" if large else "PNG"
            _opaque(image).save(file, form, exif=exif)
            picture = file.getvalue()
            media_type = f"image/{form.lower()}"
    return f"data:{media_type};base64,{base64.b64encode(picture).decode()}"
