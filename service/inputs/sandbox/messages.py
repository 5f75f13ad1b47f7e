"""What the service and a decoder process say to each other: a file and what to make of it, then what was made.

Both directions have a header of fixed size. The service does not trust what a decoder sends: `Answer` checks every
field, and takes as many bytes as the rule asks for, no more and no fewer.
"""

import math
import re
import struct
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field, TypeAdapter

from contract.input_rules import ImageRule, SoundRule
from service.errors import Refusal, TooLarge, Unacceptable, Unsupported
from service.inputs.decoding import Decoded, Request, Rule
from service.inputs.model_input import Picture, Sound

REQUEST_HEADER = struct.Struct("!IIQQ")
"""Bytes of the rule as JSON and of the encoded file, which follow in this order; the limit, and what is announced."""
ANSWER_HEADER = struct.Struct("!BBBxII4d300s")
"""Number of the refusal or 0, orientation, channels, width and height of the image, box, detail of the refusal.

After a 0 the pixels of the picture follow, uint8 (height, width, channels). A sound of as many samples as it is wide is
one row high, of one channel; they follow as float32.
"""
REFUSALS = (TooLarge, Unacceptable, Unsupported)
"""Those of a file; in a header they are numbered from 1."""
SAMPLE_BYTES = 4
DETAIL = re.compile(rb"[ -~]{1,300}")


RULES: TypeAdapter[Rule] = TypeAdapter(Annotated[Rule, Field(discriminator="modality")])


@lru_cache
def rule_json(rule: Rule | None) -> bytes:
    """Return a rule as a request holds it; without one, nothing."""
    return rule.model_dump_json().encode() if rule else b""


@lru_cache
def read_rule(data: bytes) -> Rule | None:
    """Return the rule of a request."""
    return RULES.validate_json(data) if data else None


def request_head(request: Request, file_bytes: int) -> bytes:
    """Return what comes before the bytes of a file."""
    rule = rule_json(request.rule)
    return REQUEST_HEADER.pack(len(rule), file_bytes, request.most, request.announced) + rule


def decoded_answer(decoded: Decoded) -> bytes:
    """Return the answer with a picture or a sound."""
    if isinstance(decoded, Sound):
        count = len(decoded.samples)
        header = ANSWER_HEADER.pack(0, 1, 1, count, 1, 0.0, 0.0, float(count), 1.0, b"")
        return b"".join((header, np.ascontiguousarray(decoded.samples, np.float32).data.cast("B")))
    picture = decoded
    channels = picture.pixels.shape[2]
    header = ANSWER_HEADER.pack(0, picture.orientation, channels, picture.width, picture.height, *picture.box, b"")
    return b"".join((header, np.ascontiguousarray(picture.pixels).data))


def refusal_answer(refusal: Refusal) -> bytes:
    """Return the answer that refuses a file."""
    number = REFUSALS.index(type(refusal)) + 1
    return ANSWER_HEADER.pack(number, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, refusal.detail.encode())


class Answer:
    """The answer to a request while it comes in. A decoder may be under an attacker's control, so it may hold anything.

    What is read into it is memory of the service alone, so nothing can change after it was checked.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        rule = request.rule
        self._data = self._space(rule.height * rule.width * rule.channels if isinstance(rule, ImageRule) else 0)
        self._filled = 0
        self._result: Decoded | Refusal | None = None
        self._size = ANSWER_HEADER.size

    @property
    def rest(self) -> memoryview:
        """Where to read what comes next, at least a byte."""
        return self._data.data[self._filled :]

    def add(self, count: int) -> Decoded | Refusal | None:
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
        if not (1 <= orientation <= 8 and channels in (1, 3) and 1 <= width * height <= self._request.announced):
            raise ValueError("picture: must have a size and an orientation")
        if isinstance(rule, SoundRule):
            if height != 1 or channels != 1:
                raise ValueError("sound: must have one row and one channel")
            self._result = Sound(self._room(width * SAMPLE_BYTES).view(np.float32), rule.rate)
            return
        if not (all(map(math.isfinite, box)) and left < right and top < bottom):
            raise ValueError("box: must have a width and a height")
        shape = (rule.height, rule.width, rule.channels) if rule else (height, width, channels)
        if shape[2] != channels:
            raise ValueError("picture: must have the channels that were asked for")
        pixels = self._room(math.prod(shape)).reshape(shape)
        self._result = Picture(pixels, (left, top, right, bottom), width, height, orientation)

    def _room(self, count: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        """Return the memory of the bytes behind the header; where only that says how many, it is made now."""
        self._size += count
        if len(self._data) <= self._size:
            begun, self._data = self._data, self._space(count)
            self._data[: self._filled] = begun[: self._filled]
        return self._data[ANSWER_HEADER.size : self._size]

    @staticmethod
    def _space(count: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        """Return memory for an answer, and a byte more, which is filled only if the answer is too long."""
        return np.empty(ANSWER_HEADER.size + count + 1, np.uint8)


def _refusal(number: int, detail: bytes) -> Refusal:
    if number > len(REFUSALS) or not DETAIL.fullmatch(detail):
        raise ValueError("refusal: must be a known one, in printable words")
    return REFUSALS[number - 1](detail.decode())
