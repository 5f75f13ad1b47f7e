"""What the words of a shell name: files, folders, tables, addresses, texts, and what comes from standard input."""

import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image

from regard.errors import BadInput
from regard.fetching import is_address

STDIN = "-"
SUFFIXES = {
    "sound": (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3"),
    "graph": (".json",),
    "text": (".txt", ".md", ".csv"),
}
"""How names of files of a sort end; other files are pictures."""
SOUNDS = (b"RIFF", b"fLaC", b"OggS", b"ID3")
"""How sounds begin."""
TABLE = ".csv"
MOST_BYTES = 64 * 1024 * 1024
"""Standard input of more bytes is refused."""


@dataclass(frozen=True)
class Sources:
    """The words of a command; with `as_text` each is a text, whatever it looks like. `column` is that of tables."""

    words: Sequence[str]
    as_text: bool = False
    column: str | None = None

    @cached_property
    def sort(self) -> str:
        """The sort of the first: `image`, `text`, `sound` or `graph`. Raises BadInput for what is none of them."""
        word = self.words[0]
        if self.as_text:
            return "text"
        if word == STDIN:
            return _sort_of_bytes(self._piped)
        if Path(word).suffix.lower() == TABLE and names(word):
            return next((_sort_of_name(given) for _, given in self._rows(Path(word)) if names(given)), "text")
        if is_address(word) or names(word):
            return _sort_of_name(word)
        return next(map(_sort_of_name, _within(Path(word)))) if is_folder(word) else self._sort_of_text(word)

    def inputs(self, sort: str, whole: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield the name of each input and what it is, for a model of a sort.

        Texts of standard input are its lines, or it is one as a `whole`. Raises BadInput.
        """
        for word in self.words:
            if self.as_text:
                yield word, word
            elif word == STDIN:
                yield from self._of_stdin(sort, whole)
            elif is_folder(word):
                yield from ((name, _of_file(Path(name), sort)) for name in _within(Path(word), sort))
            elif names(word) and Path(word).suffix.lower() == TABLE:
                yield from self._rows(Path(word))
            elif names(word):
                yield word, _of_file(Path(word), sort)
            else:
                if not is_address(word):
                    self._sort_of_text(word)
                yield word, word

    def _of_stdin(self, sort: str, whole: bool) -> Iterator[tuple[str, object]]:
        if sort != "text":
            yield STDIN, self._piped
            return
        text = _decoded(STDIN, self._piped)
        lines = [text.rstrip("\n")] if whole else [line for line in text.splitlines() if line.strip()]
        yield from ((line, line) for line in lines)

    @cached_property
    def _piped(self) -> bytes:
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
        if not content or len(content) > MOST_BYTES:
            raise BadInput(f"-: standard input must hold something, and at most {MOST_BYTES} bytes")
        return content

    def _rows(self, path: Path) -> Iterator[tuple[str, str]]:
        """Yield the cells of a table's column; paths are seen from its folder. Raises BadInput for another column."""
        rows = csv.DictReader(io.StringIO(_decoded(path.name, path.read_bytes()), newline=""))
        known = list(rows.fieldnames or ())
        column = self.column or next(iter(known), None)
        if column is None or column not in known:
            raise BadInput(f"--column: must be one of {', '.join(known) or 'those of a table'}, given {column!r}")
        for row in rows:
            cell = row[column] or ""
            beside = str(path.parent / cell)
            yield cell, beside if names(beside) else cell

    def _sort_of_text(self, word: str) -> str:
        """Return that a word is a text. Raises BadInput for what looks like the name of a file: a text has spaces."""
        suffix = Path(word).suffix.lower()
        for sort in (*SUFFIXES, "image"):
            if suffix in SUFFIXES.get(sort, Image.registered_extensions()):
                thing = "picture" if sort == "image" else sort
                raise BadInput(
                    f"FILE: must be a {thing}'s file that exists, given {word!r}; --text says that it is a text"
                )
        if is_folder(word):
            raise BadInput(f"FILE: must be a file, given the folder {word!r}")
        in_folder = os.sep in word and Path(word).expanduser().parent.is_dir()
        if len(word.split()) < 2 or in_folder:
            raise BadInput(f"FILE: {word!r} is no file that exists; --text says that it is a text")
        return "text"


def names(word: str) -> bool:
    """Return whether a word is the path of a file."""
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # a text that is too long for a name, or has what no name has
        return False


def is_folder(word: str) -> bool:
    """Return whether a word is the path of a folder."""
    try:
        return Path(word).is_dir()
    except (OSError, ValueError):
        return False


def _sort_of_name(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return next((sort for sort, suffixes in SUFFIXES.items() if suffix in suffixes), "image")


def _sort_of_bytes(content: bytes) -> str:
    if content.startswith(SOUNDS):
        return "sound"
    try:
        content.decode()
    except UnicodeDecodeError:
        return "image"
    return "text"


def _within(folder: Path, sort: str | None = None) -> Sequence[str]:
    """Return the files of a folder and of those in it, of a sort or of any. Raises BadInput if there is none."""
    suffixes = {*Image.registered_extensions(), *(suffix for known in SUFFIXES.values() for suffix in known)} - {TABLE}
    found = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())
    kept = [name for name in found if sort is None or _sort_of_name(name) == sort]
    if not kept:
        raise BadInput(f"FILE: must be a folder with files that the model takes, given {str(folder)!r}")
    return kept


def _of_file(path: Path, sort: str) -> object:
    """Return a file as a model of a sort takes it: of a text what is in it."""
    return _decoded(path.name, path.read_bytes()).rstrip("\n") if sort == "text" else path


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{name}: must be a text in UTF-8, given other bytes") from None
