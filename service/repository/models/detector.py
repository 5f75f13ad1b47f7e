"""Models that find objects in an image: which they are, and where."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from contract.artifact import MANIFEST, Artifact, ArtifactError
from contract.manifest import BOX_NUMBERS, BOXES, LOGITS
from service.arrays import Array, probabilities
from service.explanations.answer import AttentionMap
from service.explanations.found_object import FoundObject
from service.explanations.query import AttentionQuery
from service.explanations.selection import Target
from service.inputs.model_input import Box, ModelInput, Picture
from service.options.base import RequestOptions
from service.options.predictions import DetectOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction
from service.settings import Settings

SUREST = -1
"""Stands for the surest object of an image."""


class Detector(Predictor):
    """A detector. Its prediction is (object, class + 4): logits; left, top, right and bottom in pixels of the image."""

    tasks = ("object-detection",)
    endpoints = ("detect", "attention")

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        if self.manifest.detection is None:
            raise ArtifactError(artifact.path(MANIFEST), "a detector must say how it detects, given nothing")
        self.detection = self.manifest.detection
        self.objects_kind = next(kind for kind in self.manifest.attention if kind.first_object is not None)

    @property
    def output_size(self) -> int:
        """The number of classes."""
        return len(self.manifest.labels)

    def prediction_of(self, out: Mapping[str, Sequence[Array]], row: int, item: ModelInput) -> Prediction:
        """Return the answers of one input side by side, boxes in pixels of its picture."""
        logits, boxes = out[LOGITS][row], out[BOXES][row]
        left, top, right, bottom = self.framed(item.picture)
        scale, corner = np.array([right - left, bottom - top]), np.array([left, top])
        middle, half = boxes[:, :2] * scale + corner, boxes[:, 2:] * scale / 2
        found: Prediction = np.concatenate([logits, middle - half, middle + half], axis=1).astype(np.float32)
        return found

    def framed(self, picture: Picture | None) -> Box:
        """Return the rectangle of a picture that boxes are shares of.

        It is what the model takes of the picture; if that was fitted in, the picture without what stands beside it.
        """
        if picture is None:
            return 0.0, 0.0, 1.0, 1.0
        fits = self.manifest.image is not None and self.manifest.image.locate == "fit"
        return (0.0, 0.0, float(picture.width), float(picture.height)) if fits else picture.box

    def chances(self, prediction: Prediction) -> Array:
        """Return the probability of each class for each object, (object, class)."""
        logits = prediction[:, :-BOX_NUMBERS]
        return np.stack([probabilities(row, self.manifest.scores) for row in logits])[:, : self.output_size]

    def objects_of(self, prediction: Prediction) -> tuple[FoundObject, ...]:
        """Return every object that is looked for, in their order, each with its likeliest class."""
        chances = self.chances(prediction)
        return tuple(
            self._object(prediction, number, index, float(chances[number, index]))
            for number, index in enumerate(chances.argmax(axis=1).tolist())
        )

    def found(self, prediction: Prediction, options: DetectOptions) -> list[FoundObject]:
        """Return the objects that are found, surest first, equals in their order.

        Where scores are sigmoid, classes do not exclude each other, and an object may be found as several.
        """
        chances = self.chances(prediction)
        if self.manifest.scores == "softmax":
            pairs = [(number, index) for number, index in enumerate(chances.argmax(axis=1).tolist())]
        else:
            pairs = [(number, index) for number, index in np.ndindex(*chances.shape)]
        least = self.threshold(options)
        sure = [(-float(chances[pair]), *pair) for pair in pairs if chances[pair] >= least]
        return [
            self._object(prediction, number, index, -chance) for chance, number, index in sorted(sure)[: options.top_k]
        ]

    def threshold(self, options: DetectOptions) -> float:
        """Return the probability from which an object counts as found."""
        return self.detection.threshold if options.threshold is None else options.threshold

    def _object(self, prediction: Prediction, number: int, index: int, chance: float) -> FoundObject:
        left, top, right, bottom = prediction[number, -BOX_NUMBERS:].tolist()
        return FoundObject(number, self.manifest.labels[index], index, chance, (left, top, right, bottom))

    def shown_maps(
        self, query: AttentionQuery, prediction: Prediction, maps: Sequence[AttentionMap]
    ) -> Sequence[AttentionMap]:
        """Return maps with the rows of found objects alone, in the order of these, where a request asks for those."""
        asked = {one.kind.name for one in query.kinds if one.queries == "found"}
        if query.by_gradient or not asked:
            return maps
        numbers = list(dict.fromkeys(one.number for one in self.found(prediction, query.found)))

        def narrowed(one: AttentionMap) -> AttentionMap:
            if one.kind.name not in asked:
                return one
            rows = tuple((one.kind.first_object or 0) + number for number in numbers)
            return replace(one, entry={**one.entry, "objects": numbers}, values=one.values[:, numbers], rows=rows)

        return [narrowed(one) for one in maps]

    def query_with(self, query: AttentionQuery, options: RequestOptions) -> AttentionQuery:
        """Return a query about the objects that options find."""
        return replace(query, found=options) if isinstance(options, DetectOptions) else query

    def targets(self, item: ModelInput, query: AttentionQuery) -> list[Target]:
        """Return the objects that a gradient method explains, by default the surest one."""
        return [Target(-1, (), number, number) for number in query.targets or (SUREST,)]

    def chosen(self, target: Target, prediction: Prediction) -> Target:
        """Return the target of an object with its likeliest class and the row that it is at."""
        chances = self.chances(prediction)
        number = int(chances.max(axis=1).argmax()) if target.position == SUREST else target.position
        return Target(int(chances[number].argmax()), (self.row_of(number),), number, number)

    def row_of(self, number: int) -> int:
        """Return the row of an object."""
        return (self.objects_kind.first_object or 0) + number

    def target_entry(self, target: Target, prediction: Prediction) -> dict[str, object]:
        """Return what an answer says of a target: an object and its class."""
        chosen = self.chosen(target, prediction)
        return {"object": chosen.position, **self.class_entry(chosen.token)}
