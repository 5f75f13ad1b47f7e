"""What is sent: a picture or a sound as the bytes of a file, a text, a pair of texts, a chat, or a graph."""

import base64
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from regard.errors import BadInput
from regard.graphs import Graph, Json, graph_of
from regard.sounds import WAV, Samples, wav_of

Picture: TypeAlias = str | os.PathLike[str] | bytes | Image.Image | npt.NDArray[Any]
"""A file's path, the bytes of a file, a Pillow image, or an array (height, width[, 1, 3 or 4 channels]).

Of an array, bytes count from 0 to 255, floats from 0 to 1.
"""
Text: TypeAlias = str | tuple[str, str]
"""A text, or a pair of texts for models that compare two, or that answer a question from a context."""
Sound: TypeAlias = str | os.PathLike[str] | bytes | Samples | tuple[Samples, int]
"""A file's path, the bytes of a file, or an array with its rate in samples a second, as `soundfile.read` returns both.

The array is (samples,) or (samples, channels), floats from -1 to 1 or int16; its rate may be given beside it.
"""
Chat: TypeAlias = Sequence[Mapping[str, str]]
"""Messages such as `{"role": "user", "content": "Hello"}`, the last of which a model answers."""
Input: TypeAlias = Picture | Text | Chat | Sound | Graph

SENT_AS_THEY_ARE = {
    "JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif", "AVIF": "image/avif"
}  # fmt: skip
"""What the service reads and is well compressed, by Pillow's names; other forms are sent as PNG."""
CHANNELS = (1, 3, 4)


FIELDS = {"image": "images", "text": "inputs", "sound": "audio", "graph": "graphs"}
"""The field of a body that holds inputs, by their sort."""


@dataclass(frozen=True)
class Encoded:
    """An input as it is sent: the bytes of a picture or a sound and their media type, a text, a chat, or a graph."""

    text: Text | None = None
    chat: Chat | None = None
    picture: bytes | None = None
    sound: bytes | None = None
    graph: Json | None = None
    media_type: str = ""

    @property
    def json(self) -> object:
        """The input as a body of JSON holds it."""
        if self._file is not None:
            return base64.b64encode(self._file).decode()
        if isinstance(self.text, tuple):
            return {"text": self.text[0], "text_pair": self.text[1]}
        return next((one for one in (self.text, self.chat, self.graph) if one is not None), None)

    @property
    def words(self) -> str:
        """The input as it is read, of a chat each message in lines of its own; "" if it is no text."""
        if self.chat is not None:
            return "".join(f"{one['content']}\n" for one in self.chat)
        return self.text if isinstance(self.text, str) else " / ".join(self.text or ())

    @property
    def size(self) -> int:
        """How many bytes the input has in a body, about."""
        if self._file is not None:
            return len(self._file) * 4 // 3
        if self.text is None:
            return len(json.dumps(self.json))
        return sum(len(part.encode(errors="replace")) for part in (self.text or ()))

    @property
    def values(self) -> int:
        """How many values the input has in a body, at most: each comma and each opening bracket begins one."""
        return 1 if self.graph is None else sum(map(json.dumps(self.graph).count, ",[{"))

    @property
    def field(self) -> str:
        """The field of a body that holds inputs of its sort."""
        if self.chat is not None:
            return "messages"
        given = {"image": self.picture, "sound": self.sound, "graph": self.graph}
        return FIELDS[next((sort for sort, content in given.items() if content is not None), "text")]

    @property
    def _file(self) -> bytes | None:
        return self.picture if self.sound is None else self.sound


def encode(given: object, sort: str) -> Encoded:
    """Return an input as it is sent to a model that takes a sort of inputs, one of SORTS. Raises BadInput."""
    return SORTS[sort](given)


def body_of(given: Sequence[Encoded], sort: str) -> Json:
    """Return inputs as a body has them; `sort` is that of inputs where there are none."""
    field = given[0].field if given else FIELDS[sort]
    return {field: given[0].json if given and given[0].chat else [one.json for one in given]}


def encode_text(given: object) -> Encoded:
    """Return a text, a pair of texts or a chat as it is sent. Raises BadInput for others, and for lone surrogates."""
    if isinstance(given, list):
        return _encode_chat(given)
    parts = given if isinstance(given, tuple) else (given,)
    if (isinstance(given, tuple) and len(parts) != 2) or not all(isinstance(part, str) for part in parts):
        raise BadInput(f"text: must be a string or a pair of strings for this model, given {_kind(given)}")
    try:
        for part in parts:
            part.encode()
    except UnicodeEncodeError as error:
        raise BadInput("text: must be Unicode without lone surrogates, given one; str.encode says where") from error
    return Encoded(text=given if isinstance(given, tuple) else parts[0])


def _encode_chat(given: Sequence[object]) -> Encoded:
    """Return messages as they are sent. Raises BadInput if they are none; the service says what it takes of them."""
    messages = [dict(one) for one in given if isinstance(one, Mapping) and {"role", "content"} <= one.keys()]
    if not messages or len(messages) < len(given):
        raise BadInput('text: must be messages where it is a list, such as {"role": "user", "content": "Hello"}')
    for message in messages:
        encode_text(message["content"])
    return Encoded(chat=messages)


def encode_picture(given: object) -> Encoded:
    """Return a picture as it is sent: JPEG, PNG, WebP, GIF and AVIF as they are, what else Pillow reads as PNG.

    Raises BadInput if a file cannot be read or is no picture, and if an array has another shape or type.
    """
    if isinstance(given, np.ndarray):
        return _png(_of_array(given))
    if isinstance(given, str | os.PathLike):
        given = _read("picture", given)
    if not isinstance(given, bytes | bytearray | memoryview | Image.Image):
        raise BadInput(
            f"picture: must be a path, bytes, a Pillow image or an array for this model, given {_kind(given)}"
        )
    try:
        if isinstance(given, Image.Image):
            return _png(_upright(given))
        content = bytes(given)
        with Image.open(io.BytesIO(content)) as image:
            if media_type := SENT_AS_THEY_ARE.get(image.format or ""):
                return Encoded(picture=content, media_type=media_type)
            return _png(_upright(image))
    except BadInput:
        raise
    except UnidentifiedImageError as error:
        raise BadInput(
            "picture: must be an image that Pillow reads (JPEG, PNG, WebP, ...), given other bytes"
        ) from error
    except Exception as error:  # Pillow raises many classes
        raise BadInput(f"picture: cannot be read: {error}") from error


def encode_sound(given: object) -> Encoded:
    """Return a sound as it is sent: files as they are, an array with its rate as WAV. Raises BadInput."""
    if isinstance(given, np.ndarray):
        raise BadInput("sound: must be an array with its rate in samples a second, (array, rate), given it without")
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], np.ndarray):
        return Encoded(sound=wav_of(*given), media_type=WAV)
    if isinstance(given, str | os.PathLike):
        given = _read("sound", given)
    if not isinstance(given, bytes | bytearray | memoryview) or not given:
        raise BadInput(f"sound: must be a path, bytes, or an array with its rate for this model, given {_kind(given)}")
    return Encoded(sound=bytes(given), media_type=WAV if bytes(given[:4]) == b"RIFF" else "")


def encode_graph(given: object) -> Encoded:
    """Return a graph as it is sent, as JSON. Raises BadInput if it is none, or its file cannot be read."""
    return Encoded(graph=graph_of(_read("graph", given) if isinstance(given, str | os.PathLike) else given))


def with_rate(given: object, rate: int | None) -> object:
    """Return a sound as one that says its rate, where it is given beside: of files it is in the file."""
    return given if rate is None else (given, rate)


def _read(subject: str, path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{subject}: {os.fspath(path)!r} cannot be read: {reason}; a str is a path here") from error


def _of_array(array: npt.NDArray[Any]) -> Image.Image:
    shape = array.shape[:2] + (array.shape[2:] or (1,))
    if len(shape) != 3 or shape[2] not in CHANNELS or 0 in shape:
        raise BadInput(f"picture: an array must be (height, width) or (height, width, 1, 3 or 4), given {array.shape}")
    if array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise BadInput("picture: an array of floats must be from 0 to 1, given others; divide bytes by 255")
        array = (array * 255).round().astype(np.uint8)
    if array.dtype == bool:
        array = array.astype(np.uint8) * 255
    if array.dtype != np.uint8:
        raise BadInput(f"picture: an array must be of uint8 or floats, given {array.dtype}")
    return Image.fromarray(array if shape[2] > 1 else array.reshape(shape[:2]))


def _upright(image: Image.Image) -> Image.Image:
    """Return an image turned as its EXIF says."""
    return ImageOps.exif_transpose(image)


def _png(image: Image.Image) -> Encoded:
    if 0 in image.size:
        raise BadInput(f"picture: must have pixels, given {image.width} x {image.height}")
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image, np.float32) / 257).round().astype(np.uint8))
    if image.mode in ("I", "F"):
        raise BadInput(f"picture: must be of a mode that says what is white, such as L or RGB, given {image.mode}")
    if image.mode not in ("L", "LA", "RGB", "RGBA", "P", "1"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    return Encoded(picture=file.getvalue(), media_type="image/png")


def _kind(given: object) -> str:
    return type(given).__name__


def encode_either(given: object) -> Encoded:
    """Return a picture or a text as it is sent to one of two models that are compared. Raises BadInput.

    A string is a text unless it names a file.
    """
    return encode_text(given) if isinstance(given, str) and not names_file(given) else encode_picture(given)


def names_file(path: str) -> bool:
    """Return whether a string is the path of a file."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # longer than any path, or no path
        return False


SORTS: Mapping[str, Callable[[object], Encoded]] = {
    "image": encode_picture,
    "text": encode_text,
    "sound": encode_sound,
    "graph": encode_graph,
    "either": encode_either,
}
"""What encodes an input, by the name that `Description.sent` has for its sort."""
