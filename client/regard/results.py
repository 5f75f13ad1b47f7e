"""Answers as dataclasses: what a model predicted, and by `look` what it looked at. `tasks` has those of each task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, Unpack

import numpy as np
from PIL import Image

from regard.attention import Attention, AttentionOptions, Method, PictureOptions
from regard.errors import BadInput, RegardError
from regard.figures import Figure
from regard.inline import document
from regard.inputs import Encoded
from regard.layouts import alone
from regard.maps import Array, Evaluation, Json, Map
from regard.models import Description
from regard.overlays import OPACITY, Ground
from regard.reading import read_attention
from regard.showing import as_png, bundle, checked_path, data_url, opened, upright
from regard.table import Table, table_of

R = TypeVar("R", bound="Result")

HEADS_VALUES = 2_000_000
"""If all heads have more weights than this, none of them is shown."""


class Asker(Protocol):
    """Who asks a model again about one of its answers: `regard.Model`."""

    def look(self, result: Result, method: Method | None = None, **options: Unpack[AttentionOptions]) -> Attention:
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
class Result:
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

    def look(self, method: Method | None = None, **options: Unpack[AttentionOptions]) -> Attention:
        """Return what the model looked at for this answer.

        Without `method` it is the one that measured best on this model where that is known. The input is not sent again
        while the service keeps it. Raises `Refused` for what the model cannot show.
        """
        return self._client("look").look(self, method, **options)

    def maps(self, method: Method = "raw", **options: Unpack[AttentionOptions]) -> Sequence[Map]:
        """Return the maps of a method, whose values are (heads, queries, keys); of `raw` those of the last layer."""
        return self.look(method, **options).maps

    def heat(
        self,
        method: Method | None = None,
        *,
        map: int | None = None,  # noqa: A002 # the word of the interface
        head: int | None = None,
        row: int | None = None,
        object: int | None = None,  # noqa: A002 # as above
        smooth: bool = True,
        upright: bool = True,
        outside: float = np.nan,
        scale: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> Array:
        """Return what the model looked at as heat over the picture: (height, width), as large as it was sent.

        `Attention.heat` says what each word means. Of a detector it is the surest object's, if none is chosen by
        `object`, `row`, `kind`, `queries` or `target`.
        """
        found = self.look(method, **self._of_heat(method, object, row, options))
        return found.heat(map=map, head=head, row=row, smooth=smooth, upright=upright, outside=outside, scale=scale)

    def overlay(
        self,
        method: Method | None = None,
        *,
        map: int | None = None,  # noqa: A002 # as above
        head: int | None = None,
        row: int | None = None,
        object: int | None = None,  # noqa: A002 # as above
        smooth: bool = True,
        opacity: float = OPACITY,
        ground: Ground = "grey",
        **options: Unpack[AttentionOptions],
    ) -> Image.Image:
        """Return the picture that was sent, upright, under one map's heat: a Pillow image.

        `Attention.overlay` says what each word means, `heat` which object of a detector is shown. `image` is what the
        service draws, with a panel for each of several rows.
        """
        found = self.look(method, **self._of_heat(method, object, row, options))
        return found.overlay(
            _picture_of(self, "overlay"), map=map, head=head, row=row, smooth=smooth, opacity=opacity, ground=ground
        )

    def _of_heat(
        self,
        method: Method | None,
        object: int | None,  # noqa: A002 # as above
        row: int | None,
        options: AttentionOptions,
    ) -> AttentionOptions:
        """Return the options by which the map that becomes heat is asked for."""
        if object is not None:
            raise BadInput("object: must be of a detector's answer, given another")
        return options

    def _drawn_by(self, options: Json) -> Method | None:
        """Return the method of a figure with these options; None for the model's usual one."""
        return None

    def table(
        self,
        *methods: Method,
        map: int | None = None,  # noqa: A002 # as above
        head: int | None = None,
        row: int | None = None,
        **options: Unpack[AttentionOptions],
    ) -> Table:
        """Return a row for each token or patch, with its share by each method; print it, or take `.to_pandas()`.

        Without a method, it is the model's usual one. `map`, `head` and `row` choose: without them the first map of the
        last kind, the mean of heads, and all rows. Raises BadInput if methods have other rows or columns.
        """
        looks = [self.look(method, **options) for method in methods or (None,)]
        return table_of({look.method: look for look in looks}, map=map, head=head, row=row)

    def figure(self, method: Method | None = None, **options: Unpack[AttentionOptions]) -> Figure:
        """Return what the model looked at as a figure for a paper; without a method as `image` draws it.

        Pictures are under heat, tokens on their colours or in matrices; graphs and sounds are as the service draws
        them. In a notebook it shows itself; `save` writes it, and `plot` draws it on axes of matplotlib.
        """
        if self.asked.given.picture is None and self.asked.given.text is None:
            return alone(self.image(method, **options))
        look = self.look(method or self._drawn_by(options), **options)
        return look.figure(None if self.asked.given.picture is None else _picture_of(self, "figure"))

    def plot(self, method: Method | None = None, *, ax: Any = None, **options: Unpack[AttentionOptions]) -> Any:  # noqa: ANN401 # matplotlib's
        """Draw that figure on axes of matplotlib, or on a figure of its own, and return the axes.

        Raises NotInstalled without matplotlib.
        """
        return self.figure(method, **options).plot(ax)

    def image(self, method: Method | None = None, **options: Unpack[PictureOptions]) -> Image.Image:
        """Return what the model looked at as the service draws it: over the picture, or as a matrix of tokens.

        `options` are those of `look`, and those of drawing.
        """
        return opened(self._client("image").png(self, method, **options))

    def _client(self, verb: str) -> Asker:
        """Return who asks again. Raises BadInput if the answer has lost it, or never had one."""
        if self.asked.client is None:
            raise BadInput(
                f"{verb}: must be `model.{verb}(result, ...)` for an answer that was pickled or copied, and "
                f"`await model.{verb}(result, ...)` for an answer of an asynchronous client"
            )
        return self.asked.client

    def curves(self, method: Method | None = None, **options: Unpack[AttentionOptions]) -> Evaluation:
        """Return how the score falls and rises as what the map calls important is taken away, and put back."""
        options.setdefault("evaluate", ["deletion", "insertion"])
        found = self.look(method, **options).evaluation
        if found is None:
            raise BadInput("curves: this service answered none")
        return found

    def bertviz(self) -> dict[str, Any]:
        """Return keywords for BertViz: `head_view(**answer.bertviz())` or `model_view(**answer.bertviz())`.

        They are `attention`, a torch tensor (1, heads, tokens, tokens) for each layer, and `tokens`; of an encoder and
        a decoder those of both. Raises NotInstalled without torch, which BertViz needs too.
        """
        return self.look("raw", layers="all", heads="all", queries="all").bertviz()

    def save(self, path: str | Path, method: Method | None = None, **options: Unpack[PictureOptions]) -> None:
        """Write what the model looked at, by a method or its usual one, in the form that the path ends in.

        `.html` is what a notebook shows, in one file that needs no network; `.png` what the service draws; `.svg` and
        `.pdf` (which needs matplotlib) the figure. `options` are those of `look`, of `.png` also those of `image`.
        Raises BadInput for another ending, and where no file can be written.
        """
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


def _picture_of(result: Result, verb: str) -> Image.Image:
    """Return the picture that was sent, upright. Raises BadInput if none was."""
    if result.asked.given.picture is None:
        raise BadInput(f"{verb}: must be of a picture, given an answer to another input; take figure() or table()")
    return upright(result.asked.given.picture)


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
