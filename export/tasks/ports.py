"""From a definition to a source: which roles a task has, and what goes into and out of their graphs."""

from contract.manifest import (
    Kind,
    KindName,
    Method,
    Port,
    Task,
)
from export.plan import Below, Plan
from export.tasks.traced import (
    Look,
)
from model.text_encoder import TextEncoder
from model.vit import ViT

LONG = 64
"""Tokens of the longest texts at which maps are verified; predictions are, once, at the longest there are."""


def _base(
    look: Look, given: tuple[Port, ...], answer: Port, sizes: dict[str, int], width: int, below: Below | None = None
) -> Plan:
    """Plan the graph that those of attention, prediction and relevance are made of: it returns whatever is seen."""

    weights, values = [], []
    for kind in look.kinds:
        query, key = (sizes.get(axis, axis) for axis in (kind.query, kind.fed))
        for name in kind.maps:
            weights.append(_float(name, "batch", kind.heads, query, key))
            values.append(_float(f"{name}.value", "batch", kind.heads, key, width // kind.heads))
    return Plan("attention", look, given, (answer, *weights, *values), len(weights), below or {})


def _looks(base: Plan, sizes: dict[str, int]) -> tuple[Plan, ...]:
    """Plan what is made of a base: the graphs of attention, of the prediction alone, and of relevance if it has one."""
    look, answer = base.module, base.outputs[0]
    assert isinstance(look, Look)  # noqa: S101 # for the type checker
    own, read = [], []
    for kind in look.kinds:
        name, key = kind.kind, sizes.get(kind.fed, kind.fed)
        own += [Port(name=f"{name}.{what}", dtype="int64", axes=(f"{name}.{what}",)) for what in CONTROLS]
        if "rollout" in kind.methods:
            own.append(Port(name=f"{name}.discard", dtype="int64", axes=()))
        own.append(Port(name=f"{name}.special", dtype="bool", axes=("batch", key)))
        read.append(_float(name, "batch", f"{name}.head", f"{name}.layer", f"{name}.row", key))
        read.append(_float(f"{name}.diagnostics", "batch", f"{name}.layers", f"{name}.heads", kind.query, "figure"))
    controls = [Port(name=name, dtype="int64", axes=()) for name in ("method", "fusion")]
    controls.append(Port(name="diagnose", dtype="bool", axes=()))
    plans = [
        Plan("attention", look, (*base.inputs, *controls, *own), (answer, *read), base.attentions, base.below),
        Plan("predict", look, base.inputs, (answer,), base.attentions, base.below),
    ]
    explained = [kind for kind in look.kinds if "relevance" in kind.methods]
    if explained:
        asked = [_one("explained")]
        if len(answer.axes) > 2:
            asked.append(_one("position"))
        if len(explained) == 1:
            asked.append(Port(name="rows", dtype="int64", axes=("batch", "rows")))
            asked.append(Port(name=f"{explained[0].kind}.layers", dtype="int64", axes=(f"{explained[0].kind}.layers",)))
        rows: str | int = "rows" if len(explained) == 1 else 1
        shown = [_float(kind.kind, "batch", rows, sizes.get(kind.fed, kind.fed)) for kind in explained]
        plans.append(Plan("relevance", look, (*base.inputs, *asked), (answer, *shown), base.attentions, base.below))
    return tuple(plans)


CONTROLS = ("layers", "rows", "heads")


def _encoder(task: Task, layers: int, heads: int, axis: str, prefix: int, grid: tuple[int, int] | None = None) -> Kind:
    more: tuple[Method, ...] = () if task == "feature-extraction" else ("relevance",)  # a vector has no class
    kind = _kind("encoder", "encoder.blocks.{}.attention", layers, heads, axis, axis, *more)
    return kind.model_copy(update={"prefix": prefix, "grid": grid})


def _kind(name: KindName, path: str, layers: int, heads: int, query: str, key: str, *more: Method) -> Kind:
    maps = tuple(path.format(layer) for layer in range(layers))
    methods: tuple[Method, ...] = ("raw", "norm") if name == "cross" else ("raw", "rollout", "norm")
    return Kind(kind=name, maps=maps, heads=heads, query=query, key=key, normalized=True, methods=(*methods, *more))


def _answer(model: ViT | TextEncoder, task: Task, *axes: str) -> Port:
    """Name what the head returns; its last layer says how wide it is."""
    name = "embeddings" if task == "feature-extraction" else "logits"
    return _float(name, *axes, model.width)


def _tokens(name: str, axis: str | None = None) -> Port:
    return Port(name=name, dtype="int64", axes=("batch", axis or name))


def _visible(axis: str) -> Port:
    return Port(name=f"{axis}_visible", dtype="bool", axes=("batch", axis))


def _one(name: str) -> Port:
    return Port(name=name, dtype="int64", axes=("batch",))


def _float(name: str, *axes: int | str) -> Port:
    return Port(name=name, dtype="float32", axes=axes)
