"""Attention as a table: a row for each token or patch, a column for each method; drawn with bars in a terminal."""

from __future__ import annotations

import html
import importlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from regard import axes
from regard.errors import BadInput, NotInstalled, checked
from regard.maps import Looked
from regard.terminal import harmless

PLACES = ("of", "text", "start", "end", "row", "column", "layer", "head", "input", "first", "second")
"""Columns that say what a row of the table is; all others are numbers, such as those of methods."""
NAMES = ("of", "text", "row", "column", "layer", "head", "input", "first", "second")
"""Those that are printed."""
MOST_LINES = 40
"""A table of more rows is printed without its smallest."""
LEAST = 0.0005
"""And without those that would be printed as 0."""
BAR = 20
"""Letters of the longest bar."""
EIGHTHS = "▏▎▍▌▋▊▉█"
AGAINST = "▒"


class Table(list[dict[str, Any]]):
    """Rows as dictionaries. In a terminal it is drawn with bars: `print(answer.table("libra"))`.

    Of a text, a row is a token: `text`, `start` and `end` in characters (None of special tokens). Of a picture it is a
    patch: `row` and `column`. Of a map with several rows, `of` is what looks, or what is explained. Each method has a
    column in shares: a value over the sum of the sizes of all values of its row, with its sign.
    """

    @property
    def methods(self) -> list[str]:
        """The columns of numbers."""
        return [name for name in (self[0] if self else ()) if name not in PLACES]

    def to_pandas(self) -> Any:  # noqa: ANN401 # a DataFrame, where pandas is
        """Return a `pandas.DataFrame`. Raises NotInstalled without pandas."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise NotInstalled("to_pandas: needs pandas; pip install pandas") from error
        return pandas.DataFrame(list(self))

    def __str__(self) -> str:
        names = [name for name in NAMES if self and name in self[0]]
        kept = _largest(self, self.methods)
        columns = {method: [row[method] for row in self] for method in self.methods}
        most = {method: max(map(_size, column)) for method, column in columns.items()}
        sign = {method: "+" if min(column) < 0 else "" for method, column in columns.items()}
        cells = [[_shown(row[name]) for name in names] for row in kept]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(
                [
                    *(cell.ljust(width) for cell, width in zip(named, widths, strict=True)),
                    *(
                        f"{row[method]:{sign[method]}6.3f} {bar(row[method], most[method]):{BAR}}"
                        for method in self.methods
                    ),
                ]
            ).rstrip()
            for named, row in zip(cells, kept, strict=True)
        ]
        head = f"{'':{sum(widths) + 2 * len(widths)}}" + "".join(f"{method:{BAR + 9}}" for method in self.methods)
        left = [f"and {len(self) - len(kept)} smaller"] if len(kept) < len(self) else []
        return "\n".join([head.rstrip(), *lines, *left])

    def __repr__(self) -> str:
        return f"<table of {len(self)} rows: {', '.join(self[0] if self else ())}>"

    def _repr_html_(self) -> str:
        names = list(self[0] if self else ())
        return as_html(names, ([_number(row[name]) for name in names] for row in self))


def as_html(names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table of HTML, whose contents are escaped."""

    def line(tag: str, cells: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line('th', names)}{''.join(line('td', cells) for cells in rows)}</table>"


def table_of(
    looks: Mapping[str, Looked],
    *,
    map: int | None = None,  # noqa: A002 # the word of the interface
    head: int | None = None,
    row: int | None = None,
    object: int | None = None,  # noqa: A002 # as above
) -> Table:
    """Return the table of what several methods found in one input.

    Without `map` it is the first of the last kind, such as `cross`; without `head` the mean of the heads; without `row`
    or `object` all rows. Raises BadInput if methods have other rows or columns than the first, or there is no such map.
    """
    places: list[dict[str, Any]] = []
    columns: dict[str, list[float]] = {}
    for method, look in looks.items():
        own, columns[method] = _column(look, map, head, row, object)
        places = places or own
        if own != places:
            raise BadInput(
                f"methods: must have the same rows and columns, given {method} with others; "
                "name kind, map or row, or ask for one"
            )
    return Table({**place, **{name: column[at] for name, column in columns.items()}} for at, place in enumerate(places))


def _column(
    look: Looked,
    map: int | None,  # noqa: A002 # as above
    head: int | None,
    row: int | None,
    object: int | None,  # noqa: A002 # as above
) -> tuple[list[dict[str, Any]], list[float]]:
    """Return what each row of the table is, and its share."""
    if map is None and object is None:
        one, chosen = axes.maps_of(look)[0], row
    else:
        one, chosen = look._chosen(map, row, object)
    values = one.values.mean(0) if head is None else one.values[checked("head", head, len(one.values))]
    names = axes.rows(look, one)
    picked = range(len(values)) if chosen is None else [checked("row", chosen, len(values)) % len(values)]
    sizes = np.abs(values).sum(1, keepdims=True, dtype=np.float64)
    shares = values / np.where(sizes == 0, 1, sizes)  # (queries, keys)
    places = axes.columns(look, one)
    kept = [at for at, place in enumerate(places) if place.cell] or range(len(places))
    pairs = [(at, key) for at in picked for key in kept]
    several = len(picked) > 1
    return (
        [{**({"of": names[at]} if several else {}), **places[key].fields} for at, key in pairs],
        [float(shares[pair]) for pair in pairs],
    )


def bar(share: float, most: float) -> str:
    """Return a bar, as long as a share is of the largest; what is below zero is drawn in grey."""
    eighths = round(_size(share) / most * BAR * 8) if most else 0
    if share < 0:
        return AGAINST * round(eighths / 8)
    return EIGHTHS[-1] * (eighths // 8) + (EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")


def _size(value: float) -> float:
    """Return the size of a number; 0 of none (NaN)."""
    return 0.0 if math.isnan(value) else abs(value)


def _largest(rows: Table, methods: list[str]) -> list[dict[str, Any]]:
    """Return the rows that are printed, in their order: those with the largest values of any method."""
    sizes = [max((_size(row[method]) for method in methods), default=0.0) for row in rows]
    if len(rows) <= MOST_LINES:
        return rows
    kept = sorted(range(len(rows)), key=lambda at: -sizes[at])[:MOST_LINES]
    return [rows[at] for at in sorted(kept) if sizes[at] >= LEAST]


def _shown(value: object) -> str:
    """Return a name as a terminal may have it, with spaces that are seen."""
    text = str(value)
    return harmless(text.replace(" ", "␣") if text.isspace() else text).replace("\n", "\\n").replace("\t", "\\t")


def _number(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else value
