"""What a request wants to see, how large it is, and reading it out of the maps.

`raw` picks; `rollout` follows attention through the layers (Abnar & Zuidema 2020, arXiv 2005.00928).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from contract.manifest import Kind, Manifest
from service.errors import TooLarge, Unacceptable
from service.options import AttentionOptions, Indices

Maps: TypeAlias = npt.NDArray[np.float32]
Fusion = Literal["mean", "max", "min"]
FUSE: dict[str, Callable[..., Maps]] = {"mean": np.mean, "max": np.max, "min": np.min}

METHODS = ("raw", "rollout")
MAP_BYTES = 256  # of an answer, a map without its values
ROW_BYTES = 2  # brackets
TOKEN_BYTES = 64  # of a text's axis, each token with its span


@dataclass(frozen=True)
class Wanted:
    """One kind of map, resolved against the model: layers and heads by number, rows as asked."""

    kind: Kind
    layers: tuple[int, ...]
    heads: tuple[int, ...] | Fusion
    queries: Indices | Literal["cls"]

    def rows(self, length: int) -> list[int]:
        """Return the rows asked for of a map with `length` queries. Raises Unacceptable for one it does not have."""
        if self.queries == "cls":
            return [0]
        return select("queries", self.queries, length)


@dataclass(frozen=True)
class Ask:
    """An attention request that the model can serve."""

    method: Literal["raw", "rollout"]
    wanted: tuple[Wanted, ...]
    digits: int

    def size(self, lengths: Mapping[str, int]) -> int:
        """Return the bytes that the answer for one input will have at most, from the lengths of its axes."""
        total = 0
        for one in self.wanted:
            maps = 1 if self.method == "rollout" else len(one.layers)
            heads = 1 if isinstance(one.heads, str) or self.method == "rollout" else len(one.heads)
            rows = len(one.rows(lengths[one.kind.query]))
            value = self.digits + 3  # "0.", the digits and a comma
            total += maps * (MAP_BYTES + heads * rows * (ROW_BYTES + lengths[one.kind.key] * value))
        return total + TOKEN_BYTES * sum(length for axis, length in lengths.items() if axis != "image")

    def check_size(self, lengths: Sequence[Mapping[str, int]], limit: int) -> None:
        """Raise TooLarge if the answer for inputs of these lengths would pass the limit."""
        size = sum(self.size(one) for one in lengths)
        if size > limit:
            raise TooLarge(
                f"attention: at most {limit} bytes an answer, this one would have {size}; "
                "ask for fewer layers, heads, queries, digits or inputs, or for rollout"
            )

    def read(self, stacks: Mapping[str, Maps]) -> list[dict[str, object]]:
        """Return the maps of one input from its stacks, (layers, heads, query, key) a kind, without padding."""
        read = _rollout if self.method == "rollout" else _raw
        return [
            {**entry, "shape": list(values.shape), "values": np.ascontiguousarray(values.round(self.digits))}
            for one in self.wanted
            for entry, values in read(one, stacks[one.kind.kind])
        ]


def resolve(options: AttentionOptions, manifest: Manifest) -> Ask:
    """Hold options against the model. Raises Unacceptable, with the reason, for what it cannot serve."""
    if options.method not in METHODS or options.target is not None:
        what = "target" if options.method in METHODS else f"method {options.method}"
        raise Unacceptable(f"{what}: this model serves {', '.join(METHODS)}, and neither takes a target")
    if options.format != "json":
        raise Unacceptable("format: must be json, given another")
    kinds = [kind for kind in manifest.attention if options.kind in (None, kind.kind)]
    if not kinds:
        has = ", ".join(kind.kind for kind in manifest.attention)
        raise Unacceptable(f"kind: this model has {has}, given {options.kind}")
    if options.method == "rollout":
        if not _fuses(options.heads):
            raise Unacceptable("heads: rollout fuses them, by mean, max or min")
        kinds = [kind for kind in kinds if rollable(kind)]
        if not kinds:
            raise Unacceptable("method rollout: needs maps of tokens onto themselves whose rows sum to one")
    return Ask(
        "rollout" if options.method == "rollout" else "raw",
        tuple(_want(kind, options) for kind in kinds),
        options.digits,
    )


def rollable(kind: Kind) -> bool:
    """Is rollout defined: do tokens look at themselves, with rows that sum to one."""
    return kind.kind != "cross" and kind.normalized


def _want(kind: Kind, options: AttentionOptions) -> Wanted:
    layers: Indices = options.layers
    if layers is None:
        layers = "all" if options.method == "rollout" else (-1,)
    if options.queries == "cls" and not kind.prefix:
        raise Unacceptable("queries: cls needs a class token, and this model has none; ask for all or for indices")
    return Wanted(
        kind,
        tuple(select("layers", layers, len(kind.maps))),
        options.heads if _fuses(options.heads) else tuple(select("heads", options.heads, kind.heads)),
        options.queries if options.queries is not None else "cls" if kind.prefix else "all",
    )


def _fuses(heads: object) -> bool:
    return isinstance(heads, str) and heads in FUSE


def select(subject: str, indices: Indices, count: int) -> list[int]:
    """Return the indices, in 0 to count - 1. Raises Unacceptable for one out of range or a range without any."""
    if indices == "all":
        return list(range(count))
    if isinstance(indices, slice):
        chosen = list(range(count))[indices]
        if not chosen:
            raise Unacceptable(f"{subject}: a range must hold some of the {count} there are, given one that holds none")
        return chosen
    for index in indices:
        if not -count <= index < count:
            raise Unacceptable(f"{subject}: must be from {-count} to {count - 1}, given {index}")
    chosen = [index % count for index in indices]
    if len(set(chosen)) < len(chosen):
        raise Unacceptable(f"{subject}: each may be given once, given one twice")
    return chosen


def _raw(wanted: Wanted, stack: Maps) -> list[tuple[dict[str, object], Maps]]:
    rows = wanted.rows(stack.shape[2])
    found: list[tuple[dict[str, object], Maps]] = []
    for layer in wanted.layers:
        chosen = stack[layer][:, rows]  # (heads, rows, keys)
        if isinstance(wanted.heads, str):
            values = FUSE[wanted.heads](chosen, axis=0, keepdims=True)
            shown: object = wanted.heads
        else:
            values = chosen[list(wanted.heads)]
            shown = list(wanted.heads)
        name = wanted.kind.maps[layer]
        normalized = wanted.kind.normalized and wanted.heads not in ("max", "min")
        entry: dict[str, object] = {"name": name, "kind": wanted.kind.kind, "layer": layer, "heads": shown}
        found.append((entry | {"normalized": normalized}, values))
    return found


def _rollout(wanted: Wanted, stack: Maps) -> list[tuple[dict[str, object], Maps]]:
    """Multiply (fused heads + identity), rows made to sum to one, from the first chosen layer to the last."""
    assert isinstance(wanted.heads, str)  # noqa: S101 # resolve() saw to it
    rows = wanted.rows(stack.shape[2])
    joint = np.eye(stack.shape[2])[rows]  # (rows, keys): only the rows asked for are carried through
    for layer in sorted(wanted.layers, reverse=True):
        mixed = FUSE[wanted.heads](stack[layer].astype(np.float64), axis=0) + np.eye(stack.shape[2])
        joint = joint @ (mixed / mixed.sum(axis=-1, keepdims=True))
    entry: dict[str, object] = {
        "name": wanted.kind.kind,
        "kind": wanted.kind.kind,
        "layer": None,
        "layers": sorted(wanted.layers),
        "heads": wanted.heads,
        "normalized": True,
    }
    return [(entry, joint[None].astype(np.float32))]
