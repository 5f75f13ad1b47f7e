"""The plan of a Swin, which classifies or embeds images: each stage is a kind of attention of its own."""

from typing import Any

from contract.input_rules import ImageRule
from contract.manifest import GRADIENT_METHODS, Kind, Port, Scores, Task, Window
from export.plan import Source
from export.tasks.ports import (
    EMBEDDINGS,
    attention_kind,
    base_plan,
    derived_plans,
    float_port,
    in_colour,
    saliency_plans,
)
from export.traced.images import Normalize
from export.traced.windows import TracedSwin
from model.architectures.swin import Swin, SwinConfig


def windowed_image_model(
    name: str,
    model: Swin,
    config: SwinConfig,
    *,
    family: str,
    task: Task,
    rule: ImageRule,
    made_by: dict[str, Any],
    labels: tuple[str, ...] = (),
    scores: Scores = "softmax",
) -> Source:
    """Plan the graphs of a Swin that classifies images or embeds them.

    The kinds are `stage1` and so on. Rollout and relevance of a later stage are carried to the tokens of the first.
    """
    first, *others = (_kind_of_stage(config, stage) for stage in range(len(config.depths)))
    kinds = (in_colour(first, rule), *others)
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    answer = float_port(EMBEDDINGS if task == "feature-extraction" else "logits", "batch", model.width)
    sizes = {kind.key: kind.length for kind in kinds}
    traced = TracedSwin(model, kinds, Normalize(rule.mean, rule.std))
    base = base_plan(traced, (pixels,), (answer,), sizes, config.widths)
    return Source(
        name=name,
        family=family,
        task=task,
        labels=labels,
        scores=scores,
        inputs=(rule,),
        traced=traced,
        base=base,
        plans=(*derived_plans(traced, base, sizes), *saliency_plans(traced, base, rule)),
        attention=kinds,
        made_by=made_by,
        traced_at={"batch": 4},
        verified_at=({"batch": 1}, {"batch": 2}, {"batch": 3}),
    )


def _kind_of_stage(config: SwinConfig, stage: int) -> Kind:
    """Return the attention of a stage; relevance is that of the last, what enters the blocks that of the first."""
    last, name = len(config.depths) - 1, f"stage{stage + 1}"
    more = [method for method in GRADIENT_METHODS if stage == (last if method == "relevance" else 0)]
    path = f"stages.{stage}.blocks.{{}}.attention"
    axis = name if stage else "image"
    kind = attention_kind("encoder", path, config.depths[stage], config.heads[stage], axis, axis, *more)
    windows = tuple(Window(side=one.side, shift=one.shift) for one in config.windows[stage])
    own = {"name": name, "grid": config.grids[stage], "windows": windows, "pooled": "all"}
    return kind.model_copy(update=own | ({"carried": "stage1"} if stage else {}))
