"""The controls of an attention graph: made of an attention query and fed to the graph; and reading its outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from contract.manifest import FIGURES, FUSIONS, GRAPH_METHODS, Kind
from service.arrays import Array
from service.explanations.answer import AttentionMap
from service.explanations.query import AttentionQuery
from service.explanations.selection import KindQuery
from service.inputs.model_input import ModelInput

SINK = 0.5
"""A head is a sink if all rows together give one patch more than this share of its attention."""


@dataclass(frozen=True)
class KindControls:
    """The controls for one kind of map. `rows` is None for all rows."""

    kind: Kind
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    rows: tuple[int, ...] | None
    discard: int = 0
    """How many entries of a layer are set to 0."""
    sinks: float = 0.0
    """The largest sink of a head that is not left out; 0 leaves none out."""
    after: tuple[int, ...] = ()
    """The layers after which states are returned."""


@dataclass(frozen=True)
class GraphControls:
    """What the attention graph is asked for. Inputs with equal controls run in one batch."""

    method: str
    fusion: str
    diagnose: bool
    kinds: tuple[KindControls, ...]

    def feed(self, longest: Mapping[str, int], special: Mapping[str, Array]) -> dict[str, Array]:
        """Return the graph's inputs for a batch with these axis lengths; `special` marks tokens (batch, length)."""
        feed: dict[str, Array] = {
            "method": np.array(GRAPH_METHODS.index(self.method)),
            "fusion": np.array(FUSIONS.index(self.fusion)),
            "diagnose": np.array(self.diagnose),
        }
        for kind in self.kinds:
            name = kind.kind.name
            rows = range(longest[kind.kind.query]) if kind.rows is None else kind.rows
            feed[f"{name}.layers"] = np.array(kind.layers, np.int64)
            feed[f"{name}.heads"] = np.array(kind.heads, np.int64)
            feed[f"{name}.rows"] = np.array(rows, np.int64)
            feed[f"{name}.after"] = np.array(kind.after, np.int64)
            feed[f"{name}.discard"] = np.array(kind.discard)
            feed[f"{name}.sinks"] = np.array(kind.sinks, np.float32)
            feed[f"{name}.special"] = special[kind.kind.fed]
        return feed


def controls_of(query: AttentionQuery, lengths: Mapping[str, int]) -> GraphControls:
    """Return what to ask of the attention graph for an input with these axis lengths.

    Raises Unacceptable for rows that it does not have.
    """
    asked = {one.kind.name: one for one in query.kinds if query.rules.of_weights or query.by_states}
    method = query.method if query.rules.of_weights else "raw"
    heads = query.kinds[0].heads
    fused = isinstance(heads, str)
    return GraphControls(
        method=method,
        fusion={"sum": "mean"}.get(str(heads), str(heads)) if fused else "each",
        diagnose=query.options.diagnostics,
        kinds=tuple(_kind_controls(query, kind, asked.get(kind.name), lengths) for kind in query.model_kinds),
    )


def _kind_controls(
    query: AttentionQuery, kind: Kind, one: KindQuery | None, lengths: Mapping[str, int]
) -> KindControls:
    if one is None:
        return KindControls(kind, (0,), (), ())
    if query.by_states:
        return KindControls(kind, (0,), (), (), after=tuple(sorted(one.layers)))
    heads = () if isinstance(one.heads, str) else one.heads
    rows = query.rows(one, lengths)
    shift = query.shift(kind)
    every = rows == list(range(lengths[kind.query] - shift))
    # of the share as it is written: 0.29 of 100 is 29, and as floats less
    discard = int(Decimal(str(query.options.discard)) * lengths[kind.query] ** 2)
    chosen = None if every else tuple(row + shift for row in rows)
    return KindControls(kind, one.layers, heads, chosen, discard, SINK if query.options.sinks == "out" else 0.0)


def read_stacks(
    item: ModelInput, row: int, controls: GraphControls, out: Mapping[str, Sequence[Array]]
) -> dict[str, Array]:
    """Return one input's maps and figures without the padding of its batch."""
    stacks = {}
    for kind in controls.kinds:
        name, queries = kind.kind.name, item.lengths[kind.kind.query]
        keys = None if kind.kind.grid else item.lengths[kind.kind.fed]  # those of an image are never padded
        if kind.after:
            stacks[f"{name}.states"] = out[f"{name}.states"][row][:, :queries].copy()
        if not len(out[name]):  # no map is asked for, and the graph only predicts
            continue
        rows = queries if kind.rows is None else None
        own = out[name][row][:, :, :rows, :keys]
        stacks[str(name)] = own.copy() if len(out[name]) > 1 else own  # a view would keep the whole batch in memory
        if controls.diagnose:
            stacks[f"{name}.diagnostics"] = out[f"{name}.diagnostics"][row][:, :, :queries]
    return stacks


def read_maps(
    query: AttentionQuery, controls: GraphControls, lengths: Mapping[str, int], stacks: Mapping[str, Array]
) -> list[AttentionMap]:
    """Return the maps of one input from the graph's outputs, unpadded: (heads, layers, rows, keys) for each kind."""
    maps = []
    asked = {one.kind.name: one for one in controls.kinds}
    for kind in query.kinds:
        stack, rows = stacks[kind.kind.name], tuple(query.rows(kind, lengths))
        if asked[kind.kind.name].rows is None and query.shift(kind.kind):
            stack = stack[:, :, 1:]
        entry: dict[str, object] = {"name": kind.kind.name, "kind": kind.kind.name, "layer": None}
        heads = kind.heads if isinstance(kind.heads, str) else list(kind.heads)
        shown = query.shown(kind.kind)
        entry |= grid_entry(shown)
        if not query.rules.by_layer:
            entry |= {"layers": list(kind.layers), "heads": heads, "normalized": True}
            maps.append(AttentionMap(shown, entry, stack[:, 0], rows))
            continue
        normalized = query.rules.weights and kind.kind.normalized and heads not in ("max", "min")
        for layer in kind.layers:
            values = stack[:, sorted(kind.layers).index(layer)]
            named = {"name": kind.kind.maps[layer], "layer": layer, "heads": heads, "normalized": normalized}
            maps.append(AttentionMap(shown, entry | named, values, rows))
    return maps


def grid_entry(kind: Kind) -> dict[str, object]:
    """Return what a map says of its grid, if the grids of its model differ: rows and columns of its keys."""
    if not kind.windows or not kind.grid:
        return {}
    return {"grid": {"rows": kind.grid[0], "columns": kind.grid[1]}}


def read_diagnostics(
    query: AttentionQuery, stacks: Mapping[str, Array], visible: Array | None = None
) -> list[dict[str, object]]:
    """Return the figures of every layer and head, of stacks (layers, heads, queries, figures), unpadded.

    `visible` (cell) are the cells that begin in an image that was fitted in: the others look at nothing that counts,
    and nothing looks at them.
    """
    digits = query.options.digits
    shown = []
    for kind in query.model_kinds:
        figures = stacks[f"{kind.name}.diagnostics"].astype(np.float64)
        keys = stacks[kind.name].shape[-1]
        if visible is not None and kind.grid:
            keys = int(visible.sum())
        counted = np.ones(figures.shape[2], np.bool_) if visible is None or not kind.averages else visible
        exact = {
            name: figures[:, :, counted, index].mean(-1) for index, name in enumerate(FIGURES[: figures.shape[-1]])
        }
        means: dict[str, object] = {name: one.round(digits) for name, one in exact.items()}
        if "distance" in means:  # of patches; the tokens before and behind them have no place
            means["distance"] = figures[:, :, kind.patches][:, :, counted[kind.patches], 2].mean(-1).round(digits)
        most = round(float(np.log(max(min(kind.weights(1, keys), keys), 1))), digits)
        shown.append({"kind": kind.name, "max_entropy": most, **means, **_sinks(exact, digits)})
    return shown


def _sinks(figures: Mapping[str, Array], digits: int) -> dict[str, object]:
    """Return the heads that give most of their attention to one patch, if the figures tell."""
    if "sink" not in figures:
        return {}
    shares = figures["sink"]
    found = np.argwhere(shares > SINK).tolist()
    return {
        "sinks": [{"layer": at, "head": head, "share": round(float(shares[at, head]), digits)} for at, head in found]
    }
