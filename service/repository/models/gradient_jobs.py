"""Items of the lanes of gradient methods, and of what is inside: an input and what is asked of it; batches, results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from contract.manifest import Graph
from service.arrays import Array, crop, padded
from service.batching.batcher import bucket_of
from service.inputs.model_input import ModelInput

Found: TypeAlias = dict[str, Array]
"""What such a graph returned for one input, by port, without the padding of its batch."""

ANSWERS = ("logits", "embeddings", "weights")
"""The names that the answer of a model has."""

ROWS = "rows"
"""The input of the relevance graph that says which rows are read, and the axis of its output."""


@dataclass(frozen=True)
class GradientJob:
    """An item of such a lane: an input, and its controls without the axis of the batch."""

    item: ModelInput
    controls: Mapping[str, Array]
    layers: tuple[int, ...] = ()
    """The layers that relevance passes through, or the one that is looked into."""
    answers: bool = False
    """Whether the answer of the model is wanted too. Over a vocabulary it is much larger than the rest."""

    @property
    def bucket(self) -> tuple[object, ...]:
        """What jobs of one batch have in common.

        About the same length and number of rows, the layers, and whether they are at an end of a path, where only the
        score is computed.
        """
        rows = self.controls.get(ROWS)
        length = bucket_of(max(self.item.lengths.values()))
        return length, bucket_of(0 if rows is None else len(rows)), self.layers, self.at_end

    @property
    def at_end(self) -> bool:
        """True if it is at an end of a path, where only the score is computed."""
        return float(self.controls.get("point", 0.5)) in (0, 1)


def stacked(jobs: Sequence[GradientJob], graph: Graph) -> dict[str, Array]:
    """Return the controls of a batch, those that are lists padded with zeros."""
    feed: dict[str, Array] = {}
    for name in jobs[0].controls:
        rows = [job.controls[name] for job in jobs]
        feed[name] = padded(rows) if rows[0].ndim else np.stack(rows)
    layers = [port.name for port in graph.inputs if port.name.endswith(".layers")]
    return feed | {name: np.array(jobs[0].layers, np.int64) for name in layers}


def split(jobs: Sequence[GradientJob], graph: Graph, out: Mapping[str, Sequence[Array]]) -> list[Found]:
    """Return what a graph found for each job of a batch: copies, so that nothing holds on to the whole batch."""
    return [
        {
            port.name: crop(out[port.name][row], port, _lengths(job)).copy()
            for port in graph.outputs
            if job.answers or port.name not in ANSWERS
        }
        for row, job in enumerate(jobs)
    ]


def _lengths(job: GradientJob) -> Mapping[str, int]:
    rows = job.controls.get(ROWS)
    return job.item.lengths if rows is None else {**job.item.lengths, ROWS: len(rows)}
