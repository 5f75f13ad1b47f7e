"""The parts that the plans of all tasks share: ports, kinds of attention, the base graph and those derived from it."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from contract.input_rules import NODES, ImageRule
from contract.manifest import (
    ANSWERED,
    BASELINE,
    GRADIENT_METHODS,
    INSIDE,
    SALIENCY,
    SHOWN,
    STATE_METHODS,
    GradientMethod,
    Kind,
    Method,
    Port,
    Sort,
    Task,
)
from export.plan import Plan, UpperBounds
from export.traced.base import Traced
from export.traced.images import SalientCells
from model.architectures.graph_transformer_network import GraphTransformerNetwork
from model.architectures.graphormer import Graphormer
from model.architectures.speech_encoder import SpeechEncoder
from model.architectures.text_encoder import TextEncoder
from model.architectures.two_towers import PooledViT
from model.architectures.vit import ViT
from model.methods.saliency import scales_of

MAX_VERIFIED_TOKENS = 64
"""The longest texts at which maps are verified. Predictions are also verified once at the longest that there are."""

EMBEDDINGS = "embeddings"
"""The name of an answer that is a vector, without classes."""
NAMES: dict[Task, str] = {"feature-extraction": EMBEDDINGS, "sparse-embedding": "weights"}
"""The name of an answer, by task; by default it is logits."""

Answering: TypeAlias = ViT | PooledViT | TextEncoder | SpeechEncoder | Graphormer | GraphTransformerNetwork
"""Models that say how many numbers their head returns."""

PlanMaker: TypeAlias = Callable[[Traced, Plan, list[Kind], dict[str, int]], Plan]
"""Plans a graph of the kinds that it explains; the last argument gives the lengths of the axes that never vary."""

EMBEDDED = ("pixels", "samples", "source", "target", NODES)
"""The inputs that are embedded: those that a baseline has in a form of its own."""

SELECTION_CONTROLS = ("layers", "rows", "heads")
"""Inputs of an attention graph, per kind, that select which maps it returns."""


def base_plan(
    traced: Traced,
    inputs: tuple[Port, ...],
    answers: tuple[Port, ...],
    sizes: dict[str, int],
    width: int | Sequence[int],
    upper_bounds: UpperBounds | None = None,
    *,
    head: int | None = None,
) -> Plan:
    """Plan the base graph, from which those of predictions, attention and explanations are derived.

    It returns the answers, every map, every value and every state. `sizes` gives the lengths of the axes that never
    vary; `width` is that of states, of each kind if they differ, and a head is `head` wide, by default its share.
    """
    widths = [width] * len(traced.kinds) if isinstance(width, int) else width
    weights, values = [], []
    for kind, own in zip(traced.kinds, widths, strict=True):
        query, key = (sizes.get(axis, axis) for axis in (kind.query, kind.fed))
        for layer, name in enumerate(kind.maps):
            outer: tuple[int | str, ...] = ("batch", kind.heads)
            if kind.windows:  # which have an axis of their own, and places of theirs
                query = key = kind.windows[layer].side ** 2
                outer = ("batch", kind.length // key, kind.heads)
            weights.append(float_port(name, *outer, query, key))
            values.append(float_port(f"{name}.value", *outer, key, head or own // kind.heads))
    width_of = dict(zip((kind.name for kind in traced.kinds), widths, strict=True))
    states = []
    for number, stack in enumerate(traced.stacks):
        kind = traced.entered(stack)
        axes = ("batch", sizes.get(kind.fed, kind.fed), width_of[kind.name])
        states += [float_port(name, *axes) for name in traced.states_of(number)]
    states += [states[0].model_copy(update={"name": name}) for name in traced.last_states]
    outputs = (*answers, *weights, *values, *states)
    return Plan("attention", traced, inputs, outputs, len(weights), upper_bounds or {}, len(answers))


def derived_plans(traced: Traced, base: Plan, sizes: dict[str, int]) -> tuple[Plan, ...]:
    """Plan what is derived from the base graph: attention, the prediction alone, and each method with a graph."""
    plans = [
        _attention_plan(traced, base, sizes),
        dataclasses.replace(base, role="predict", outputs=base.outputs[: base.answers]),
    ]
    alone = _answering_alone(base)
    makers: dict[GradientMethod, PlanMaker] = {
        "relevance": _relevance_plan,
        "libra": _libra_plan,
        "integrated": _integrated_plan,
    }
    for method, plan in makers.items():
        if explained := traced.explained(method):
            plans.append(plan(traced, alone, explained, sizes))
    if traced.attentions:
        plans.append(_inside_plan(traced, alone, sizes))
    return tuple(plans)


def _answering_alone(base: Plan) -> Plan:
    """Return the plan of a base graph that is not asked at which tokens it answers: at the one that is explained."""
    answers = [
        port.model_copy(update={"axes": tuple(1 if axis == ANSWERED else axis for axis in port.axes)})
        for port in base.outputs[: base.answers]
    ]
    plan = base.without_ports({ANSWERED}, ())
    return dataclasses.replace(plan, outputs=(*answers, *base.outputs[base.answers :]))


def _attention_plan(traced: Traced, base: Plan, sizes: dict[str, int]) -> Plan:
    """Plan the graph of the answers, the maps that its controls ask for, and diagnostics."""
    own, outputs, states = [], [], []
    for kind in traced.kinds:
        name, key = kind.name, sizes.get(kind.fed, kind.fed)
        shown = f"{name}.key" if kind.carried else key  # rollout has other keys than what it is made of
        own += [Port(name=f"{name}.{what}", dtype="int64", axes=(f"{name}.{what}",)) for what in SELECTION_CONTROLS]
        if "rollout" in kind.methods and not kind.windows:
            own.append(Port(name=f"{name}.discard", dtype="int64", axes=()))
            if kind.has_sinks:
                own.append(float_port(f"{name}.sinks"))
        own.append(Port(name=f"{name}.special", dtype="bool", axes=("batch", key)))
        outputs.append(float_port(name, "batch", f"{name}.head", f"{name}.layer", f"{name}.row", shown))
        outputs.append(
            float_port(f"{name}.diagnostics", "batch", f"{name}.layers", f"{name}.heads", kind.query, "figure")
        )
        if kind.compares_states:
            own.append(Port(name=f"{name}.after", dtype="int64", axes=(f"{name}.after",)))
            width = base.outputs[-1].axes[-1]
            states.append(float_port(f"{name}.states", "batch", f"{name}.after", key, width))
    controls = [Port(name=name, dtype="int64", axes=()) for name in ("method", "fusion")]
    controls.append(Port(name="diagnose", dtype="bool", axes=()))
    inputs = (*base.inputs, *controls, *own)
    return dataclasses.replace(base, inputs=inputs, outputs=(*base.outputs[: base.answers], *outputs, *states))


def _relevance_plan(traced: Traced, base: Plan, explained: list[Kind], sizes: dict[str, int]) -> Plan:
    """Plan the graph of the answer and the relevance of the `explained` kinds."""
    controls = _score_controls(base)
    rows: str | int = 1
    if len(explained) == 1:
        rows, name = "rows", explained[0].kind
        controls.append(Port(name="rows", dtype="int64", axes=("batch", "rows")))
        # through windows, it is through all layers of the stages
        if (len(traced.kinds) == 1 or traced.pool) and not explained[0].windows:
            controls.append(Port(name=f"{name}.layers", dtype="int64", axes=(f"{name}.layers",)))
    keys = [traced.carried(kind).fed for kind in explained]
    found = zip(explained, (sizes.get(key, key) for key in keys), strict=True)
    maps = [float_port(kind.name, "batch", rows, key) for kind, key in found]
    inputs = (*base.inputs, *controls)
    return Plan("relevance", traced, inputs, (base.outputs[0], *maps), base.attentions, base.upper_bounds)


def _libra_plan(traced: Traced, base: Plan, explained: list[Kind], sizes: dict[str, int]) -> Plan:
    """Plan the graph of the answer, balanced gradient x input, the biases and the score."""
    layers = traced.layers
    found = [float_port(kind.name, "batch", layers, sizes.get(kind.fed, kind.fed)) for kind in explained]
    outputs = (base.outputs[0], *found, float_port("biases", "batch", layers), float_port("score", "batch"))
    return Plan("libra", traced, (*base.inputs, *_score_controls(base)), outputs, base.attentions, base.upper_bounds)


def _integrated_plan(traced: Traced, base: Plan, explained: list[Kind], sizes: dict[str, int]) -> Plan:
    """Plan the graph of gradient times difference at one point between a baseline and the input, and of the score."""
    embedded = [port for port in base.inputs if port.name in EMBEDDED]
    blanks = [port.model_copy(update={"name": f"{BASELINE}{port.name}"}) for port in embedded]
    points = [float_port(name, "batch") for name in ("blank", "point")]
    found = [float_port(kind.name, "batch", sizes.get(kind.fed, kind.fed)) for kind in explained]
    inputs = (*base.inputs, *_score_controls(base), *blanks, *points)
    bounds = {f"{BASELINE}{port.name}": base.upper_bounds.get(port.name, 256) for port in embedded}
    outputs = (*found, float_port("score", "batch"))
    before = [name for kind in traced.kinds for name in kind.maps if name.startswith(traced.before)]
    attentions = base.attentions + len(before)  # of the input, and of the baseline
    return Plan("integrated", traced, inputs, outputs, attentions, {**base.upper_bounds, **bounds}, answers=0)


def _inside_plan(traced: Traced, base: Plan, sizes: dict[str, int]) -> Plan:
    """Plan the graph of what each head makes of one query and one key."""
    controls, outputs = [index_port("query"), index_port("key")], []
    for kind in traced.kinds:
        name, keys, part = kind.name, sizes.get(kind.fed, kind.fed), traced.attentions[kind.maps[0]]
        layers = f"{name}.layers"
        controls.append(Port(name=layers, dtype="int64", axes=(layers,)))
        width = part.query.out_features // part.heads
        last = {what: width if what in ("query", "key", "value", "sum") else keys for what in INSIDE}
        outputs += [float_port(f"{name}.{what}", "batch", kind.heads, layers, axis) for what, axis in last.items()]
    inputs = (*base.inputs, *controls)
    return Plan("inside", traced, inputs, tuple(outputs), base.attentions, base.upper_bounds, answers=0)


def saliency_plans(traced: Traced, base: Plan, rule: ImageRule) -> tuple[Plan, ...]:
    """Plan the graph of what stands out in a picture, if a kind has that method."""
    kind = next((one for one in traced.kinds if SALIENCY in one.methods), None)
    if kind is None:
        return ()
    inputs = tuple(port for port in base.inputs if port.name in ("pixels", SHOWN))
    outputs = (float_port(kind.name, "batch", kind.length),)
    return (Plan(SALIENCY, SalientCells(rule, kind), inputs, outputs, attentions=0, answers=0),)


def in_colour(kind: Kind, rule: ImageRule) -> Kind:
    """Return a kind with the method `saliency`, if pictures have three channels and are large enough."""
    if rule.channels == 1 or not scales_of(rule.height, rule.width):
        return kind
    return kind.model_copy(update={"methods": (*kind.methods, SALIENCY)})


def _score_controls(base: Plan) -> list[Port]:
    """Return the inputs that say which score is explained: a logit, a difference of two, or a cosine."""
    answer = base.outputs[0]
    if answer.name == EMBEDDINGS:
        return [float_port("other", *answer.axes), float_port("kept", *answer.axes)]
    controls = [index_port("explained"), index_port("against")]
    if len(answer.axes) > 2:
        controls.append(index_port("position"))
    return controls


def encoder_kind(layers: int, heads: int, axis: str, prefix: int, grid: tuple[int, int] | None = None) -> Kind:
    """Return the self-attention of an encoder over an axis, which begins with `prefix` tokens that are no patches."""
    states = [method for method in STATE_METHODS if grid or method != "parts"]  # which are coloured over an image
    path = "encoder.blocks.{}.attention"
    kind = attention_kind("encoder", path, layers, heads, axis, axis, *GRADIENT_METHODS, *states)
    return kind.model_copy(update={"prefix": prefix, "grid": grid})


def attention_kind(sort: Sort, path: str, layers: int, heads: int, query: str, key: str, *more: Method) -> Kind:
    """Return a kind of attention, named as its sort, whose maps stand at a path with `{}` for the layer.

    It has `more` methods than those of its sort.
    """
    maps = tuple(path.format(layer) for layer in range(layers))
    methods: tuple[Method, ...] = ("raw", "norm") if sort == "cross" else ("raw", "rollout", "norm")
    return Kind(
        name=sort, kind=sort, maps=maps, heads=heads, query=query, key=key, normalized=True, methods=(*methods, *more)
    )


def answer_port(model: Answering, task: Task, *axes: str) -> Port:
    """Return the port of what the head returns."""
    return float_port(NAMES.get(task, "logits"), *axes, model.width)


def token_port(name: str, axis: str | None = None) -> Port:
    """Return a port of integers (batch, axis), the axis named as the port unless given."""
    return Port(name=name, dtype="int64", axes=("batch", axis or name))


def visible_port(axis: str) -> Port:
    """Return the port of the mask (batch, axis) that is True where there is a token."""
    return Port(name=f"{axis}_visible", dtype="bool", axes=("batch", axis))


def index_port(name: str) -> Port:
    """Return a port of one integer per row."""
    return Port(name=name, dtype="int64", axes=("batch",))


def float_port(name: str, *axes: int | str) -> Port:
    """Return a port of single floats."""
    return Port(name=name, dtype="float32", axes=axes)
