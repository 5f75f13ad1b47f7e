"""Models of images that attend in windows."""

from collections.abc import Sequence

from torch import Tensor

from contract.manifest import Kind
from export.traced.base import Observed, Traced, values_of
from export.traced.images import Normalize
from model.architectures.swin import Swin
from model.parts.attention import KeyValue
from model.parts.cache import recording


class TracedSwin(Traced):
    """A Swin: pixels (batch, height, width, channels), uint8 -> the answer of its head.

    What is explained are the tokens of the first stage, the states that enter its blocks.
    """

    model: Swin
    stacks = ("stages.0",)

    def __init__(self, model: Swin, kinds: Sequence[Kind], normalize: Normalize) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize

    def entered(self, stack: str) -> Kind:
        """Return the kind of the first stage."""
        return self.kinds[0]

    def stack_of(self, kind: Kind) -> int:
        """Return the number of the only stack."""
        return 0

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        recorded: list[list[KeyValue]] = [[] for _ in self.kinds]
        recalls = [[recording(own)] * len(kind.maps) for own, kind in zip(recorded, self.kinds, strict=True)]
        answer, maps = self.model(self.normalize(*inputs), recalls)
        return Observed(answer, self.by_kind(maps), list(map(values_of, recorded)))
