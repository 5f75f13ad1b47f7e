"""The plan of a Vision Transformer that classifies or embeds images."""

import dataclasses
from typing import Any

from contract.input_rules import ImageRule
from contract.manifest import Kind, Method, Port, Scores, Task
from export.plan import Plan, Source
from export.tasks.ports import answer_port, base_plan, derived_plans, encoder_kind
from export.traced.images import AxialViT, Normalize, TracedViT
from model.architectures.vit import ViT, ViTConfig
from model.parts.attention import MultiHeadAttention
from model.parts.attention_variants import AxialAttention, Hard, ReAttention

LINES_PAY_FROM = 100
"""Tokens from which axial attention is quicker along lines than as full attention with a mask (benchmarks/axial.py)."""


def image_model(
    name: str,
    model: ViT,
    config: ViTConfig,
    *,
    family: str,
    task: Task,
    rule: ImageRule,
    made_by: dict[str, Any],
    labels: tuple[str, ...] = (),
    scores: Scores = "softmax",
) -> Source:
    """Plan the graphs of a ViT that classifies images or embeds them."""
    kind = _vit_kind(model, config)
    tokens = config.prefix + config.grid[0] * config.grid[1]
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    answer = answer_port(model, task, "batch")
    traced = TracedViT(model, (kind,), Normalize(rule.mean, rule.std))
    base = base_plan(traced, (pixels,), (answer,), {"image": tokens}, config.width)
    return Source(
        name=name,
        family=family,
        task=task,
        labels=labels,
        scores=scores,
        inputs=(rule,),
        traced=traced,
        base=base,
        plans=tuple(
            answer_along_lines(plan, traced) if plan.role == "predict" and tokens >= LINES_PAY_FROM else plan
            for plan in derived_plans(traced, base, {"image": tokens})
        ),
        attention=(kind,),
        made_by=made_by,
        traced_at={"batch": 4},
        verified_at=({"batch": 1}, {"batch": 2}, {"batch": 3}),
    )


def answer_along_lines(plan: Plan, traced: TracedViT) -> Plan:
    """Return the plan of an answer with axial attention computed along lines; without axial attention, the plan."""
    axial = [part for part in traced.model.modules() if isinstance(part, AxialAttention)]
    if not axial:
        return plan
    apart = sum(part.prefix > 0 for part in axial)  # the tokens before the grid, which see all, have a softmax too
    return dataclasses.replace(plan, module=AxialViT(traced), attentions=plan.attentions + apart)


def _vit_kind(model: ViT, config: ViTConfig) -> Kind:
    """Return the attention of a ViT's encoder, with the methods that its variant of attention allows."""
    parts = {name: part for name, part in model.named_modules() if isinstance(part, MultiHeadAttention)}
    kind = encoder_kind(len(parts), config.heads, "image", config.prefix, config.grid)
    missing: set[Method] = set()
    if any(isinstance(part.select, ReAttention) for part in parts.values()):
        missing.add("rollout")  # its rows do not sum to one
    if any(isinstance(part.select, Hard) for part in parts.values()):
        missing |= {"relevance", "integrated"}  # a choice has no gradient
    return kind.model_copy(
        update={
            "maps": tuple(parts),
            "methods": tuple(method for method in kind.methods if method not in missing),
            "normalized": "rollout" not in missing,
            "abreast": len(parts) // len(model.encoder.blocks),
        }
    )
