"""The plan of a detector: the objects in an image, each with its class and its box."""

from typing import Any

from contract.detection import Detection
from contract.input_rules import ImageRule
from contract.manifest import BOXES, GRADIENT_METHODS, IMAGE_VISIBLE, LOGITS, SHOWN, Port, Scores
from export.plan import Source
from export.tasks.ports import (
    attention_kind,
    base_plan,
    derived_plans,
    encoder_kind,
    float_port,
    in_colour,
    saliency_plans,
)
from export.traced.base import Traced
from export.traced.detection import TracedDetector, TracedYolos
from export.traced.images import Normalize
from model.architectures.detector import BOX_NUMBERS, Detector, DetectorConfig
from model.architectures.yolos import Yolos, YolosConfig

SHOWN_PORT = Port(name=SHOWN, dtype="int64", axes=("batch", 2))


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
    padded: bool = False,
) -> Source:
    """Plan the graphs of a DETR; if its `scores` are softmax, its last class says that there is no object.

    Where the rule fits images in, the graphs take which cells of the grid begin in the image, and how much is shown.
    They answer of the image alone, as if it had a graph of its size, or if it is `padded` with zeros beside it.
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
    kinds = (kinds[0].model_copy(update=over), kinds[1], in_colour(kinds[2].model_copy(update=over), rule))
    sizes = {"image": rows * columns, "object": config.objects}
    visible = Port(name=IMAGE_VISIBLE, dtype="bool", axes=("batch", rows * columns))
    traced = TracedDetector(model, kinds, Normalize(rule.mean, rule.std), config.classes, padded=padded)
    said = {"name": name, "family": family, "labels": labels, "made_by": made_by, "scores": scores}
    return _source(traced, config, rule, (visible, SHOWN_PORT), sizes, **said)


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
    kind = in_colour(kind.model_copy(update={"suffix": config.objects}), rule)
    traced = TracedYolos(model, (kind,), Normalize(rule.mean, rule.std), config.classes)
    said = {"name": name, "family": family, "labels": labels, "made_by": made_by, "scores": "softmax"}
    return _source(traced, config, rule, (SHOWN_PORT,), {"image": config.tokens}, **said)


def _source(
    traced: Traced,
    config: DetectorConfig | YolosConfig,
    rule: ImageRule,
    more: tuple[Port, ...],
    sizes: dict[str, int],
    **said: Any,  # noqa: ANN401 # fields of a Source
) -> Source:
    """Return the source of a detector, with what is `said` of it.

    Where the rule fits images in, it takes `more` inputs beside pixels.
    """
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    answers = (
        float_port(LOGITS, "batch", config.objects, config.classes + (said["scores"] == "softmax")),
        float_port(BOXES, "batch", config.objects, BOX_NUMBERS),
    )
    inputs = (pixels, *more) if rule.locate == "fit" else (pixels,)
    base = base_plan(traced, inputs, answers, sizes, config.width)
    return Source(
        **said,
        task="object-detection",
        inputs=(rule,),
        traced=traced,
        base=base,
        plans=(*derived_plans(traced, base, sizes), *saliency_plans(traced, base, rule)),
        attention=traced.kinds,
        detection=Detection(objects=config.objects),
        traced_at={"batch": 4},
        verified_at=({"batch": 1}, {"batch": 2}, {"batch": 3}),
    )
