"""What the service and a decoder process say to each other: an image and what to make of it, then the picture.

Both directions have a header of fixed size. The service does not trust what a decoder sends: `Answer` checks every
field, and takes as many bytes as the rule asks for, no more and no fewer.
"""

import math
import re
import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from contract.input_rules import ImageRule
from service.errors import Refusal, TooLarge, Unacceptable, Unsupported
from service.inputs.model_input import Picture

REQUEST_HEADER = struct.Struct("!IIQQ")
"""Bytes of the rule as JSON and of the encoded image, which follow in this order; max_pixels and announced_pixels."""
ANSWER_HEADER = struct.Struct("!BBBxII4d300s")
"""Number of the refusal or 0, orientation, channels, width and height of the image, box, detail of the refusal.

After a 0 the pixels of the picture follow, uint8 (height, width, channels).
"""
REFUSALS = (TooLarge, Unacceptable, Unsupported)
"""Those of an image; in a header they are numbered from 1."""
DETAIL = re.compile(rb"[ -~]{1,300}")


class Request(NamedTuple):
    """What to decode of an image: the picture that a rule selects, or without a rule the whole image, upright."""

    rule: ImageRule | None
    max_pixels: int
    """The limit of an image."""
    announced_pixels: int
    """What the service read in the header, and admitted: at most `max_pixels`."""


@lru_cache
def rule_json(rule: ImageRule | None) -> bytes:
    """Return a rule as a request holds it; without one, nothing."""
    return rule.model_dump_json().encode() if rule else b""


@lru_cache
def read_rule(data: bytes) -> ImageRule | None:
    """Return the rule of a request."""
    return ImageRule.model_validate_json(data) if data else None


def request_head(request: Request, image_bytes: int) -> bytes:
    """Return what comes before the bytes of an image."""
    rule = rule_json(request.rule)
    return REQUEST_HEADER.pack(len(rule), image_bytes, request.max_pixels, request.announced_pixels) + rule


def picture_answer(picture: Picture) -> bytes:
    """Return the answer with a picture."""
    channels = picture.pixels.shape[2]
    header = ANSWER_HEADER.pack(0, picture.orientation, channels, picture.width, picture.height, *picture.box, b"")
    return b"".join((header, np.ascontiguousarray(picture.pixels).data))


def refusal_answer(refusal: Refusal) -> bytes:
    """Return the answer that refuses an image."""
    number = REFUSALS.index(type(refusal)) + 1
    return ANSWER_HEADER.pack(number, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, refusal.detail.encode())


class Answer:
    """The answer to a request while it comes in. A decoder may be under an attacker's control, so it may hold anything.

    What is read into it is memory of the service alone, so nothing can change after it was checked.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        rule = request.rule
        self._data = self._space(rule.height * rule.width * rule.channels if rule else 0)
        self._filled = 0
        self._result: Picture | Refusal | None = None
        self._size = ANSWER_HEADER.size

    @property
    def rest(self) -> memoryview:
        """Where to read what comes next, at least a byte."""
        return self._data.data[self._filled :]

    def add(self, count: int) -> Picture | Refusal | None:
        """Note how many bytes of `rest` were filled; return the answer once it is whole. Raises ValueError."""
        self._filled += count
        if self._result is None and self._filled >= ANSWER_HEADER.size:
            self._read_header()
        if self._filled > self._size:
            raise ValueError("answer: must have as many bytes as it announces")
        return self._result if self._filled == self._size else None

    def _read_header(self) -> None:
        refused, orientation, channels, width, height, *box, detail = ANSWER_HEADER.unpack_from(self._data.data)
        if refused:
            self._result = _refusal(refused, detail.rstrip(b"\0"))
            return
        rule, (left, top, right, bottom) = self._request.rule, box
        if not (1 <= orientation <= 8 and channels in (1, 3) and 1 <= width * height <= self._request.announced_pixels):
            raise ValueError("picture: must have a size and an orientation")
        if not (all(map(math.isfinite, box)) and left < right and top < bottom):
            raise ValueError("box: must have a width and a height")
        shape = (rule.height, rule.width, rule.channels) if rule else (height, width, channels)
        if shape[2] != channels:
            raise ValueError("picture: must have the channels that were asked for")
        self._size += math.prod(shape)
        if not rule:
            begun, self._data = self._data, self._space(math.prod(shape))
            self._data[: self._filled] = begun[: self._filled]
        pixels = self._data[ANSWER_HEADER.size : self._size].reshape(shape)
        self._result = Picture(pixels, (left, top, right, bottom), width, height, orientation)

    @staticmethod
    def _space(pixels: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        """Return memory for an answer, and a byte more, which is filled only if the answer is too long."""
        return np.empty(ANSWER_HEADER.size + pixels + 1, np.uint8)


def _refusal(number: int, detail: bytes) -> Refusal:
    if number > len(REFUSALS) or not DETAIL.fullmatch(detail):
        raise ValueError("refusal: must be a known one, in printable words")
    return REFUSALS[number - 1](detail.decode())
