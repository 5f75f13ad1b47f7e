"""The plan of a detector: the objects in an image, each with its class and its box."""

from typing import Any

from contract.manifest import BOXES, GRADIENT_METHODS, LOGITS, Detection, ImageRule, Port
from export.plan import Source
from export.tasks.ports import attention_kind, base_plan, derived_plans, float_port
from export.traced import Normalize, TracedDetector
from model.detector import BOX_NUMBERS, Detector, DetectorConfig


def object_detector(
    name: str,
    model: Detector,
    config: DetectorConfig,
    *,
    family: str,
    rule: ImageRule,
    labels: tuple[str, ...],
    made_by: dict[str, Any],
) -> Source:
    """Plan the graphs of a DETR, whose last class says that there is no object."""
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
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    sizes = {"image": rows * columns, "object": config.objects}
    answers = (
        float_port(LOGITS, "batch", config.objects, config.classes + 1),
        float_port(BOXES, "batch", config.objects, BOX_NUMBERS),
    )
    traced = TracedDetector(model, kinds, Normalize(rule.mean, rule.std), config.classes)
    base = base_plan(traced, (pixels,), answers, sizes, config.width)
    return Source(
        name=name,
        family=family,
        task="object-detection",
        labels=labels,
        inputs=(rule,),
        traced=traced,
        base=base,
        plans=derived_plans(traced, base, sizes),
        attention=kinds,
        detection=Detection(objects=config.objects),
        made_by=made_by,
        traced_at={"batch": 2},
        verified_at=({"batch": 1}, {"batch": 3}, {"batch": 5}),
    )
