"""Models that answer with one pass: classes, embeddings, candidates for masks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from contract.artifact import MANIFEST, Artifact, ArtifactError
from service.batching.admission import Backlog, Budget, Priority
from service.batching.batcher import Lane, bucket_of
from service.errors import NOT_FINITE, Broken, Refusal, Unacceptable
from service.explanations.answer import AttentionMap
from service.explanations.found_object import FoundObject
from service.explanations.query import AttentionQuery
from service.explanations.score import explains
from service.explanations.selection import Target, select
from service.inputs.model_input import ModelInput, cost_of
from service.repository.models.served_model import Prediction, ServedModel
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracer

MOST_MASKS = 64
"""The most masks of one text."""


class Predictor(ServedModel):
    """A model of a task that one pass answers, for an image or for a text."""

    roles = ("predict", "attention")
    own_endpoint: ClassVar[Mapping[str, str]] = {
        "image-classification": "classify",
        "text-classification": "classify",
        "feature-extraction": "embed",
        "fill-mask": "fill-mask",
    }
    mask: str | None = None
    """The text of the mask token; None for tasks without masks."""
    prediction_lane: Lane[ModelInput, Prediction]

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        self.endpoints = (self.own_endpoint[self.manifest.task], "attention")

    @property
    def output_size(self) -> int:
        """Numbers of a prediction's last axis: classes, tokens, or the dimensions of an embedding."""
        return int(self.manifest.graphs["predict"].outputs[0].axes[-1])

    def start(self, device: Device, backlog: Backlog, metrics: Metrics, tracer: Tracer) -> None:
        """Make the lanes of predictions, attention and gradient methods.

        A batch of predictions has no more than what runs together, so that others have their turn in between.
        """
        super().start(device, backlog, metrics, tracer)
        self.prediction_lane = Lane(
            f"{self.manifest.name}/predict", device, self._run_predictions, self.settings.batch_tokens,
            self.prediction_budget, metrics, self.sessions["predict"].cores, tracer, self.tokens_at_once("predict"),
        )  # fmt: skip
        self.lanes.append(self.prediction_lane)

    def cost(
        self, lengths: Sequence[Mapping[str, int]], query: AttentionQuery | None = None, runs: Sequence[int] = ()
    ) -> tuple[Budget, int]:
        """Return the queue that inputs with these lengths wait in, and what they cost there.

        Without a query they are predictions. `runs` says for each how often a graph runs to answer the query.
        """
        if query is None:
            return self.prediction_budget, sum(cost_of(one) for one in lengths)
        size = self.gradient_bytes if query.by_gradient else self.map_bytes
        counts = runs or [1] * len(lengths)
        return self.attention_budget, sum(size(one) * count for one, count in zip(lengths, counts, strict=True))

    def targets(self, item: ModelInput, query: AttentionQuery) -> list[Target]:
        """Return what a gradient method explains of an input."""
        one = query.kinds[0]
        length = item.lengths[one.kind.query]
        every = query.rows_of_words or (query.summarized and not one.kind.averages)
        rows = range(length) if every else one.rows(length)
        return [Target(index, tuple(rows)) for index in query.targets or (-1,)]

    def chosen(self, target: Target, prediction: Prediction) -> Target:
        """Return a target that stands for the likeliest class or token as that one. Embeddings have none."""
        if target.token >= 0 or not self.answers_classes:
            return target
        return replace(target, token=int(prediction.argmax()))

    @property
    def answers_classes(self) -> bool:
        """True if the prediction is a logit for each of some classes or tokens."""
        return explains(self.manifest) != "embedding"

    def score_entry(self, target: Target, prediction: Prediction) -> dict[str, object]:
        """Return what an answer says of an explained target; nothing of an embedding."""
        return {"target": self.target_entry(target, prediction)} if self.answers_classes else {}

    def target_entry(self, target: Target, prediction: Prediction) -> dict[str, object]:
        """Return what an answer says of a target: a class by index and label."""
        return self.class_entry(self.chosen(target, prediction).token)

    def class_entry(self, index: int) -> dict[str, object]:
        """Return what an answer says of a class: its index and label."""
        names = self.manifest.labels
        return {"index": index, "label": names[index] if names else str(index)}

    def against_entry(self, query: AttentionQuery) -> dict[str, object]:
        """Return what an answer says of the class that targets are explained against; nothing without one."""
        return {} if query.against is None else {"against": self.class_entry(query.against)}

    def objects_of(self, prediction: Prediction) -> tuple[FoundObject, ...]:
        """Return the objects that a prediction is of; none but those of a detector."""
        return ()

    def shown_maps(
        self, query: AttentionQuery, prediction: Prediction, maps: Sequence[AttentionMap]
    ) -> Sequence[AttentionMap]:
        """Return the maps that an answer shows, once the prediction is known: all."""
        return maps

    async def predict(self, item: ModelInput, priority: Priority) -> Prediction:
        """Return what the head returns for an input."""
        size = cost_of(item.lengths)
        return await self.prediction_lane.submit(item, size, bucket_of(size), priority)

    def _run_predictions(self, items: Sequence[ModelInput]) -> list[Prediction | Refusal]:
        out = self.run("predict", items)
        found = [self.prediction_of(out, row, item) for row, item in enumerate(items)]
        return [one if np.isfinite(one).all() else Broken(NOT_FINITE) for one in found]


class MaskFiller(Predictor):
    """A masked language model: logits over the vocabulary for every mask of a text."""

    mask: str

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        if not self.inputs.tokenizer or self.inputs.rule.mask is None:
            raise ArtifactError(artifact.path(MANIFEST), "a fill-mask model needs a text rule with a mask token")
        self.tokenizer, self.mask_index = self.inputs.tokenizer, self.inputs.rule.mask
        self.mask = self.tokenizer.piece(self.mask_index)

    def complete_input(self, item: ModelInput) -> ModelInput:
        """Return the input with the positions of its masks. Raises Unacceptable for none or too many."""
        masked = np.flatnonzero(item.arrays["source"] == self.mask_index)
        if not 1 <= len(masked) <= MOST_MASKS:
            raise Unacceptable(f"input: must hold {self.mask} 1 to {MOST_MASKS} times, given {len(masked)}")
        return replace(item, arrays={**item.arrays, "masked": masked}, lengths={**item.lengths, "masked": len(masked)})

    def targets(self, item: ModelInput, query: AttentionQuery) -> list[Target]:
        """Return the masks that a gradient method explains. Raises Unacceptable for a mask that it does not have."""
        positions = item.arrays["masked"].tolist()
        masks = range(len(positions)) if query.targets is None else select("target", query.targets, len(positions))
        return [Target(-1, (positions[mask],), mask, mask) for mask in masks]

    def chosen(self, target: Target, prediction: Prediction) -> Target:
        """Return the target of a mask with the likeliest token for it."""
        return replace(target, token=int(prediction[target.position].argmax()))

    def target_entry(self, target: Target, prediction: Prediction) -> dict[str, object]:
        """Return what an answer says of a target: a mask and the likeliest token for it."""
        return {"mask": target.index, **self.class_entry(self.chosen(target, prediction).token)}

    def class_entry(self, index: int) -> dict[str, object]:
        """Return what an answer says of a token: its number and text."""
        return {"token": index, "label": self.text_of(index)}

    def token_of(self, text: str) -> int | None:
        """Return the token that a text is, or None."""
        return self.tokenizer.single(text)

    def text_of(self, token: int) -> str:
        """Return the text of one token, of special ones too."""
        return self.tokenizer.text_of(token)
