"""Forms (multipart/form-data, RFC 7578): their delimiters are found while they arrive.

python-multipart walks over everything that resembles a delimiter in Python, which takes two seconds for 16 MiB of it. A
body is held in memory anyway, so here `bytes.find` looks for the delimiters, and a form of too many is refused.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from service.errors import Malformed
from service.http.header_parameters import parse_parameters, split_value

MOST_BOUNDARY_BYTES = 70
"""RFC 2046, section 5.1.1."""
MOST_HEAD_BYTES = 8192
"""Of the headers of one part."""
_PADDING = re.compile(rb"[ \t]{0,64}+\r\n")


@dataclass(frozen=True)
class Part:
    """One part of a form."""

    name: str
    is_file: bool
    """True if it has a file name."""
    content: memoryview


class FormBody:
    """A form that arrives in pieces. Raises Malformed for a boundary that no form may have."""

    def __init__(self, boundary: str, most_parts: int) -> None:
        if not 1 <= len(boundary) <= MOST_BOUNDARY_BYTES or not boundary.isascii() or not boundary.isprintable():
            raise malformed()
        self._most_parts = most_parts
        self._delimiter = b"\r\n--" + boundary.encode()
        self._body = bytearray(b"\r\n")  # the first delimiter needs no line end before it
        self._found: list[int] = []
        """Where delimiters begin."""

    def add(self, piece: bytes) -> None:
        """Take the next piece. Raises Malformed if the form has too many parts."""
        start = max(0, len(self._body) - len(self._delimiter) + 1)  # one may have begun in the pieces before
        self._body += piece
        while (position := self._body.find(self._delimiter, start)) >= 0:
            self._found.append(position)
            if len(self._found) > self._most_parts + 1:  # the last one ends the form
                raise malformed()
            start = position + len(self._delimiter)

    def parts(self) -> Iterator[Part]:
        """Return the parts in order. Raises Malformed if the form is not well-formed, or cut short.

        Nothing may stand before the first delimiter but an empty line, and what follows the last one is ignored.
        """
        body, found = self._body, self._found
        if not found or found[0] > 2:
            raise malformed()
        for index, position in enumerate(found):
            begin = position + len(self._delimiter)
            if body.startswith(b"--", begin):
                return
            padding = _PADDING.match(body, begin)
            if padding is None or index + 1 == len(found):
                raise malformed()
            yield self._part(padding.end(), found[index + 1])
        raise malformed()

    def _part(self, begin: int, end: int) -> Part:
        head_end = self._body.find(b"\r\n\r\n", begin, min(end, begin + MOST_HEAD_BYTES))
        if head_end < 0:
            raise malformed()
        # header values are only compared with ASCII, and latin-1 decodes every byte
        for line in self._body[begin:head_end].decode("latin-1").split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "content-disposition":
                kind, rest = split_value(value)
                try:
                    parameters = parse_parameters(rest)
                except ValueError as error:
                    raise malformed() from error
                if kind == "form-data" and "name" in parameters:
                    is_file = not parameters.keys().isdisjoint({"filename", "filename*"})
                    return Part(parameters["name"], is_file, memoryview(self._body)[head_end + 4 : end])
        raise malformed()


def malformed() -> Malformed:
    """Return the refusal of a form that cannot be read."""
    return Malformed("form: must be well-formed multipart/form-data with a few short fields beside the files")
