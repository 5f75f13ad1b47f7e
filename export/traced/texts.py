"""Models of texts that predict."""

from collections.abc import Sequence

from torch import Tensor

from contract.manifest import Kind
from export.traced.base import Observed, Traced, values_of
from model.architectures.text_encoder import TextEncoder
from model.parts.attention import KeyValue
from model.parts.cache import recording


class TracedTextEncoder(Traced):
    """A text encoder: tokens -> the answer of its head.

    Inputs are source and source_visible, token types if the model is `typed`, and of some tasks the answered positions.
    """

    stacks = ("encoder",)

    def __init__(self, model: TextEncoder, kinds: Sequence[Kind], *, typed: bool) -> None:
        super().__init__(model, kinds)
        self.typed = typed

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        source, visible, *rest = inputs
        types, masked = (rest[0], rest[1:]) if self.typed else (None, rest)
        recorded: list[KeyValue] = []
        recalls = [recording(recorded)] * len(self.kinds[0].maps)
        answer, maps = self.model(source, visible, types, *masked, recalls=recalls)
        return Observed(answer, self.by_kind(maps), [values_of(recorded, self.kinds[0].heads)])
