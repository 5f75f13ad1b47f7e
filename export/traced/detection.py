"""Detectors."""

from collections.abc import Sequence
from types import MappingProxyType

from torch import Tensor

from contract.manifest import Kind
from export.traced.base import Observed, Traced, values_of
from export.traced.images import Normalize
from model.architectures.detector import Detector
from model.architectures.yolos import Yolos
from model.parts.attention import KeyValue
from model.parts.cache import recording


class TracedDetector(Traced):
    """A detector: pixels (batch, height, width, channels), uint8 -> the class and the box of every object.

    Of a picture that was fitted in, two more inputs say which cells (batch, cell) begin in it, and how many rows and
    columns of pixels it fills (batch, 2): the answer is that of the picture alone or, of one that is `padded`, with
    zeros beside it. What is explained are the cells of the image, the states that enter the
    encoder. The decoder's first states are 0, so that its objects first look at each other in the same way in every
    image.
    """

    model: Detector
    stacks = ("encoder",)
    fixed = MappingProxyType({"decoder": 1})

    def __init__(
        self, model: Detector, kinds: Sequence[Kind], normalize: Normalize, classes: int, *, padded: bool = False
    ) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize
        self.classes = classes
        self.padded = padded

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        own: list[KeyValue] = []
        fed: list[KeyValue] = []
        encoder, decoder, _ = self.kinds
        pixels, visible, shown = inputs if len(inputs) > 1 else (*inputs, None, None)
        recalls = [recording(own)] * len(encoder.maps)
        memory, maps = self.model.encode(
            self.normalize(pixels, shown), visible, recalls, None if self.padded else shown
        )
        states, others = self.model.decode(memory, visible, [recording(fed)] * len(decoder.maps))
        values = [values_of(own), values_of(fed), values_of(memory)]
        logits, boxes = self.model.answer(states[-1])
        return Observed(logits, self.by_kind(maps | others), values, (boxes,), visible)


class TracedYolos(Traced):
    """A YOLOS: pixels (batch, height, width, channels), uint8 -> the class and the box of every object.

    Of a picture that was fitted in, a second input says how many rows and columns of pixels it fills (batch, 2).
    """

    model: Yolos
    stacks = ("encoder",)

    def __init__(self, model: Yolos, kinds: Sequence[Kind], normalize: Normalize, classes: int) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize
        self.classes = classes

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answers, maps and values."""
        recorded: list[KeyValue] = []
        recalls = [recording(recorded)] * len(self.kinds[0].maps)
        logits, boxes, maps = self.model(self.normalize(*inputs), recalls)
        return Observed(logits, self.by_kind(maps), [values_of(recorded)], (boxes,))
