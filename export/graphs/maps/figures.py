"""The figures of a head, of one layer: what diagnostics say of its weights."""

import numpy as np

from contract.input_rules import ImageRule
from contract.manifest import Kind
from export.graphs.editing.builder import Builder
from export.plan import patch_centres


def distributions(b: Builder, kind: Kind, weights: str) -> str:
    """Return weights as distributions: as they are or, if not normalised, `explanations.shares` of them."""
    if kind.normalized:
        return weights
    size = b.op("Abs", weights)
    return b.op("Div", size, b.op("Max", b.reduce("ReduceSum", size, 3), b.constant(1e-30, np.float32)))


def patch_distances(b: Builder, kind: Kind, image: ImageRule | None) -> str | None:
    """Return the distances between patches (patch, patch), in pixels of the model's input; None without patches."""
    if not image or not kind.grid or kind.query != kind.key:
        return None
    centres = patch_centres(kind.grid, image)
    apart = np.linalg.norm(centres[:, None] - centres, axis=-1)
    return b.constant(apart, np.float32)


def sink(b: Builder, kind: Kind, weights: str) -> str:
    """Return `explanations.sink` of each head, (batch, heads, 1, 1)."""
    columns = b.reduce("ReduceMean", weights, 2)
    ends = ([kind.patches.start], [kind.patches.stop], [3])
    return b.reduce("ReduceMax", b.op("Slice", columns, *map(b.constant, ends)), 3)


def distance(b: Builder, kind: Kind, weights: str, apart: str) -> str:
    """Return the mean attention distance of each query, (batch, heads, query, 1); 0 of tokens that are no patches."""
    prefix = kind.prefix
    end = kind.patches.stop if kind.suffix else np.iinfo(np.int64).max
    among = b.op("Slice", weights, *(b.constant(ends) for ends in ([prefix, prefix], [end, end], [2, 3])))
    total = b.op("Max", b.reduce("ReduceSum", among, 3), b.constant(1e-30, np.float32))
    mean = b.op("Div", b.reduce("ReduceSum", b.op("Mul", among, apart), 3), total)
    return b.op("Pad", mean, b.constant([0, 0, prefix, 0, 0, 0, kind.suffix, 0]), b.constant(0, np.float32))
