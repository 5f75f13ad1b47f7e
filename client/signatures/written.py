"""Writes the methods of models and answers: `.venv/bin/python -m client.signatures`.

A method takes the options of a TypedDict. They stand in its signature and, with what they mean, in its docstring, since
Jupyter completes only what stands there. `Model` and its asynchronous twin are written from the same rows.
"""

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from client.signatures.rows import OF_ANSWER, OF_MODEL, Row

FOLDER = Path(__file__).parents[1] / "regard"
WIDTH = 120
NAMED = {"look", "maps", "heat", "overlay", "table", "figure", "plot", "save", "image", "png", "curves"}
"""These take a method as a parameter, and not among the options."""


@dataclass(frozen=True)
class Option:
    """A key of a TypedDict: its name, its type, and what its docstring says."""

    name: str
    type: str
    words: str

    @property
    def parameter(self) -> str:
        """As a parameter, which is left out as None; `...` where None means something to the service."""
        if self.type.endswith("| None"):
            return f"{self.name}: {self.type.replace('None', 'EllipsisType')} | None = ..."
        return f"{self.name}: {self.type} | None = None"


@cache
def classes() -> dict[str, ast.ClassDef]:
    """Return the classes of the modules that have options, by name. They are read, and not imported: `regard` itself
    needs what is written here."""
    modules = (ast.parse(file.read_text()) for file in (FOLDER / "options.py", *(FOLDER / "tasks").glob("*.py")))
    return {node.name: node for module in modules for node in module.body if isinstance(node, ast.ClassDef)}


def fields(name: str) -> Iterator[Option]:
    """Yield the options of a TypedDict: its own, then those of its bases."""
    kind = classes()[name]
    for node, after in pairwise([*kind.body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            type_ = ast.unparse(node.annotation).replace("'", '"')
            yield Option(ast.unparse(node.target), type_, " ".join(str(said).split()))
    for base in kind.bases:
        if ast.unparse(base) != "TypedDict":
            yield from fields(ast.unparse(base))


def options_of(row: Row) -> list[Option]:
    """Return what a method takes, each once: what is said first counts."""
    found = dict[str, Option]()
    for option in fields(row.takes):
        if option.name != "method" or row.name not in NAMED:
            found.setdefault(option.name, option)
    return list(found.values())


def method(row: Row, is_async: bool) -> str:
    """Return the code of a method, of the class or of its asynchronous twin."""
    taken = options_of(row)
    waits, answer = is_async and "{wait}" in row.body, row.answer
    answer = re.sub(r"Later\[(\w+)\]", r"Coroutine[Any, Any, \1]" if is_async else r"\1", answer)
    answer = answer.replace("Stream[", "AsyncStream[") if is_async else answer
    given = row.given if "*" in row.given else f"{row.given}, *"
    parameters = ", ".join(["self", given, *(one.parameter for one in taken)])
    head = [f"{'async ' if waits else ''}def {row.name}(", *_filled(parameters, 4), f") -> {answer}:"]
    if row.decorator:
        return _indented([row.decorator, *head[:-1], f"{head[-1]} ..."])
    body = row.body.format(wait="await " if is_async else "", options=f"kept({row.takes}, locals())")
    return _indented(
        [*head, *_indented(_docstring(row, taken)).splitlines(), *_indented(body.splitlines()).splitlines()]
    )


def _docstring(row: Row, taken: list[Option]) -> list[str]:
    words = textwrap.wrap(f'"""{row.words}', WIDTH - 8 - len('"""'))
    if not row.example:
        return [*words[:-1], f'{words[-1]}"""']
    wrapper = textwrap.TextWrapper(WIDTH - 8, subsequent_indent="  ", break_on_hyphens=False)
    said = [line for one in taken for line in wrapper.wrap(f"- `{one.name}`: {one.words}")]
    return [*words, "", *said, "", f"Example: `{row.example}`", '"""']


def _filled(text: str, indent: int) -> list[str]:
    """Return parameters in lines, broken between them alone."""
    lines, room = [""], WIDTH - 4 - indent
    for part in re.split(r",\s(?![^\[]*\])", text):
        piece = f"{part}, "
        if len(lines[-1] + piece.rstrip()) > room:
            lines.append("")
        lines[-1] += piece
    return [" " * indent + line.rstrip() for line in lines]


def _indented(lines: list[str]) -> str:
    return textwrap.indent("\n".join(lines), "    ", lambda line: bool(line.strip()))


MODEL_IMPORTS = """
from collections.abc import {coroutine}Iterable, Mapping, Sequence
from types import EllipsisType
from typing import {any}Literal, overload

from PIL import Image

from regard import comparing, plans
from regard.asking import A{bases}
from regard.attention import Attention
{awaiting}from regard.inputs import Input, Picture, Sound, Text, with_rate, with_rates
from regard.maps import Json, KindName
from regard.options import AskedAttention, Indices, LookedAt, LookOptions, Method, PictureOptions
from regard.plain import kept
from regard.results import Look, Result
from regard.showing import opened
from regard.tasks.answering import ANSWER, Answered, AnswerOptions
from regard.tasks.classification import CLASSIFY, Classification, ClassifyOptions
from regard.tasks.detection import DETECT, Detection, DetectOptions
from regard.tasks.embedding import EMBED, CompareOptions, Embedding, EmbedOptions
from regard.tasks.fill_mask import FILL_MASK, Filled, FillMaskOptions
from regard.tasks.generation import GENERATE, GenerateOptions, Generation, StreamedToken
from regard.tasks.ranking import Ranked, RerankOptions
from regard.tasks.similarity import Similarity
from regard.tasks.sparse_embedding import EMBED_SPARSE, SparseEmbedding, SparseOptions
from regard.tasks.tagging import TAG, Tagged, TagOptions
from regard.tasks.task import ATTENTION
from regard.tasks.transcription import TRANSCRIBE, Segment, TranscribeOptions, Transcription
"""
MODEL = '''

class {prefix}Model({prefix}Asks[A]):
    """A model of a service. {called} with an input, it answers what it was made for.

    Pictures are paths, addresses, the bytes of files, open files, Pillow images, arrays or tensors; texts are strings,
    or pairs of strings; sounds are paths, addresses, files, or arrays with their rate; graphs are dictionaries, those
    of networkx, or paths.
    """

'''
LOOKING = '''
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from regard.attention import Attention
from regard.errors import BadInput
from regard.figures import Figure
from regard.maps import Array, Evaluation, Json, KindName, Map
from regard.options import Indices, LookOptions, Method, PictureOptions
from regard.overlays import OPACITY, Ground
from regard.plain import kept
from regard.table import Table, table_of


class Looking:
    """What an answer shows of what was looked at. Whoever has these methods has those that are missing here."""

    def _look(self, method: Method | None, options: Json) -> Attention:
        raise NotImplementedError

    def _image(self, method: Method | None, options: Json) -> Image.Image:
        raise NotImplementedError

    def _picture(self) -> Image.Image:
        raise NotImplementedError

    def _figure(self, method: Method | None, options: Json) -> Figure:
        raise NotImplementedError

    def _save(self, path: str | Path, method: Method | None, options: Json) -> None:
        raise NotImplementedError

    def _of_heat(self, method: Method | None, object: int | None, row: int | None, options: Json) -> Json:
        """Return the options by which the map that becomes heat is asked for."""
        raise NotImplementedError

'''
WARNING = (
    "# Written by `python -m client.signatures`: change its rows, or the options of a task, and run it.\n# fmt: off\n"
)


def files() -> dict[str, str]:
    """Return what is written, by the names of files."""
    found = {}
    for name, is_async in (("model.py", False), ("async_model.py", True)):
        names = {"prefix": "Async" if is_async else ""}
        names |= {"coroutine": "Coroutine, " if is_async else "", "any": "Any, " if is_async else ""}
        names |= {"called": "Awaited" if is_async else "Called"}
        names |= {"bases": "" if is_async else ", Asks, Stream"}
        names |= {"awaiting": "from regard.awaiting import AsyncAsks, AsyncStream\n" if is_async else ""}
        words = "A model of a service, for `async` and `await`" if is_async else "A model of a service"
        head = f'"""{words}: a method for each task."""\n\n{WARNING}'
        found[name] = head + (MODEL_IMPORTS + MODEL).format(**names) + _methods(OF_MODEL, is_async)
    head = f'"""What an answer shows of what was looked at: maps, heat, pictures, curves."""\n\n{WARNING}'
    return {**found, "looking.py": f"{head}# ruff: noqa: A002, ANN401\n{LOOKING}{_methods(OF_ANSWER)}"}


def _methods(rows: Sequence[Row], is_async: bool = False) -> str:
    return "\n\n".join(method(row, is_async) for row in rows) + "\n"
