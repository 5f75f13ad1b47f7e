"""The attention graph: the base graph, extended by nodes that compute maps and diagnostics from its weights."""

import onnx

from contract.input_rules import ImageRule
from contract.manifest import IMAGE_VISIBLE
from export.graphs.editing.base_graph import copy_base
from export.graphs.editing.builder import FLOAT
from export.graphs.editing.cleanup import prune
from export.graphs.maps.attention_maps import MapsBuilder, copy_if_selected, states_after_layers
from export.graphs.maps.windowed_maps import WindowedMapsBuilder
from export.plan import Plan
from export.traced.base import Traced


def attention_graph(base: onnx.ModelProto, plan: Plan, traced: Traced, image: ImageRule | None) -> onnx.ModelProto:
    """Extend the base graph to the attention graph: the answers, and the maps that its controls ask for."""
    graph, b, _ = copy_base(base, plan, "read.")
    axes = {port.name: port.axes for port in plan.outputs}
    selected = copy_if_selected(graph, b, traced)
    visible = next((port.name for port in plan.inputs if port.name == IMAGE_VISIBLE), None)
    windowed: dict[str, WindowedMapsBuilder] = {}
    for kind in traced.kinds:
        projections = [weight.numpy() for weight in traced.output_projections(kind)]
        maps = MapsBuilder(b, kind, selected, projections, image, visible if kind.averages else None)
        if kind.windows:
            before = [windowed[one.name] for one in traced.stages(kind)[:-1]]
            maps = windowed[kind.name] = WindowedMapsBuilder(b, kind, selected, projections, image, before)
        b.output(kind.name, maps.maps(axes[kind.name]), FLOAT, axes[kind.name])
        name = f"{kind.name}.diagnostics"
        b.output(name, maps.diagnostics(), FLOAT, axes[name])
    for kind in (one for one in traced.kinds if one.compares_states):
        states = f"{kind.name}.states"
        b.output(states, states_after_layers(b, traced), FLOAT, axes[states])
    return prune(graph, plan)
