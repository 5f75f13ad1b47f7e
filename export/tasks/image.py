"""The plan of a Vision Transformer that classifies or embeds images."""

import dataclasses
from typing import Any

from contract.input_rules import ImageRule
from contract.manifest import POOL, Kind, Method, Port, Scores, Task
from export.plan import Plan, Source
from export.tasks.ports import (
    answer_port,
    attention_kind,
    base_plan,
    derived_plans,
    encoder_kind,
    in_colour,
    saliency_plans,
)
from export.traced.images import AxialViT, Normalize, TracedPooledViT, TracedViT
from model.architectures.two_towers import PooledViT
from model.architectures.vit import ViT, ViTConfig
from model.parts.attention import MultiHeadAttention
from model.parts.attention_variants import AxialAttention, Hard, ReAttention

LINES_PAY_FROM = 100
"""Tokens from which axial attention is quicker along lines than as full attention with a mask (benchmarks/axial.py)."""


def image_model(
    name: str,
    model: ViT | PooledViT,
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
    kinds: tuple[Kind, ...] = (in_colour(_vit_kind(model, config), rule),)
    tokens = config.prefix + config.grid[0] * config.grid[1]
    pixels = Port(name="pixels", dtype="uint8", axes=("batch", rule.height, rule.width, rule.channels))
    answer = answer_port(model, task, "batch")
    normalize, sizes = Normalize(rule.mean, rule.std), {"image": tokens}
    if isinstance(model, PooledViT):
        kinds, sizes = (*kinds, _pool_kind(config)), {**sizes, POOL: 1}
        traced: TracedPooledViT | TracedViT = TracedPooledViT(model, kinds, normalize)
    else:
        traced = TracedViT(model, kinds, normalize)
    base = base_plan(traced, (pixels,), (answer,), sizes, config.width)
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
            for plan in (*derived_plans(traced, base, sizes), *saliency_plans(traced, base, rule))
        ),
        attention=kinds,
        made_by=made_by,
        traced_at={"batch": 4},
        verified_at=({"batch": 1}, {"batch": 2}, {"batch": 3}),
    )


def answer_along_lines(plan: Plan, traced: TracedViT | TracedPooledViT) -> Plan:
    """Return the plan of an answer with axial attention computed along lines; without axial attention, the plan."""
    axial = [part for part in traced.model.modules() if isinstance(part, AxialAttention)]
    if not axial or isinstance(traced, TracedPooledViT):
        return plan
    apart = sum(part.prefix > 0 for part in axial)  # the tokens before the grid, which see all, have a softmax too
    return dataclasses.replace(plan, module=AxialViT(traced), attentions=plan.attentions + apart)


def _pool_kind(config: ViTConfig) -> Kind:
    """Return the attention of a vector to the patches: the relevance and the likeness of these are the encoder's."""
    return attention_kind("cross", "pool.attention", 1, config.heads, POOL, "image").model_copy(
        update={"name": POOL, "grid": config.grid}
    )


def _vit_kind(model: ViT | PooledViT, config: ViTConfig) -> Kind:
    """Return the attention of a ViT's encoder, with the methods that its variant of attention allows."""
    found = model.encoder.named_modules(prefix="encoder")
    parts = {name: part for name, part in found if isinstance(part, MultiHeadAttention)}
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
