"""Answers as dataclasses: what a model predicted, and by `look` what it looked at. `tasks` has those of each task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from PIL import Image
from typing_extensions import Unpack

from regard.attention import Attention
from regard.errors import BadInput, RegardError
from regard.figures import Figure
from regard.inline import document
from regard.inputs import Encoded
from regard.layouts import alone
from regard.looking import Looking
from regard.maps import Json
from regard.models import Description
from regard.options import AttentionOptions, LookOptions, Method, PictureOptions
from regard.reading import read_attention
from regard.showing import as_png, bundle, checked_path, data_url, opened, upright

R = TypeVar("R", bound="Result")

HEADS_VALUES = 2_000_000
"""If all heads have more weights than this, none of them is shown."""


class Asker(Protocol):
    """Who asks a model again about one of its answers: `regard.Model`."""

    def look(self, result: Result, method: Method | None = None, **options: Unpack[LookOptions]) -> Attention:
        """Return what the model looked at."""

    def png(self, result: Result, method: Method | None = None, **options: Unpack[PictureOptions]) -> bytes:
        """Return what the model looked at, drawn, as the bytes of a PNG file."""


@dataclass(frozen=True)
class Asked:
    """What a result is the answer to, by which the service finds it again."""

    model: Description
    given: Encoded
    options: Json
    """The options but attention."""
    id: str
    """By which the service keeps the input for a while."""
    client: Asker | None
    """Who asks again; None of an asynchronous client, whose models have `look`, and of an answer that was pickled."""
    is_repeatable: bool = field(default=True, repr=False)
    """True if the same input gives the same answer: nothing is drawn at random, or from a seed."""

    def __getstate__(self) -> Json:
        return {**self.__dict__, "client": None}  # its connections belong to this process


@dataclass(frozen=True, eq=False)
class Result(Looking):
    """The answer to one input.

    In a notebook it shows itself: the answer, what was sent, and what the model looked at.
    """

    attention: Attention | None
    """The attention that was asked for beside the prediction."""
    json: Json = field(repr=False)
    """The answer as the service sent it, without attention."""
    asked: Asked = field(repr=False)

    @property
    def id(self) -> str:
        """By which the service knows the input for a while: `against={"id": answer.id}`.

        It is the request's, also in the service's log; of several inputs, with `.` and the input's number.
        """
        return self.asked.id

    def _look(self, method: Method | None, options: Json) -> Attention:
        return self._client("look").look(self, method, **options)

    def _drawn_by(self, options: Json) -> Method | None:
        """Return the method of a figure with these options; None for the model's usual one."""
        return None

    def _picture(self) -> Image.Image:
        """Return the picture that was sent, upright. Raises BadInput if none was."""
        if self.asked.given.picture is None:
            raise BadInput("overlay: must be of a picture, given an answer to another input; take figure() or table()")
        return upright(self.asked.given.picture)

    def _figure(self, method: Method | None, options: Json) -> Figure:
        if self.asked.given.picture is None and self.asked.given.text is None:
            return alone(self._image(method, options))
        look = self._look(method or self._drawn_by(options), options)
        return look.figure(None if self.asked.given.picture is None else self._picture())

    def _image(self, method: Method | None, options: Json) -> Image.Image:
        return opened(self._client("image").png(self, method, **options))

    def _of_heat(
        self,
        method: Method | None,
        object: int | None,  # noqa: A002 # the word of the interface
        row: int | None,
        options: Json,
    ) -> Json:
        """Return the options by which the map that becomes heat is asked for."""
        if object is not None:
            raise BadInput("object: must be of a detector's answer, given another")
        return options

    def _client(self, verb: str) -> Asker:
        """Return who asks again. Raises BadInput if the answer has lost it, or never had one."""
        if self.asked.client is None:
            raise BadInput(
                f"{verb}: must be `model.{verb}(result, ...)` for an answer that was pickled or copied, and "
                f"`await model.{verb}(result, ...)` for an answer of an asynchronous client"
            )
        return self.asked.client

    def bertviz(self) -> dict[str, Any]:
        """Return keywords for BertViz: `head_view(**answer.bertviz())` or `model_view(**answer.bertviz())`.

        They are `attention`, a torch tensor (1, heads, tokens, tokens) for each layer, and `tokens`; of an encoder and
        a decoder those of both. Raises NotInstalled without torch, which BertViz needs too.
        """
        return self.look("raw", layers="all", heads="all", queries="all").bertviz()

    def _save(self, path: str | Path, method: Method | None, options: Json) -> None:
        to = checked_path(path, SAVED)
        try:
            SAVED[to.suffix.lower()](self, to, method, options)
        except OSError as error:
            raise BadInput(f"path: cannot be written: {error.strerror}") from error

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return bundle(described(self), asked_for(self), picture_of(self))

    def _page(self) -> str:
        """Return what a notebook shows as an HTML page."""
        return document(asked_for(self))

    @classmethod
    def _read(cls, json: Json) -> Json:
        """Return what it has beside attention. Raises KeyError, TypeError or ValueError."""
        return {}

    @property
    def said(self) -> str:
        """The answer in short, without numbers, by which answers of two models are compared."""
        return self._words()

    def _words(self) -> str:
        return f"{self.attention.method if self.attention else 'no'} attention"


@dataclass(frozen=True, eq=False)
class Look(Result):
    """What a model looked at, without its prediction (`Model.attention`)."""


def read_result(kind: type[R], json: Json, asked: Asked) -> R:
    """Return a result from an entry of the service's `results`. Raises KeyError, TypeError or ValueError."""
    attention = read_attention(json["attention"], asked.model.step) if json.get("attention") else None
    kept = {name: value for name, value in json.items() if name != "attention"}
    return kind(attention=attention, json=kept, asked=asked, **kind._read(json))


def described(result: Result) -> str:
    """Return an answer in words."""
    return f"{result.asked.model.name}: {result._words()}"


def write(result: Result, to: Path) -> None:
    """Write what a notebook shows as one HTML file. Raises OSError."""
    to.write_text(result._page(), encoding="utf-8")


def _save_page(result: Result, to: Path, method: Method | None, options: Any) -> None:  # noqa: ANN401 # of any form
    if method or options:
        result = replace(result, attention=result.look(method, **options))
    write(result, to)


def _save_image(result: Result, to: Path, method: Method | None, options: Any) -> None:  # noqa: ANN401 # as above
    result.image(method, **options).save(to)


def _save_figure(result: Result, to: Path, method: Method | None, options: Any) -> None:  # noqa: ANN401 # as above
    result.figure(method, **options).save(to)


SAVED: Mapping[str, Callable[[Result, Path, Method | None, Any], None]] = {
    ".html": _save_page, ".htm": _save_page, ".png": _save_image, ".svg": _save_figure, ".pdf": _save_figure,
}  # fmt: skip
"""What is written into a file, by the ending of its name."""


def asked_for(result: Result) -> dict[str, object]:
    """Return what the views show, as `regard.inline.document` takes it: plain JSON."""
    model, given = result.asked.model, result.asked.given
    attention = result.attention or _tried(result)
    picture = given.picture and data_url(given.picture, given.media_type)
    return {
        "model": model.name,
        "task": model.task,
        "about": model.about,
        "result": {name: value for name, value in result.json.items() if name != "embedding"},
        "attention": attention.json if attention else None,
        "heads": _heads(result),
        "picture": picture or None,
        "text": given.words or None,
        "messages": given.chat,
        "edge_types": model.json["inputs"].get("edge_types"),
    }


def _heads(result: Result) -> Json | None:
    model = result.asked.model
    if "raw" not in model.methods or not model.kinds:
        return None
    whole: AttentionOptions = {"layers": "all", "heads": "all"}
    if model.json["inputs"].get("max_tokens") or model.sort == "graph":
        whole["queries"] = "all"
    found = _tried(result, "raw", **whole)
    if found is None or sum(one.values.size for one in found.maps) > HEADS_VALUES:
        return None
    return found.json


def _tried(result: Result, method: Method | None = None, **options: Unpack[AttentionOptions]) -> Attention | None:
    with contextlib.suppress(RegardError):
        return result.look(method, **options)
    return None


def picture_of(result: Result) -> bytes | None:
    """Return a picture (PNG) of what the model looked at, as the service draws it; else the picture that was sent."""
    with contextlib.suppress(RegardError):
        if result.asked.client:
            method = result.attention.method if result.attention else None
            return result.asked.client.png(result, method)  # type: ignore[arg-type] # a method's name
    return result.asked.given.picture and as_png(result.asked.given.picture)
