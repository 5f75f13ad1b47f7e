"""What is read for a user before it is sent: an address, an open file, a tensor."""

import re
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import httpx
import numpy as np
import numpy.typing as npt

from regard.errors import BadInput

ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
MOST_BYTES = 32 * 1024 * 1024
"""A file of more bytes is not downloaded; the service would not take it."""
SECONDS = 30.0
"""Seconds without a byte after which a download is given up."""


@runtime_checkable
class File(Protocol):
    """An open file, or what is read as one."""

    def read(self) -> bytes:
        """Return what is left of it."""


@runtime_checkable
class Tensor(Protocol):
    """A tensor of PyTorch. PyTorch itself is not needed."""

    def detach(self) -> "Tensor":
        """Return it without its gradient."""

    @property
    def shape(self) -> Sequence[int]:
        """Its sizes."""

    def numpy(self) -> npt.NDArray[Any]:
        """Return it as an array."""


Readable: TypeAlias = File | Tensor
"""What stands for a picture, a sound or a graph beside paths, bytes and arrays."""


def is_address(given: object) -> bool:
    """True for the address of a file: http:// or https://."""
    return isinstance(given, str) and ADDRESS.fullmatch(given) is not None


def fetched(address: str) -> bytes:
    """Return the file at an address. Raises BadInput if it cannot be had, or is larger than MOST_BYTES."""
    content = bytearray()
    try:
        with httpx.stream("GET", address, follow_redirects=True, timeout=SECONDS) as answer:
            if not answer.is_success:
                raise BadInput(f"{address}: cannot be downloaded: {answer.status_code} {answer.reason_phrase}")
            for part in answer.iter_bytes():
                content += part
                if len(content) > MOST_BYTES:
                    raise BadInput(f"{address}: must be a file of at most {MOST_BYTES} bytes, given a larger one")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise BadInput(f"{address}: cannot be downloaded: {type(error).__name__} {error}".rstrip()) from None
    return bytes(content)


def read(given: object) -> object:
    """Return an open file as its bytes and a tensor as an array; anything else as it is. Raises BadInput."""
    if isinstance(given, File):
        content = given.read()
        if not isinstance(content, bytes):
            raise BadInput(f'file: must be open for bytes (open(path, "rb")), given one of {type(content).__name__}')
        return content
    return _array(given) if isinstance(given, Tensor) else given


def _array(given: Any) -> npt.NDArray[Any]:  # noqa: ANN401 # a tensor has no types here
    tensor = given.detach().cpu()
    return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).numpy())
