"""Answers as dataclasses: what a model predicted, and by `look` what it looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np

from regard.attention import (
    Array,
    Attention,
    AttentionOptions,
    Evaluation,
    Json,
    Map,
    Method,
    PictureOptions,
    read_attention,
)
from regard.errors import BadInput
from regard.inputs import Encoded
from regard.objects import Detected, read_detected

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image

    from regard.models import Description
    from regard.service import Model

R = TypeVar("R", bound="Result")


@dataclass(frozen=True)
class Asked:
    """What a result is the answer to, by which the service finds it again."""

    model: Description
    given: Encoded
    options: Json
    """The options but attention."""
    id: str
    """The request's, by which the service keeps its input for a while."""
    index: int
    """The place of the input in the request."""
    client: Model | None
    """Who asks again; None of an asynchronous client, whose models have `look`, and of an answer that was pickled."""
    is_of_batch: bool = False
    """True if the request had other inputs, too."""

    def __getstate__(self) -> Json:
        return {**self.__dict__, "client": None}  # its connections belong to this process

    @property
    def is_repeatable(self) -> bool:
        """True if the same input gives the same answer: nothing is drawn at random, or from a seed."""
        if "generate" not in self.model.endpoints or self.options.get("seed") is not None:
            return True
        temperature = self.options.get("temperature")
        if any(self.options.get(name) is not None for name in ("temperature", "top_k", "top_p")):
            return temperature == 0
        return (self.options.get("num_beams") or 1) > 1 or not self.model.json.get("sampling")


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
        """The request's id, also in the service's log."""
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
        smooth: bool = True,
        upright: bool = True,
        outside: float = np.nan,
        **options: Unpack[AttentionOptions],
    ) -> Array:
        """Return what the model looked at as heat over the picture: (height, width), as large as it was sent.

        `Attention.heat` says what each word means.
        """
        found = self.look(method, **options)
        return found.heat(map=map, head=head, row=row, smooth=smooth, upright=upright, outside=outside)

    def image(self, method: Method | None = None, **options: Unpack[PictureOptions]) -> Image.Image:
        """Return what the model looked at as the service draws it: over the picture, or as a matrix of tokens.

        `options` are those of `look`, and those of drawing.
        """
        return self._client("image").image(self, method, **options)

    def _client(self, verb: str) -> Model:
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

    def save(self, path: str | Path) -> None:
        """Write what a notebook shows as one HTML file, which needs no network."""
        from regard.showing import save

        save(self, path)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from regard.showing import bundle

        return bundle(self)


@dataclass(frozen=True, eq=False)
class Look(Result):
    """What a model looked at, without its prediction (`Model.attention`)."""


@dataclass(frozen=True)
class Label:
    """A class and its probability, or its score."""

    label: str
    index: int
    probability: float
    """NaN of models that answer a score, such as cross-encoders which rank texts."""
    score: float | None = None


@dataclass(frozen=True, eq=False)
class Classification(Result):
    """The likeliest classes, best first."""

    labels: Sequence[Label]


@dataclass(frozen=True, eq=False)
class Detection(Result):
    """The objects of a picture, surest first."""

    objects: Sequence[Detected]

    def heat(
        self,
        method: Method | None = None,
        *,
        object: int | None = None,  # noqa: A002 # the word of the interface
        map: int | None = None,  # noqa: A002 # as above
        head: int | None = None,
        row: int | None = None,
        smooth: bool = True,
        upright: bool = True,
        outside: float = np.nan,
        **options: Unpack[AttentionOptions],
    ) -> Array:
        """Return what an object was found by as heat over the picture: (height, width), as large as it was sent.

        `object` is its number, `found.objects[0].object` of the surest, which it is by default. With `kind`, `queries`,
        `row` or `target` these choose. Raises BadInput if no object was found, or there is none of this number.
        """
        if object is not None or (row is None and not options.keys() & {"kind", "queries", "target"}):
            number = self._surest() if object is None else object
            options = {**self.asked.model.asking_for(number, method), **options}
        return super().heat(
            method, map=map, head=head, row=row, smooth=smooth, upright=upright, outside=outside, **options
        )

    def _surest(self) -> int:
        if not self.objects:
            raise BadInput("object: must be given, since none was found; a lower threshold finds more")
        return self.objects[0].object


@dataclass(frozen=True, eq=False)
class Embedding(Result):
    """An input as a vector."""

    vector: Array
    """(width,)"""


@dataclass(frozen=True)
class Candidate:
    """A token that may stand in a mask's place."""

    token: int
    text: str
    probability: float


@dataclass(frozen=True, eq=False)
class Filled(Result):
    """Candidates for every mask of a text, best first."""

    candidates: Sequence[Sequence[Candidate]]


@dataclass(frozen=True)
class GeneratedToken:
    """A token that a model wrote."""

    index: int
    token: int
    text: str
    log_probability: float
    alternatives: Sequence[Json] = ()


@dataclass(frozen=True, eq=False)
class Generation(Result):
    """A text that a model wrote."""

    text: str
    tokens: Sequence[GeneratedToken]
    score: float | None
    """The sum of log-probabilities over the length to the power of `length_penalty`."""
    finish_reason: str
    """`stop` or `length`."""


@dataclass(frozen=True)
class StreamedToken:
    """A token as it comes, and the rows of attention that were asked for with `steps=True`."""

    index: int
    token: int
    text: str
    maps: Sequence[Map] = ()


def fields_of(kind: type[Result], json: Json) -> Mapping[str, Any]:
    """Return what a result of a kind has beside attention. Raises KeyError, TypeError or ValueError."""
    if kind is Classification:
        return {"labels": [_label(one) for one in json["labels"]]}
    if kind is Detection:
        return {"objects": [read_detected(one) for one in json["objects"]]}
    if kind is Embedding:
        return {"vector": np.array(json["embedding"], np.float32)}
    if kind is Filled:
        masks = json["candidates"]
        return {"candidates": [[Candidate(one["token"], one["text"], one["probability"]) for one in m] for m in masks]}
    if kind is Generation:
        tokens = [
            GeneratedToken(one["index"], one["token"], one["text"], one["log_probability"], one.get("alternatives", ()))
            for one in json["tokens"]
        ]
        reason = json["finish_reason"]
        return {"text": json["text"], "tokens": tokens, "score": json.get("score"), "finish_reason": reason}
    return {}


def _label(json: Json) -> Label:
    if "score" in json:
        return Label(json["label"], json["index"], np.nan, json["score"])
    return Label(json["label"], json["index"], json["probability"])


def read_result(kind: type[R], json: Json, asked: Asked) -> R:
    """Return a result from an entry of the service's `results`. Raises KeyError, TypeError or ValueError."""
    attention = read_attention(json["attention"]) if json.get("attention") else None
    kept = {name: value for name, value in json.items() if name != "attention"}
    return kind(attention=attention, json=kept, asked=asked, **fields_of(kind, json))
