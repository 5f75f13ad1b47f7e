"""Tensors of the protocol: elements of type BYTES in JSON or binary, and what is written of FP32 and BYTES."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from service.api.tasks.tensors import Datatype
from service.errors import Malformed, Unacceptable

Element = TypeVar("Element", bytes, str)

MOST_AXES = 8

_LENGTH = struct.Struct("<I")
"""Before each element of binary BYTES stands how many bytes it has (binary tensor data extension)."""


@dataclass(frozen=True)
class Tensor:
    """An output: FP32 as an array, or BYTES as a list of elements, row by row, with their shape."""

    name: str
    shape: tuple[int, ...]
    values: npt.NDArray[np.float32] | Sequence[bytes]

    @property
    def datatype(self) -> Datatype:
        """The protocol's name of the type of its elements."""
        return "FP32" if isinstance(self.values, np.ndarray) else "BYTES"

    def binary(self) -> bytes:
        """Return its elements in binary, little-endian."""
        if isinstance(self.values, np.ndarray):
            return np.ascontiguousarray(self.values, "<f4").tobytes()
        return b"".join(_LENGTH.pack(len(one)) + one for one in self.values)

    def data(self) -> object:
        """Return its elements for JSON, in one flat list."""
        if isinstance(self.values, np.ndarray):
            return np.ascontiguousarray(self.values).reshape(-1)
        return [one.decode() for one in self.values]


def elements_of_shape(subject: str, shape: object) -> int:
    """Return how many elements a shape [n] or [n, 1] has. Raises Malformed for what is no shape, and Unacceptable."""
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= MOST_AXES
        or not all(type(size) is int and 0 <= size < 2**31 for size in shape)
    ):
        raise Malformed(f"{subject}: shape must be a list of sizes from 0 to 2147483647, given another")
    if len(shape) > 2 or shape[1:] not in ([], [1]):
        raise Unacceptable(f"{subject}: shape must be [n] or [n, 1], given another")
    count: int = shape[0]
    return count


def strings_of(subject: str, data: object, count: int) -> list[str]:
    """Return the elements of BYTES in JSON, in nested lists or a flat one. Raises Malformed."""
    found: list[str] = []
    left = [iter(data if isinstance(data, list) else [None])]
    while left:
        for element in left[-1]:
            if isinstance(element, list):
                left.append(iter(element))
                break
            if not isinstance(element, str):
                raise Malformed(f"{subject}: data must be a list of strings")
            found.append(element)
        else:
            left.pop()
    return checked_count(subject, found, count)


def split_binary(subject: str, data: bytes | memoryview, count: int) -> list[bytes]:
    """Return the elements of binary BYTES. Raises Malformed if their lengths are not those of the data."""
    found: list[bytes] = []
    place = 0
    while place < len(data):
        end = place + _LENGTH.size
        if end <= len(data):
            end += _LENGTH.unpack_from(data, place)[0]
        if end > len(data) or len(found) == count:
            raise Malformed(f"{subject}: must hold {count} elements, each behind its length in four bytes")
        found.append(bytes(data[place + _LENGTH.size : end]))
        place = end
    return checked_count(subject, found, count)


def checked_count(subject: str, found: list[Element], count: int) -> list[Element]:
    """Return elements if there are as many as the shape says. Raises Malformed."""
    if len(found) != count:
        raise Malformed(f"{subject}: must hold {count} elements by its shape, given {len(found)}")
    return found
