"""TODO: what service/repository/predictor.py is."""

import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from contract.artifact import MANIFEST, Artifact, ArtifactError
from contract.manifest import Manifest
from service.arrays import crop, sigmoid, softmax
from service.batching.batcher import Lane, bucket_of
from service.errors import NOT_FINITE, Broken, Refusal, Unacceptable
from service.explanations.query import AttentionQuery, Target, select
from service.inputs.model_input import ModelInput, Pair, Text, cost_of, specials
from service.inputs.texts import Texts
from service.repository.served_model import Prediction, ServedModel
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics

MOST_MASKS = 64
"""Gaps of one text."""


class Predictor(ServedModel):
    """The tasks that one pass answers: classes, an embedding, words for gaps; of an image or of a text."""

    roles = ("predict", "attention")
    own_endpoint: ClassVar[Mapping[str, str]] = {
        "image-classification": "classify",
        "text-classification": "classify",
        "feature-extraction": "embed",
        "fill-mask": "fill-mask",
    }

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        self.endpoints = (self.own_endpoint[self.manifest.task], "attention")
        rule = self.manifest.text
        self._texts = Texts(artifact, rule.tokenizer, rule.max_tokens) if rule else None
        self._mask = rule.mask if rule else None
        if self.manifest.task == "fill-mask" and self._mask is None:
            raise ArtifactError(artifact.path(MANIFEST), "a fill-mask model needs a text rule with a mask token")

    def loops(self, device: Device, metrics: Metrics) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Make the lanes of predictions and of attention."""
        works = super().loops(device, metrics)
        self._predict: Lane[ModelInput, Prediction] = Lane(
            f"{self.manifest.name}/predict",
            device,
            self._predict_all,
            self.settings.batch_tokens,
            self.predicting,
            metrics,
            self.sessions["predict"].stop,
        )
        self._lanes.append(self._predict)
        return [self._predict.work, *works]

    def longest(self) -> dict[str, int]:
        """Return the most tokens of a text, none for images."""
        return {"source": self.manifest.text.max_tokens} if self.manifest.text else {}

    @property
    def mask(self) -> str | None:
        """Return the token that stands for what is to be found, where there is one."""
        return None if self._texts is None or self._mask is None else self._texts.piece(self._mask)

    def decode_text(self, text: Text, *, truncate: bool) -> ModelInput:
        """Tokenize a text. Raises what `Texts.encode` does, and Unacceptable for a text without gaps to fill."""
        assert self._texts  # noqa: S101 # the caller looked
        if isinstance(text, Pair) and self.manifest.task != "text-classification":
            raise Unacceptable(f"text_pair: is for text-classification, this model's task is {self.manifest.task}")
        tokens = self._texts.encode(text, truncate=truncate)
        indices = np.array([token.index for token in tokens])
        inputs = {
            "source": indices,
            "source_visible": np.ones(len(tokens), np.bool_),
            "source_types": np.array([token.type for token in tokens]),
        }
        lengths = {"source": len(tokens)}
        if self.manifest.task == "fill-mask":
            inputs["masked"] = masked = np.flatnonzero(indices == self._mask)
            lengths["masked"] = len(masked)
            if not 1 <= len(masked) <= MOST_MASKS:
                raise Unacceptable(f"input: must hold {self.mask} 1 to {MOST_MASKS} times, given {len(masked)}")
        return ModelInput(inputs, lengths, tokens, {"source": specials(tokens)})

    def permit(
        self, lengths: Sequence[Mapping[str, int]], *, looking: bool, targets: int = 1
    ) -> contextlib.AbstractContextManager[None]:
        """Hold what inputs of these lengths cost. Raises Busy before any work is spent if the queue is full."""
        if looking:
            return self.looking.permit(sum(self.map_bytes(one) for one in lengths) * max(targets, 1))
        return self.predicting.permit(sum(cost_of(one) for one in lengths))

    def targets(self, item: ModelInput, ask: AttentionQuery) -> list[Target]:
        """Return what is to be explained of an input. Raises Unacceptable for a class or mask that there is not."""
        if self.manifest.task == "fill-mask":
            places = item.inputs["masked"].tolist()
            masks = range(len(places)) if ask.targets is None else select("target", ask.targets, len(places))
            return [Target(-1, (places[mask],), mask, mask) for mask in masks]
        rows = tuple(ask.wanted[0].rows(item.lengths[ask.wanted[0].kind.query]))
        return [Target(index, rows) for index in ask.targets or (-1,)]

    async def predict(self, item: ModelInput) -> Prediction:
        """Return what the head says of an input."""
        size = cost_of(item.lengths)
        return await self._predict.submit(item, size, bucket_of(size))

    def _predict_all(self, items: Sequence[ModelInput]) -> list[Prediction | Refusal]:
        (port,) = self.manifest.graphs["predict"].outputs
        out = self._run("predict", items)[port.name]
        found = [crop(out[row], port, item.lengths) for row, item in enumerate(items)]
        return [one if np.isfinite(one).all() else Broken(NOT_FINITE) for one in found]

    def words(self, index: int) -> str:
        """Return the text of one token."""
        assert self._texts  # noqa: S101 # the caller looked
        return self._texts.decode([index])


def probabilities(manifest: Manifest, logits: Prediction) -> npt.NDArray[np.float64]:
    """Return what logits say of each class: one of them, or each for itself."""
    return softmax(logits) if manifest.scores == "softmax" else sigmoid(logits)
