"""What is sent: a picture or a sound as the bytes of a file, a text, a pair of texts, a chat, or a graph."""

import base64
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from regard.errors import BadInput
from regard.fetching import File, Readable, Tensor, fetched, is_address, read
from regard.graphs import Graph, Json, Network, graph_of
from regard.sounds import WAV, Samples, wav_of

Picture: TypeAlias = str | os.PathLike[str] | bytes | Image.Image | npt.NDArray[Any] | Readable
"""A file's path or address (https://), its bytes, an open file, a Pillow image, or an array or tensor.

An array is (height, width[, 1, 3 or 4 channels]), a tensor also (1, 3 or 4 channels, height, width). Whole numbers are
from 0 to 255, floats from 0 to 1.
"""
Text: TypeAlias = str | tuple[str, str]
"""A text, or a pair of texts for models that compare two, or that answer a question from a context."""
Sound: TypeAlias = str | os.PathLike[str] | bytes | Readable | Samples | tuple[Samples | Readable, int]
"""A file's path or address (https://), its bytes, an open file, or an array or tensor with its rate.

The rate is in samples a second, as `soundfile.read` returns both; it may be given beside the array. An array is
(samples,) or (samples, channels), a tensor also (channels, samples), floats from -1 to 1 or int16.
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
    name: str | None = field(default=None, compare=False)
    """The file's path or address, if it was given by one."""

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
    """Return an input as it is sent to a model that takes a sort of inputs, one of SORTS. Raises BadInput.

    What goes wrong with a file is said with its name.
    """
    name = _name(given, sort)
    try:
        return replace(SORTS[sort](given), name=name)
    except BadInput as error:
        if name is None or name in str(error):
            raise
        raise BadInput(f"{name}: {error}") from error.__cause__


def _name(given: object, sort: str) -> str | None:
    """Return the path or the address of a file that is given by it."""
    if isinstance(given, str):
        is_text = sort == "text" or (sort == "either" and not names_file(given))
        return None if is_text else given
    return os.fspath(given) if isinstance(given, os.PathLike) else None


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
    given = _channels_last(given) if isinstance(given, Tensor) else read(given)
    if isinstance(given, np.ndarray):
        return _png(_of_array(given))
    if isinstance(given, str | os.PathLike):
        given = _read("picture", given)
    if not isinstance(given, bytes | bytearray | memoryview | Image.Image):
        raise BadInput(
            "picture: must be a path, an address, bytes, a file, a Pillow image, an array or a tensor for this model, "
            f"given {_kind(given)}"
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
    given = read(given)
    if isinstance(given, np.ndarray):
        raise BadInput("sound: must be an array with its rate in samples a second, (array, rate), given it without")
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Tensor | np.ndarray):
        return Encoded(sound=wav_of(_samples_first(given[0]), given[1]), media_type=WAV)
    if isinstance(given, str | os.PathLike):
        given = _read("sound", given)
    if not isinstance(given, bytes | bytearray | memoryview) or not given:
        raise BadInput(
            "sound: must be a path, an address, bytes, a file, or an array with its rate for this model, "
            f"given {_kind(given)}"
        )
    return Encoded(sound=bytes(given), media_type=WAV if bytes(given[:4]) == b"RIFF" else "")


def encode_graph(given: object) -> Encoded:
    """Return a graph as it is sent, as JSON. Raises BadInput if it is none, or its file cannot be read."""
    given = read(given)
    return Encoded(graph=graph_of(_read("graph", given) if isinstance(given, str | os.PathLike) else given))


def with_rate(given: object, rate: int | None) -> object:
    """Return a sound as one that says its rate, where it is given beside: of files it is in the file."""
    return given if rate is None else (given, rate)


def is_one(inputs: object) -> bool:
    """True for one input in place of several: a text, a file, a graph, a picture, also as an array."""
    if isinstance(inputs, Tensor):
        return len(inputs.shape) < 4
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "buif":
        return inputs.ndim < 3 or (inputs.ndim == 3 and inputs.shape[2] in CHANNELS)
    one = (str, bytes, bytearray, memoryview, os.PathLike, Image.Image, Mapping, Network, File)  # a file has lines
    return isinstance(inputs, one)


def with_rates(inputs: Iterable[object], rate: int | None) -> Iterable[object]:
    """Return sounds as they say their rate, where it is given beside them: of files it is in the file."""
    return inputs if rate is None or is_one(inputs) else [(one, rate) for one in inputs]


def _channels_last(given: Tensor) -> npt.NDArray[Any]:
    """Return a tensor as a picture's array: PyTorch has channels first."""
    array = _array(given)
    first = array.ndim == 3 and array.shape[0] in CHANNELS and array.shape[2] not in CHANNELS
    return np.moveaxis(array, 0, 2) if first else array


def _samples_first(given: Tensor | npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a sound's array, of a tensor with channels first too."""
    array = _array(given)
    return array.T if isinstance(given, Tensor) and array.ndim == 2 and array.shape[0] < array.shape[1] else array


def _array(given: object) -> npt.NDArray[Any]:
    return np.asarray(read(given))


def _read(subject: str, path: str | os.PathLike[str]) -> bytes:
    if is_address(path):
        return fetched(os.fspath(path))
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
        array = (array * 255).round()
    if array.dtype == bool:
        array = array.astype(np.uint8) * 255
    if array.dtype.kind not in "uif":
        raise BadInput(f"picture: an array must be of whole numbers or floats, given {array.dtype}")
    if array.min() < 0 or array.max() > 255:
        raise BadInput("picture: an array of whole numbers must be from 0 to 255, given others")
    array = array.astype(np.uint8)
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

    A string is a text unless it names a file, or is an address.
    """
    return encode_text(given) if isinstance(given, str) and not names_file(given) else encode_picture(given)


def names_file(path: str) -> bool:
    """Return whether a string is the path or the address of a file."""
    if is_address(path):
        return True
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
