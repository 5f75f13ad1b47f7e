"""Classes of a picture, a text or a graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.maps import Json
from regard.results import Result
from regard.tasks.task import Task, TextOptions


class ClassifyOptions(TextOptions, total=False):
    """What `classify` takes."""

    top_k: int
    """How many classes, best first (5; all of `labels`)."""
    labels: Sequence[str]
    """Zero-shot: labels to choose from, of models of entailment, or that compare pictures with texts (the model's)."""
    template: str
    """The sentence of a label, which stands for {} ("This example is {}.", of pictures "This is a photo of {}.")."""
    multi_label: bool
    """Each label for itself, rather than one of them (False)."""


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
    hypothesis: str | None = None
    """Of labels of the request: the sentence of the one that attention is of."""

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {"labels": [_label(one) for one in json["labels"]], "hypothesis": json.get("hypothesis")}

    @property
    def said(self) -> str:
        """The likeliest class."""
        return self.labels[0].label

    def _words(self) -> str:
        values = (f"{one.probability:.1%}" if one.score is None else f"{one.score:.3f}" for one in self.labels)
        return ", ".join(f"{one.label} {value}" for one, value in zip(self.labels, values, strict=True))


def _label(json: Json) -> Label:
    if "score" in json:
        return Label(json["label"], json["index"], np.nan, json["score"])
    return Label(json["label"], json["index"], json["probability"])


CLASSIFY = Task("classify", Classification, is_repeatable=lambda model, options: "labels" not in options)
