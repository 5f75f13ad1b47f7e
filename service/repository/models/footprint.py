"""How many bytes the attention of a model takes, as its manifest says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from contract.manifest import Manifest

GRADIENT_DIVISOR = 8
"""A batch of a gradient method computes an eighth of the maps of another at most: it holds the activations of all
layers, and their gradients, which take 10 to 17 times the bytes of the maps in the bundled models."""
STATE_BYTES = 5
"""The least that a gradient run is charged, in bytes of maps, per token, layer and number of a state: for short texts
the states outweigh the maps. They take about 60 bytes each (`minilm`, 8 to 128 tokens)."""


class RunBytes(NamedTuple):
    """The most that a run for one input takes: per byte of all maps, per token, layer and number of a state, and per
    token and word of the vocabulary that is weighed."""

    maps: float
    states: float
    words: float


ATTENTION_RUN = RunBytes(maps=1.5, states=32, words=16)
GRADIENT_RUN = RunBytes(maps=1.5, states=128, words=32)
"""benchmarks/RESULTS.md has the measures."""


@dataclass(frozen=True)
class Footprint:
    """What one input takes, by the lengths of its axes."""

    manifest: Manifest

    def maps(self, lengths: Mapping[str, int]) -> int:
        """Return the bytes of all maps that the attention graph computes. Axes without a length count as 1."""
        return sum(
            4 * len(kind.maps) * kind.heads * kind.weights(lengths.get(kind.query, 1), lengths.get(kind.key, 1))
            for kind in self.manifest.attention
        )

    def gradient(self, lengths: Mapping[str, int]) -> int:
        """Return what a run of a gradient method counts in the queue of attention, in bytes of maps."""
        return max(self.maps(lengths), STATE_BYTES * self._states(lengths))

    def run(self, lengths: Mapping[str, int], *, by_gradient: bool) -> int:
        """Return the most bytes that a run takes, beside the weights and the maps that it returns."""
        most = GRADIENT_RUN if by_gradient else ATTENTION_RUN
        words = most.words * self.words * sum(lengths[kind.query] for kind in self.manifest.attention[:1])
        return int(most.maps * self.maps(lengths) + most.states * self._states(lengths) + words)

    @property
    def words(self) -> int:
        """How many words of a vocabulary every token is given a logit of; 0 but in sparse encoders."""
        answer = self.manifest.graphs["predict"].outputs[0].axes[-1] if self.manifest.task == "sparse-embedding" else 0
        return int(answer)

    def _states(self, lengths: Mapping[str, int]) -> int:
        """Return how many numbers the states are in all layers; 0 for states without a known width."""
        tokens = sum(len(kind.maps) * lengths[kind.query] for kind in self.manifest.attention)
        return tokens * (self.manifest.width or 0)
