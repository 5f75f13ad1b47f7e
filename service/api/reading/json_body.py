"""JSON bodies: their values are counted while they arrive, so that parsing one never takes long.

orjson holds the interpreter for as long as it parses. What takes it long is many values, not many bytes: 16 MiB of `[]`
take two seconds, one text of 16 MiB takes ten milliseconds.
"""

import re

import orjson

from service.errors import Malformed, TooLarge, Unacceptable
from service.options.base import whole

MOST_VALUES = 1 << 14
"""Of one document. 4,096 pairs of texts are 12,288 values, and so are three lists of 4,096 indices."""
_MOST_QUOTES = 4 * MOST_VALUES  # two of a value's key, two of its own
_ESCAPE_BYTES = 6  # of the longest one, \u0000
_NOT_ASCII = re.compile(rb"\\u(?!00[0-7])")  # an escape


class JsonBody:
    """A JSON document that arrives in pieces.

    `most_text` bounds the bytes of strings that are not ASCII. Converting one that holds a single character beyond the
    Basic Multilingual Plane takes orjson 17 ms a MiB. Images in base64 are ASCII.
    """

    def __init__(self, most_text: int) -> None:
        self._most_text = most_text
        self._body = bytearray()
        self._incomplete = b""  # an escape that has not arrived whole
        self._quotes = self._values = self._keys = self._text_bytes = 0
        self._in_string = False
        self._string_bytes = 0  # of the string that has not ended, as far as it arrived
        self._is_ascii = True  # that string, as far as it arrived

    def add(self, piece: bytes) -> None:
        """Take the next piece. Raises TooLarge if the document has too many values, or too much text beyond ASCII.

        Without the strings, each comma and each opening bracket begins a value, and each colon follows a key. A string
        ends at the next quote that no backslash escapes. A document for which that is not so is no JSON.
        """
        self._body += piece
        text = self._incomplete + piece
        if b"\\" in text:
            self._incomplete = _incomplete_escape(text)
            text = text[: len(text) - len(self._incomplete)].replace(rb"\\", b"").replace(rb"\"", b"")
        else:
            self._incomplete = b""
        parts = text.split(b'"', _MOST_QUOTES - self._quotes + 1)
        self._quotes += len(parts) - 1
        structure = b"".join(parts[self._in_string :: 2])
        self._keys += structure.count(b":")
        self._values += structure.count(b",") + structure.count(b"[") + structure.count(b"{")
        if self._quotes > _MOST_QUOTES or self._values > MOST_VALUES:
            raise TooLarge(f"body: at most {MOST_VALUES} values, given more")
        self._add_strings(parts, all_ascii=_is_ascii(text))

    def _add_strings(self, parts: list[bytes], *, all_ascii: bool) -> None:
        """Count the bytes of strings that are not ASCII, in a piece that was split at its quotes."""
        goes_on = self._in_string  # the first of them
        strings = parts[not goes_on :: 2]
        if len(parts) % 2 == 0:
            self._in_string = not self._in_string
        if all_ascii and (self._is_ascii or not goes_on):  # only how long the last one is matters
            goes_on = goes_on and len(strings) == 1
            strings = strings[-1:]
        for string in strings:
            if not goes_on:
                self._string_bytes, self._is_ascii = 0, True
            goes_on = False
            self._string_bytes += len(string)
            if not self._is_ascii:
                self._text_bytes += len(string)
            elif not _is_ascii(string):
                self._is_ascii = False
                self._text_bytes += self._string_bytes
        if self._text_bytes > self._most_text:
            raise TooLarge(f"body: at most {self._most_text} bytes of text that is not ASCII, given more")

    def parse(self) -> dict[str, object]:
        """Return the document, in which 2.0 is 2. Raises Malformed if it is no JSON, and Unacceptable if no object.

        A key that is given twice in one object is refused too (RFC 8259, section 4): the parser keeps the last one.
        """
        try:
            document = orjson.loads(self._body)
        except orjson.JSONDecodeError as error:
            _check_utf8(self._body)
            # the message holds only a position, and nothing of the document
            raise Malformed(f"body: must be JSON, {error.msg} at character {error.pos}") from error
        if not isinstance(document, dict):
            raise Unacceptable("body: must be a JSON object")
        if _walk(document) < self._keys:
            raise Unacceptable("body: each key may be given once, given one twice")
        return document


def _check_utf8(body: bytearray) -> None:
    """Raise Malformed for a body that is not UTF-8, of which the parser says no place."""
    try:
        str(body, "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(
            f"body: must be JSON in UTF-8 (RFC 8259, section 8.1), is not from byte {error.start} on"
        ) from error


def _is_ascii(text: bytes) -> bool:
    """Return whether a part of a document has ASCII characters only, escaped or not."""
    return text.isascii() and not (b"\\" in text and _NOT_ASCII.search(text))


def _incomplete_escape(text: bytes) -> bytes:
    """Return the escape at the end of a piece that is not whole, from its backslash on; empty if there is none."""
    position = text.rfind(b"\\", max(0, len(text) - _ESCAPE_BYTES + 1))
    if position < 0:
        return b""
    before = text[: position + 1]
    if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:  # the last of some escaped backslashes
        return b""
    escape = text[position:]
    return escape if len(escape) == 1 or escape[1:2] == b"u" else b""


def _walk(document: object) -> int:
    """Make whole numbers of a document integers; return the number of keys of all objects in it."""
    count, left = 0, [document]
    while left:
        value = left.pop()
        if not isinstance(value, dict | list):
            continue
        count += len(value) if isinstance(value, dict) else 0
        for place, one in value.items() if isinstance(value, dict) else enumerate(value):
            if type(one) is float:
                value[place] = whole(one)
        left += value.values() if isinstance(value, dict) else value
    return count
