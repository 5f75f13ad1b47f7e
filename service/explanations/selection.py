"""The parts of a kind of map that a request selects: its layers, heads and rows."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from contract.manifest import Kind
from service.errors import Unacceptable
from service.options.readers import Indices

Fusion: TypeAlias = Literal["mean", "max", "min", "sum"]
Rows: TypeAlias = Indices | Literal["cls", "mean", "found"]
"""Some rows; that of the class token; the mean of all; or those of the objects that are found."""
MEAN_ROW = -1
"""Stands among rows for the mean of all."""


@dataclass(frozen=True)
class Target:
    """What a gradient method explains: a class, or the token at a position of the answer; and the rows to read."""

    token: int
    """Class or token; a negative number stands for the likeliest."""
    rows: tuple[int, ...]
    """The rows that are read of relevance; of a token or an object, the row that it is at."""
    position: int = 0
    """Of a token or an object in the answer."""
    index: int | None = 0
    """Which mask, generated token, object or entity it is, counted as the client counts; None if it is no entity."""


@dataclass(frozen=True)
class KindQuery:
    """What a request asks of one kind of map: layers and heads by number, rows as the client wrote them."""

    kind: Kind
    layers: tuple[int, ...]
    heads: tuple[int, ...] | Fusion
    queries: Rows

    @property
    def maps_of_heads(self) -> int:
        """Number of maps of one layer: one where the heads are fused."""
        return 1 if isinstance(self.heads, str) else len(self.heads)

    def rows(self, length: int) -> list[int]:
        """Return the rows asked for of a map with `length` queries; of objects all, since none is found yet.

        Raises Unacceptable for a row that the map does not have.
        """
        if self.queries == "cls":
            return [0]
        if self.queries == "mean":
            return [MEAN_ROW]
        if self.queries == "found":
            return list(range(self.kind.first_object or 0, length))
        return select("queries", self.queries, length)


def rows_of(kind: Kind, queries: Rows | None) -> Rows:
    """Return the rows that a request asks for, by default those that stand for the answer.

    Raises Unacceptable for rows that this kind of map has not.
    """
    own = kind.query == kind.key  # the rows of what looks at patches are no patches
    has = {"cls": own and kind.prefix > 0, "mean": kind.averages, "found": kind.first_object is not None}
    if isinstance(queries, str) and not has.get(queries, True):
        raise Unacceptable(f"queries: {MISSING_ROWS[queries]}; ask for all or for indices")
    if queries is not None:
        return queries
    if kind.pooled == "last":
        return (-1,)
    names: tuple[Literal["found", "cls", "mean"], ...] = ("found", "cls", "mean")
    return next((name for name in names if has[name]), "all")


MISSING_ROWS = {
    "cls": "cls needs a class token, and this kind of map has no row of one",
    "mean": "mean is of the patches of images without a class token, and this kind of map is of others",
    "found": "found is of objects, and this kind of map has no rows of any",
}
"""Why a kind of map has not the rows of that name."""


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
