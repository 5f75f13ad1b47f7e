"""A stored request, its packed form, and the protocol of stores."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Protocol, TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict, Field

from contract.chat import Message
from service.inputs.model_input import Conversation, Pair, Prompted, Text, Windows

FORMAT_VERSION: Literal[1] = 1
"""The version of the packed form. Raise it with every change that another version of the service would misread."""
ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""The ids that a store takes. (Earlier versions of the service let clients choose them.)"""
TEXT_ENCODING = ("utf-8", "surrogatepass")
"""Texts are stored as they were read, with lone surrogates too."""


@dataclass(frozen=True)
class StoredRequest:
    """What is stored of an answered request: enough to run it again."""

    model: str
    version: str
    inputs: tuple[bytes | Text, ...]
    """Encoded images, or texts."""
    truncate: bool = False
    targets: tuple[tuple[int, ...], ...] | None = None
    """The generated tokens, one tuple for each input."""
    source_language: str | None = None
    """The language of the inputs, and of the targets, if the request said it."""
    target_language: str | None = None
    windows: Windows | None = None
    """The windows in which texts that are too long are read."""
    dimensions: int | None = None
    """How many numbers of embeddings were answered, if the request said it."""

    @property
    def overlap(self) -> tuple[int | None, int | None] | None:
        """The stride and the length of the windows, as options have them; None without windows."""
        return (self.windows.stride, self.windows.most) if self.windows else None

    def only(self, number: int) -> "StoredRequest":
        """Return the request with one of its inputs alone."""
        targets = self.targets and self.targets[number : number + 1]
        return replace(self, inputs=self.inputs[number : number + 1], targets=targets)


ByteCount = Annotated[int, Field(ge=0)]
OnePart: TypeAlias = tuple[Literal["image", "text", "chat"], ByteCount]
"""Of a chat, its messages as JSON."""
TwoParts: TypeAlias = tuple[Literal["pair", "prompted"], ByteCount, ByteCount]
"""A pair, or a text and what stands before it."""
CutPair: TypeAlias = tuple[Literal["premise", "passage"], ByteCount, ByteCount, Annotated[int, Field(ge=1)]]
"""A pair with the `most` tokens of the text that is cut: its first, or its second."""
CUT_KINDS = ["premise", "passage"]
"""The kinds of such pairs, by the number of the text that is cut."""
PARTS = {"image": 1, "text": 1, "chat": 1, "pair": 2, "prompted": 2, "premise": 2, "passage": 2}
"""How many lengths are said of an input, by its kind."""


SAID = ("source_language", "target_language", "dimensions")
"""What only some requests say."""


class Header(BaseModel):
    """The first line of a packed request: the kind of each input, and its lengths in the bytes that follow."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal[1]
    model: str
    version: str
    truncate: bool
    targets: tuple[tuple[int, ...], ...] | None
    inputs: tuple[OnePart | TwoParts | CutPair, ...]
    source_language: str | None = None
    target_language: str | None = None
    windows: tuple[ByteCount | None, Annotated[int, Field(ge=1)] | None] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None


def pack(request: StoredRequest) -> bytes:
    """Return a request as bytes: a header of one line of JSON, then its inputs."""
    inputs: list[tuple[str | int, ...]] = []
    pieces: list[bytes] = []
    for given in request.inputs:
        if isinstance(given, bytes):
            kind, parts = "image", [given]
        elif isinstance(given, Pair):
            kind = "pair" if given.most is None else CUT_KINDS[given.cut]
            parts = [given.text.encode(*TEXT_ENCODING), given.text_pair.encode(*TEXT_ENCODING)]
        elif isinstance(given, Prompted):
            kind, parts = "prompted", [given.text.encode(*TEXT_ENCODING), given.prompt.encode(*TEXT_ENCODING)]
        elif isinstance(given, Conversation):
            kind, parts = "chat", [json.dumps(given.messages, ensure_ascii=False).encode(*TEXT_ENCODING)]
        else:
            kind, parts = "text", [given.encode(*TEXT_ENCODING)]
        most = given.most if isinstance(given, Pair) else None
        inputs.append((kind, *map(len, parts)) if most is None else (kind, *map(len, parts), most))
        pieces += parts
    header = {
        "format": FORMAT_VERSION,
        "model": request.model,
        "version": request.version,
        "truncate": request.truncate,
        "targets": request.targets,
        "inputs": inputs,
    }
    said = {name: getattr(request, name) for name in SAID}
    said["windows"] = request.windows and (request.windows.stride, request.windows.most)
    header |= {name: one for name, one in said.items() if one is not None}  # absent, earlier versions can read the rest
    return b"".join((orjson.dumps(header, option=orjson.OPT_APPEND_NEWLINE), *pieces))


def unpack(data: bytes) -> StoredRequest | None:
    """Return the packed request, or None for other bytes, such as those of another version of the service."""
    stream = io.BytesIO(data)
    try:
        header = Header.model_validate_json(line := stream.readline())
        length = sum(sum(numbers[: PARTS[kind]]) for kind, *numbers in header.inputs)
        if not line.endswith(b"\n") or len(line) + length != len(data):
            return None
        inputs: list[bytes | Text] = []
        for kind, *numbers in header.inputs:
            parts = [stream.read(length) for length in numbers[: PARTS[kind]]]
            texts = [] if kind == "image" else [part.decode(*TEXT_ENCODING) for part in parts]
            cut = (*numbers[PARTS[kind] :], CUT_KINDS.index(kind)) if kind in CUT_KINDS else ()
            inputs.append(MADE.get(kind, Pair)(*texts, *cut) if texts else parts[0])
    except (ValueError, TypeError):
        return None
    given = header.model_dump(include={"model", "version", "truncate", "targets", *SAID})
    windows = Windows(*header.windows) if header.windows else None
    return StoredRequest(inputs=tuple(inputs), windows=windows, **given)


def _conversation(messages: str) -> Conversation:
    """Return a chat from JSON. Raises ValueError or TypeError for anything else."""
    return Conversation(tuple(Message(*map(str, one)) for one in json.loads(messages)))


MADE: dict[str, Callable[..., Text]] = {"text": str, "chat": _conversation, "prompted": Prompted}
"""What makes an input of its texts, by its kind; of the others, pairs are made."""


class Store(Protocol):
    """Requests by owner and id, with limits of count, bytes and age; the oldest are removed first.

    The owner is the name of the API key that sent the request; without keys it is None. A request larger than the limit
    of bytes is not stored. A second put with the same owner and id replaces the first.
    """

    async def put(self, id: str, owner: str | None, request: StoredRequest) -> None:  # noqa: A002 # the word of the API
        """Store a request. A store that fails is logged. Raises ValueError if the id is malformed."""

    async def get(self, id: str, owner: str | None) -> StoredRequest | None:  # noqa: A002 # the word of the API
        """Return a request, or None if this owner has none of this id, or no longer.

        Raises NotReady if the store cannot be read.
        """

    async def close(self) -> None:
        """Free all resources."""


def entry_name(id: str, owner: str | None) -> str:  # noqa: A002 # the word of the API
    """Return the key of an entry: `id`, or `owner:id`. Raises ValueError if the id is malformed.

    A store finds an entry by this key alone, so another owner's id is looked up, and takes as long, as an unknown one.
    Neither ids nor names of keys hold a colon. Earlier versions of the service know no owners, and use the key of an
    entry without one. They do not find an entry with an owner, since its key is no id.
    """
    if not ID_PATTERN.fullmatch(id):
        raise ValueError(f"id: must match {ID_PATTERN.pattern}, given another")
    return id if owner is None else f"{owner}:{id}"
