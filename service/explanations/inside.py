"""One step inside attention: what is asked of it, and its answer, in which the numbers of each head add up.

A score is scale · Σ q·k + bias, a weight is exp(score) as a share of that of all keys, and what a head returns is the
sum of weight · v over all keys (Vaswani et al. 2017, equation 1).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contract.manifest import HIDDEN_SCORE, INSIDE, Kind, Manifest, was_left_out
from service.arrays import Array
from service.errors import TooLarge, Unacceptable
from service.explanations.selection import select
from service.inputs.model_input import Token
from service.options.inside import InsideOptions

NUMBER_BYTES = 10
"""Of a number in JSON beside its decimals: its sign, what stands before the point, and a comma."""
NO_GRAPH = (
    "this model's artifact has no graph of it; if all its attention is of scaled dot products between tokens, export "
    "it anew"
)
HEAD_BYTES = 192
"""Of a head's entry, without its numbers."""


@dataclass(frozen=True)
class InsideQuery:
    """What is asked of one layer of a kind of attention: a row and a column, by positions from 0."""

    kind: Kind
    layer: int
    query: int
    key: int
    digits: int


def resolve_inside(options: InsideOptions, manifest: Manifest, lengths: Mapping[str, int]) -> InsideQuery:
    """Return what options ask of an input with these axis lengths. Raises Unacceptable for what the model has not."""
    if "inside" not in manifest.graphs:
        left_out = was_left_out(manifest, "inside")
        reason = "was left out when this model was exported" if left_out else NO_GRAPH
        raise Unacceptable(f"inside: {reason}")
    kinds = {str(kind.name): kind for kind in manifest.attention}
    name = options.kind or (next(iter(kinds)) if len(kinds) == 1 else None)
    if name not in kinds:
        raise Unacceptable(f"kind: this model has {', '.join(kinds)}, given {'another' if name else 'none'}")
    kind = kinds[name]
    (layer,) = select("layer", (options.layer,), len(kind.maps))
    (query,) = select("query", (options.query,), lengths[kind.query])
    (key,) = select("key", (options.key,), lengths[kind.key])
    return InsideQuery(kind, layer, query, key, options.digits)


def check_inside_size(query: InsideQuery, manifest: Manifest, lengths: Mapping[str, int], limit: int) -> None:
    """Raise TooLarge if the answer for an input with these axis lengths may have more bytes than a limit."""
    ports = {port.name: port.axes[-1] for port in manifest.graphs["inside"].outputs}
    own = [ports[f"{query.kind.name}.{what}"] for what in INSIDE]
    numbers = sum(lengths[axis] if isinstance(axis, str) else axis for axis in own)
    size = query.kind.heads * (HEAD_BYTES + numbers * (query.digits + NUMBER_BYTES))
    if size > limit:
        raise TooLarge(f"inside: at most {limit} bytes an answer, this one may have {size}; ask for fewer digits")


def inside_answer(
    query: InsideQuery, found: Mapping[str, Array], axes: Mapping[str, Sequence[Token]]
) -> dict[str, object]:
    """Return the answer, of what the graph found by the names of `INSIDE`, each (head, numbers).

    `axes` holds the tokens of each axis that is a text. A hidden key has no score, which is NaN, and no bias.
    """
    exact = {what: found[what].astype(np.float64) for what in INSIDE}
    key, scores = query.key, np.where(exact["scores"] <= HIDDEN_SCORE, np.nan, exact["scores"])
    vectors = {what: exact[what].round(query.digits) for what in ("query", "key", "value", "sum")}
    rounded = scores.round(query.digits)
    cells = {
        "bias": (scores - exact["products"])[:, key].round(query.digits),
        "score": rounded[:, key],
        "weight": exact["weights"][:, key].round(query.digits),
    }
    heads = [
        {"head": head, **{name: one[head] for name, one in {**vectors, **cells, "scores": rounded}.items()}}
        for head in range(query.kind.heads)
    ]

    def place(axis: str, position: int) -> dict[str, object]:
        tokens = axes.get(axis)
        return {"position": position, **({"text": tokens[position].text} if tokens else {})}

    return {
        "kind": query.kind.name,
        "layer": query.layer,
        "query": place(query.kind.query, query.query),
        "key": place(query.kind.key, key),
        "scale": 1 / math.sqrt(exact["query"].shape[1]),
        "heads": heads,
    }
