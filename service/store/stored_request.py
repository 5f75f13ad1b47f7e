"""TODO: what service/store/stored_request.py is."""

import io
import re
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict, Field

from service.inputs.model_input import Pair, Text

FORMAT: Literal[1] = 1
"""What is written and read; raise it with every change that another version of the service would misread."""


UTF8 = ("utf-8", "surrogatepass")
"""Texts are kept as they were read, whatever they hold."""


@dataclass(frozen=True)
class StoredRequest:
    """What an answered request was about: enough to run it again."""

    model: str
    version: str
    inputs: tuple[bytes | Text, ...]
    """Encoded images, or texts."""
    truncate: bool = False
    targets: tuple[tuple[int, ...], ...] | None = None
    """Tokens that were generated, one tuple an input."""


Length = Annotated[int, Field(ge=0)]


One: TypeAlias = tuple[Literal["image", "text"], Length]


Two: TypeAlias = tuple[Literal["pair"], Length, Length]


class Header(BaseModel):
    """The first line of a packed request: what each input is, and how many of the bytes that follow are its."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal[1]
    model: str
    version: str
    truncate: bool
    targets: tuple[tuple[int, ...], ...] | None
    inputs: tuple[One | Two, ...]


def pack(kept: StoredRequest) -> bytes:
    """Return a request as bytes: a line of JSON, then its inputs."""
    inputs: list[tuple[str | int, ...]] = []
    pieces: list[bytes] = []
    for given in kept.inputs:
        if isinstance(given, bytes):
            kind, parts = "image", [given]
        elif isinstance(given, Pair):
            kind, parts = "pair", [given.text.encode(*UTF8), given.text_pair.encode(*UTF8)]
        else:
            kind, parts = "text", [given.encode(*UTF8)]
        inputs.append((kind, *map(len, parts)))
        pieces += parts
    header = {
        "format": FORMAT,
        "model": kept.model,
        "version": kept.version,
        "truncate": kept.truncate,
        "targets": kept.targets,
        "inputs": inputs,
    }
    return b"".join((orjson.dumps(header, option=orjson.OPT_APPEND_NEWLINE), *pieces))


def unpack(data: bytes) -> StoredRequest | None:
    """Return what was packed, or None for anything else, such as what another version of the service packed."""
    stream = io.BytesIO(data)
    try:
        header = Header.model_validate_json(line := stream.readline())
        length = sum(sum(lengths) for _, *lengths in header.inputs)
        if not line.endswith(b"\n") or len(line) + length != len(data):
            return None
        inputs: list[bytes | Text] = []
        for kind, *lengths in header.inputs:
            parts = [stream.read(length) for length in lengths]
            texts = [] if kind == "image" else [part.decode(*UTF8) for part in parts]
            inputs.append(Pair(*texts) if kind == "pair" else texts[0] if texts else parts[0])
    except ValueError:
        return None
    return StoredRequest(header.model, header.version, tuple(inputs), header.truncate, header.targets)


class Store(Protocol):
    """Requests by their ids, bounded by count, bytes and age; the oldest go first.

    What is larger than all bytes is not kept. An id that is put again stands for what was put last.
    """

    async def put(self, id: str, kept: StoredRequest) -> None:  # noqa: A002 # the word of the API
        """Keep a request. A server that cannot be reached is logged; raises ValueError for what is no id."""

    async def get(self, id: str) -> StoredRequest | None:  # noqa: A002 # the word of the API
        """Return a request, or None if it never was or is no longer kept. Raises NotReady for want of the server."""

    async def close(self) -> None:
        """Let go of what is held."""


def _check(id: str) -> None:  # noqa: A002 # the word of the API
    if not CLIENTS_ID.fullmatch(id):
        raise ValueError(f"id: must match {CLIENTS_ID.pattern}, given another")


CLIENTS_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
