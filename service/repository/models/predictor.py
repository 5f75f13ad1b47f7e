"""Models that answer with one pass: classes, embeddings, candidates for masks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from contract.artifact import Artifact
from service.batching.admission import Backlog, Budget
from service.batching.batcher import Lane, bucket_of
from service.batching.fair_queue import Caller
from service.errors import NOT_FINITE, Broken, Refusal
from service.explanations.answer import AttentionMap
from service.explanations.found_object import FoundObject
from service.explanations.query import AttentionQuery
from service.explanations.score import CLASSIFICATION_TASKS, explains
from service.explanations.selection import Target
from service.inputs.model_input import ModelInput, Text, cost_of
from service.options.base import RequestOptions
from service.options.predictions import CutOptions
from service.repository.models.known_vectors import KnownVectors
from service.repository.models.served_model import Prediction, ServedModel
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracer


class Predictor(ServedModel):
    """A model of a task that one pass answers, for an image or for a text."""

    roles = ("predict", "attention")
    mask: str | None = None
    """The text of the mask token; None for tasks without masks."""
    answers_places: ClassVar[bool] = False
    """True if an input has an answer at each of many places, or many words, which take long to write."""
    of_vocabulary: ClassVar[bool] = False
    """True if an answer has a number for each word of a vocabulary, of which it takes long to find the best."""
    prediction_lane: Lane[ModelInput, Prediction]

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
            self.prediction_budget, metrics, self.sessions["predict"].cores, tracer,
            self.batches.tokens_at_once("predict"),
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
        size = self.footprint.maps if query.rules.of_weights else self.footprint.gradient
        counts = runs or [1] * len(lengths)
        return self.attention_budget, sum(size(one) * count for one, count in zip(lengths, counts, strict=True))

    def seconds_for(self, query: AttentionQuery, cost: int) -> float:
        """Return how long runs of a path of images take at this cost, as far as is known; 0 where it is not.

        Texts differ in length, and so do the seconds that a cost takes.
        """
        known = query.rules.path and self.manifest.image is not None
        return self.gradient_lanes[query.method].rate.seconds_for(cost) if known else 0.0  # type: ignore[index] # a path's

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

    def targets_after(
        self, item: ModelInput, query: AttentionQuery, prediction: Prediction, text: Text
    ) -> list[Target]:
        """Return what a gradient method explains of an input, once it is predicted."""
        return [self.chosen(one, prediction) for one in self.targets(item, query)]

    def query_with(self, query: AttentionQuery, options: RequestOptions) -> AttentionQuery:
        """Return a query with what the options of the answer say of it: what is found."""
        return query

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
        return {"index": index, "label": self.manifest.label_of(index)}

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

    async def predict(self, item: ModelInput, caller: Caller) -> Prediction:
        """Return what the head returns for an input."""
        size = cost_of(item.lengths)
        return await self.prediction_lane.submit(item, size, bucket_of(size), caller)

    def _run_predictions(self, items: Sequence[ModelInput]) -> list[Prediction | Refusal]:
        out = self.batches.run("predict", items)
        found = [self.prediction_of(out, row, item) for row, item in enumerate(items)]
        return [one if np.isfinite(one).all() else Broken(NOT_FINITE) for one in found]


class Classifier(Predictor):
    """A model of classes."""

    tasks = CLASSIFICATION_TASKS
    endpoints: tuple[str, ...] = ("classify", "attention")

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        self.takes_pairs = self.inputs.modality == "text"
        if self.takes_pairs and self.output_size == 1 and self.manifest.scores != "softmax":
            self.endpoints = ("classify", "rerank", "attention")

    @property
    def entailment(self) -> tuple[int, int] | None:
        """The classes that say that the second text of a pair follows from the first, and that it contradicts it.

        None of a model without them. They are found as transformers' ZeroShotClassificationPipeline finds them.
        """
        labels = [label.lower() for label in self.manifest.labels] if self.takes_pairs else []
        found = next((index for index, label in enumerate(labels) if label.startswith("entail")), None)
        return None if found is None or len(labels) < 2 else (found, 0 if found else len(labels) - 1)


class Embedder(Predictor):
    """A model of embeddings."""

    tasks = ("feature-extraction",)
    endpoints: tuple[str, ...] = ("embed", "attention")

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        self.known = KnownVectors()
        """The vectors of labels, if it reads texts that are compared with pictures."""
        if self.manifest.contrast:
            self.endpoints = ("embed", "classify", "similarity", "attention")
        elif self.inputs.tokenizer:
            self.endpoints = ("embed", "similarity", "attention")

    def query_with(self, query: AttentionQuery, options: RequestOptions) -> AttentionQuery:
        """Return a query about as many numbers of vectors as options say."""
        return replace(query, kept=options.dimensions) if isinstance(options, CutOptions) else query
