"""What the rows and columns of a map stand for: tokens, patches, objects, frames or nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.maps import Looked, Map

COLUMNS = {"encoder": ("source", "node"), "decoder": ("target_input",), "cross": ("source",)}
ROWS = {"encoder": ("source", "node"), "decoder": ("target",), "cross": ("target",)}
"""The axes of texts and graphs that a kind of map may have; the tokens of the first that it has are meant."""
ALL = "all"
"""The name of a row that stands for the whole answer."""


@dataclass(frozen=True)
class Place:
    """A column of a map."""

    name: str
    """The text of a token, or where it is: `2,3` of a patch, `0.40 s` of a frame."""
    start: float | None = None
    """Of a token in characters of its text, of a frame in seconds."""
    end: float | None = None
    cell: tuple[int, int] | None = None
    """Row and column of a patch."""

    @property
    def fields(self) -> dict[str, Any]:
        """The place as a row of a table has it."""
        if self.cell:
            return {"row": self.cell[0], "column": self.cell[1]}
        return {"text": self.name, "start": self.start, "end": self.end}


def maps_of(look: Looked) -> list[Map]:
    """Return the maps that are drawn: those of the last kind, as the service does, such as `cross`."""
    return [one for one in look.maps if one.kind == look.maps[-1].kind]


def columns(look: Looked, one: Map) -> list[Place]:
    """Return what each column of a map is."""
    count = one.values.shape[2]
    patches = look._patches_of(one)
    if patches is not None:
        across = (one.grid or look.grid or (1, 1))[1]
        cells = [divmod(at, across) for at in range(patches.stop - patches.start)]
        first = [Place(f"[{at}]") for at in range(patches.start)]
        seen = [Place(f"{row},{column}", cell=(row, column)) for row, column in cells]
        return first + seen + [Place(found.label) for found in look.objects][: count - patches.stop]
    if count == len(look.objects):
        return [Place(found.label) for found in look.objects]
    if look.step and not look.grid:
        return [Place(f"{at * look.step:.2f} s", at * look.step, (at + 1) * look.step) for at in range(count)]
    tokens = _tokens(look, COLUMNS, one.kind)
    if len(tokens) == count:
        return [Place(token.text, *(token.span or (None, None))) for token in tokens]
    return [Place(str(at)) for at in range(count)]


def rows(look: Looked, one: Map) -> list[str]:
    """Return what each row of a map is called: what looks, or what is explained."""
    count, details = one.values.shape[1], one.details
    if len(one.targets) == count:
        return [str(target["text"]) for target in one.targets]
    if len(one.objects) == count:
        labels = {found.object: found.label for found in look.objects}
        return [labels.get(number, str(number)) for number in one.objects]
    names = [token.text for token in _tokens(look, ROWS, one.kind)]
    if chosen := details.get("rows"):
        return [names[at] if at < len(names) else str(at) for at in chosen]
    if count == 1:
        return [str(one.target["label"]) if one.target and "label" in one.target else ALL]
    if count == one.values.shape[2] and not names:
        return [place.name for place in columns(look, one)]
    return names if len(names) == count else [str(at) for at in range(count)]


def title(look: Looked, one: Map, head: int | None = None) -> str:
    """Return what a map is of: its method and what it explains, or its kind, layer and head."""
    if one.target and "label" in one.target:
        other = one.details.get("against")
        rather = f" against {other['label']}" if other and "label" in other else ""
        return f"{look.method} of {one.target['label']}{rather}"
    heads = f"head {one.heads[head]}" if head is not None and not isinstance(one.heads, str | None) else ""
    layer = "" if one.layer is None or one.signed else f"layer {one.layer}"
    return ", ".join(filter(None, (look.method, one.kind if one.kind != "encoder" else "", layer, heads)))


def _tokens(look: Looked, axes: dict[str, tuple[str, ...]], kind: str) -> Sequence[Any]:
    """Return the tokens of the axis that a kind has; kinds of another name are an encoder's."""
    named = axes.get(kind, axes["encoder"])
    return next((look.tokens[axis] for axis in named if look.tokens.get(axis)), ())
