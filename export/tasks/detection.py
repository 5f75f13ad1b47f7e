"""The plan of a detector: the objects in an image, each with its class and its box."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from contract.manifest import BOXES, GRADIENT_METHODS, LOGITS, Detection, ImageRule, Kind, Port, Scores
from export.plan import Source
from export.tasks.ports import attention_kind, base_plan, derived_plans, encoder_kind, float_port
from export.traced import Normalize, Observed, Traced, TracedDetector
from model.attention import KeyValue
from model.cache import recording
from model.detector import BOX_NUMBERS, Detector, DetectorConfig
from model.yolos import Yolos, YolosConfig


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
        return Observed(logits, self.by_kind(maps), [[value for _, value in recorded]], (boxes,))


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
    visible = Port(name="image_visible", dtype="bool", axes=("batch", rows * columns))
    return _source(
        name,
        TracedDetector(model, kinds, Normalize(rule.mean, rule.std), config.classes),
        config,
        (visible,) if rule.locate == "fit" else (),
        sizes,
        family=family,
        rule=rule,
        labels=labels,
        made_by=made_by,
        scores=scores,
    )


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
    traced = TracedYolos(model, (kind,), Normalize(rule.mean, rule.std), config.classes)
    return _source(
        name,
        traced,
        config,
        (),
        {"image": config.tokens},
        family=family,
        rule=rule,
        labels=labels,
        made_by=made_by,
        scores="softmax",
    )


def _source(
    name: str,
    traced: Traced,
    config: DetectorConfig | YolosConfig,
    more: tuple[Port, ...],
    sizes: dict[str, int],
    *,
    family: str,
    rule: ImageRule,
    labels: tuple[str, ...],
    made_by: dict[str, Any],
    scores: Scores,
) -> Source:
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    answers = (
        float_port(LOGITS, "batch", config.objects, config.classes + (scores == "softmax")),
        float_port(BOXES, "batch", config.objects, BOX_NUMBERS),
    )
    base = base_plan(traced, (pixels, *more), answers, sizes, config.width)
    return Source(
        name=name,
        family=family,
        task="object-detection",
        labels=labels,
        scores=scores,
        inputs=(rule,),
        traced=traced,
        base=base,
        plans=derived_plans(traced, base, sizes),
        attention=traced.kinds,
        detection=Detection(objects=config.objects),
        made_by=made_by,
        traced_at={"batch": 2},
        verified_at=({"batch": 1}, {"batch": 3}, {"batch": 5}),
    )
