"""An answer as a notebook shows it: a picture, and the page's own views in a frame."""

import base64
import contextlib
import html
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from regard.attention import Attention, AttentionOptions, Json, Method
from regard.errors import BadInput, RegardError
from regard.inline import document, frame
from regard.objects import Detected
from regard.results import Classification, Detection, Embedding, Filled, Generation, Result

PAGES = (".html", ".htm")
PICTURE_BYTES = 3_000_000
"""A picture of more bytes is shown smaller: a notebook keeps what it shows."""
PICTURE_SIDE = 1024
NEARLY_WHITE = 200
"""The brightness above which the service puts a drawing on black, since on white it could not be seen."""
HEADS_VALUES = 2_000_000
"""So many weights of all heads are shown; of more, none."""


def bundle(result: Result) -> dict[str, Any]:
    """Return what Jupyter shows: HTML, or a picture where it cannot, or words. It asks the service for attention.

    What the service refuses is left out: an answer is shown all the same.
    """
    words = described(result)
    seen = asked_for(result)
    png = picture_of(result, seen)
    shown: dict[str, Any] = {"text/plain": words}
    if png:
        shown["image/png"] = base64.b64encode(png).decode()
    try:
        shown["text/html"] = frame(seen, png)
    except (TypeError, ValueError):
        shown["text/html"] = f"<pre>{html.escape(words)}</pre>"
    return shown


def save(result: Result, path: str | Path) -> None:
    """Write an answer as one HTML file. Raises BadInput for another suffix, and if it cannot be written."""
    to = Path(path)
    if to.suffix.lower() not in PAGES:
        raise BadInput(f"path: must end in {' or '.join(PAGES)}, given {to.name!r}")
    if not to.absolute().parent.is_dir():  # before anything is asked
        raise BadInput(f"path: must be in a folder that exists, given {str(to.parent)!r}")
    try:
        write(result, to)
    except OSError as error:
        raise BadInput(f"path: cannot be written: {error.strerror}") from error


def write(result: Result, to: Path) -> None:
    """Write an answer as one HTML file. Raises OSError."""
    to.write_text(document(asked_for(result)), encoding="utf-8")


def described(result: Result) -> str:
    """Return an answer in words."""
    name = result.asked.model.name
    if isinstance(result, Classification):
        values = (f"{one.probability:.1%}" if one.score is None else f"{one.score:.3f}" for one in result.labels)
        return f"{name}: " + ", ".join(f"{one.label} {value}" for one, value in zip(result.labels, values, strict=True))
    if isinstance(result, Detection):
        return f"{name}: " + ("; ".join(map(_placed, result.objects)) or "nothing found")
    if isinstance(result, Generation):
        return f"{name}: {result.text}"
    if isinstance(result, Filled):
        return f"{name}: " + "; ".join(", ".join(one.text for one in mask) for mask in result.candidates)
    if isinstance(result, Embedding):
        return f"{name}: a vector of {len(result.vector)} numbers"
    return f"{name}: {result.attention.method if result.attention else 'no'} attention"


def _placed(found: Detected) -> str:
    left, top, right, bottom = (f"{edge:.0f}" for edge in found.box)
    return f"{found.label} {found.probability:.1%} at {left},{top} to {right},{bottom}"


def asked_for(result: Result) -> dict[str, object]:
    """Return what the views show, as `regard.inline.document` takes it: plain JSON."""
    model, given = result.asked.model, result.asked.given
    attention = result.attention or _tried(result, None)
    picture = given.picture and _small(given.picture, given.media_type)
    text = given.text if isinstance(given.text, str) else " / ".join(given.text or ())
    return {
        "model": model.name,
        "task": model.task,
        "about": model.about,
        "result": {name: value for name, value in result.json.items() if name != "embedding"},
        "attention": attention.json if attention else None,
        "heads": _heads(result),
        "picture": picture or None,
        "text": text or None,
    }


def _heads(result: Result) -> Json | None:
    kinds = result.asked.model.kinds.values()
    tokens = result.asked.model.json["inputs"].get("max_tokens", 0)
    whole: AttentionOptions = {"layers": "all", "heads": "all"}
    if tokens:
        whole["queries"] = "all"
    if "raw" not in result.asked.model.methods or not kinds:
        return None
    found = _tried(result, "raw", whole)
    if found is None or sum(one.values.size for one in found.maps) > HEADS_VALUES:
        return None
    return found.json


def _tried(result: Result, method: Method | None, options: AttentionOptions | None = None) -> Attention | None:
    with contextlib.suppress(RegardError):
        return result.look(method, **(options or {}))
    return None


def picture_of(result: Result, seen: dict[str, object]) -> bytes | None:
    """Return a picture (PNG) of what the model looked at, as the service draws it; else the picture that was sent."""
    with contextlib.suppress(RegardError):
        if result.asked.client:
            method = result.attention.method if result.attention else None
            return result.asked.client.png(result, method)  # type: ignore[arg-type] # a method's name
    if result.asked.given.picture is None:
        return None
    file = io.BytesIO()
    with Image.open(io.BytesIO(result.asked.given.picture)) as image:
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


def _small(picture: bytes, media_type: str) -> str:
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
            picture, media_type = file.getvalue(), f"image/{form.lower()}"
    return f"data:{media_type};base64,{base64.b64encode(picture).decode()}"
