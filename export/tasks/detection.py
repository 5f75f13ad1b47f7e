"""The plan of a detector: the objects in an image, each with its class and its box."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from torch import Tensor

from contract.manifest import BOXES, GRADIENT_METHODS, IMAGE_VISIBLE, LOGITS, Detection, ImageRule, Kind, Port, Scores
from export.plan import Source
from export.tasks.ports import attention_kind, base_plan, derived_plans, encoder_kind, float_port
from export.traced import Normalize, Observed, Traced, values_of
from model.attention import KeyValue
from model.cache import recording
from model.detector import BOX_NUMBERS, Detector, DetectorConfig
from model.yolos import Yolos, YolosConfig


class TracedDetector(Traced):
    """A detector: pixels (batch, height, width, channels), uint8 -> the class and the box of every object.

    A second input may say which cells (batch, cell) begin in the picture. What is explained are the cells of the image,
    the states that enter the encoder. The decoder's first states are 0, so that its objects first look at each other in
    the same way in every image.
    """

    model: Detector
    stacks = ("encoder",)
    fixed = MappingProxyType({"decoder": 1})

    def __init__(self, model: Detector, kinds: Sequence[Kind], normalize: Normalize, classes: int) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize
        self.classes = classes

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        own: list[KeyValue] = []
        fed: list[KeyValue] = []
        encoder, decoder, _ = self.kinds
        pixels, *visible = inputs
        shown = visible[0] if visible else None
        memory, maps = self.model.encode(self.normalize(pixels), shown, [recording(own)] * len(encoder.maps))
        states, others = self.model.decode(memory, shown, [recording(fed)] * len(decoder.maps))
        values = [values_of(own), values_of(fed), values_of(memory)]
        logits, boxes = self.model.answer(states[-1])
        return Observed(logits, self.by_kind(maps | others), values, (boxes,), shown)


class TracedYolos(Traced):
    """A YOLOS: pixels (batch, height, width, channels), uint8 -> the class and the box of every object."""

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


def object_detector(
    name: str,
    model: Detector,
    config: DetectorConfig,
    *,
    family: str,
    rule: ImageRule,
    labels: tuple[str, ...],
    made_by: dict[str, Any],
    scores: Scores = "softmax",
) -> Source:
    """Plan the graphs of a DETR; if its `scores` are softmax, its last class says that there is no object.

    Where the rule fits images in, the graphs take which cells of the grid begin in the image.
    """
    encoder, decoder = config.encoder, config.decoder
    rows, columns = config.grid
    own, cross = "decoder.blocks.{}.attention", "decoder.blocks.{}.cross"
    over = {"grid": config.grid}
    kinds = (
        attention_kind("encoder", "encoder.blocks.{}.attention", encoder.layers, encoder.heads, "image", "image"),
        attention_kind("decoder", own, decoder.layers, decoder.heads, "object", "object", "relevance"),
        attention_kind("cross", cross, decoder.layers, decoder.heads, "object", "image", *GRADIENT_METHODS),
    )
    kinds = (kinds[0].model_copy(update=over), kinds[1], kinds[2].model_copy(update=over))
    sizes = {"image": rows * columns, "object": config.objects}
    visible = Port(name=IMAGE_VISIBLE, dtype="bool", axes=("batch", rows * columns))
    traced = TracedDetector(model, kinds, Normalize(rule.mean, rule.std), config.classes)
    more = (visible,) if rule.locate == "fit" else ()
    said = {"name": name, "family": family, "labels": labels, "made_by": made_by, "scores": scores}
    return _source(traced, config, rule, more, sizes, **said)


def sequence_detector(
    name: str,
    model: Yolos,
    config: YolosConfig,
    *,
    family: str,
    rule: ImageRule,
    labels: tuple[str, ...],
    made_by: dict[str, Any],
) -> Source:
    """Plan the graphs of a YOLOS, whose last tokens become objects, and whose last class says that there is none.

    It looks at what stands beside an image that was fitted in, as it was trained to.
    """
    kind = encoder_kind(config.layers, config.heads, "image", config.prefix, config.grid)
    kind = kind.model_copy(update={"suffix": config.objects})
    traced = TracedYolos(model, (kind,), Normalize(rule.mean, rule.std), config.classes)
    said = {"name": name, "family": family, "labels": labels, "made_by": made_by, "scores": "softmax"}
    return _source(traced, config, rule, (), {"image": config.tokens}, **said)


def _source(
    traced: Traced,
    config: DetectorConfig | YolosConfig,
    rule: ImageRule,
    more: tuple[Port, ...],
    sizes: dict[str, int],
    **said: Any,  # noqa: ANN401 # fields of a Source
) -> Source:
    """Return the source of a detector that takes `more` inputs beside pixels, with what is `said` of it."""
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    answers = (
        float_port(LOGITS, "batch", config.objects, config.classes + (said["scores"] == "softmax")),
        float_port(BOXES, "batch", config.objects, BOX_NUMBERS),
    )
    base = base_plan(traced, (pixels, *more), answers, sizes, config.width)
    return Source(
        **said,
        task="object-detection",
        inputs=(rule,),
        traced=traced,
        base=base,
        plans=derived_plans(traced, base, sizes),
        attention=traced.kinds,
        detection=Detection(objects=config.objects),
        traced_at={"batch": 4},
        verified_at=({"batch": 1}, {"batch": 2}, {"batch": 3}),
    )
