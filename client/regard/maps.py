"""What a model looked at, as arrays: maps, what stands beside them, and heat over the picture that was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from regard.errors import BadInput, checked
from regard.heat import Box, scaled, spread
from regard.objects import Detected
from regard.overlays import OPACITY, Ground, laid_over

KindName: TypeAlias = str
Array: TypeAlias = npt.NDArray[np.float32]
Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Token:
    """A token of a text, or a word of several; or a node of a graph, whose text is its type."""

    text: str
    span: tuple[int, int] | None
    """Where it stands in the text, in Unicode code points, or in the list of nodes; None of special tokens."""
    special: bool
    sequence: int | None = None
    """In a pair of texts, the one that it is in: 0 or 1."""


@dataclass(frozen=True, eq=False)
class SentGraph:
    """A graph as the service read it, and where its nodes may be drawn."""

    directed: bool
    edges: npt.NDArray[np.intp]
    """(edges, 3): from which node, to which, and the number of the type."""
    places: npt.NDArray[np.float64]
    """(nodes, 2): across and down, from 0 to 1. A virtual node has none."""


@dataclass(frozen=True)
class Sink:
    """A head that gives most of its attention to one patch, whichever token asks."""

    layer: int
    head: int
    share: float


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Figures of every head of one kind of attention: means over its rows."""

    kind: KindName
    max_entropy: float
    """Of a row that looks everywhere alike, in nats."""
    heads: Mapping[str, npt.NDArray[np.float64]]
    """(layers, heads) each: `entropy` in nats, `special` weight on special tokens, `distance` in pixels, ..."""
    sinks: Sequence[Sink] = ()


@dataclass(frozen=True)
class Curve:
    """How a score falls or rises as parts of an input are taken away or put back in the order of a map."""

    method: str
    """The order: that of a method's map, or `random`, once for each of the orders asked for."""
    name: Literal["deletion", "insertion"]
    values: npt.NDArray[np.float64]
    """One for each of the evaluation's `fractions`."""
    area: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Whether a map is worth anything: its curves beside those of a random order."""

    measure: str
    """`probability`, `score` or `cosine`."""
    fractions: npt.NDArray[np.float64]
    curves: Sequence[Curve]
    target: Json | None = None


@dataclass(frozen=True, eq=False)
class Map:
    """The attention map of one module, or of several layers combined."""

    name: str
    kind: KindName
    layer: int | None
    """None where layers are combined."""
    heads: str | Sequence[int] | None
    """How heads were fused, or their numbers; None of states, which have none."""
    normalized: bool
    """True if each row sums to one."""
    signed: bool
    """True if values are shares of a score, which speak for it or against it."""
    values: Array = field(repr=False)
    """(heads, queries, keys); of `parts` (red, green and blue, 1, keys)"""
    target: Json | None = None
    """The class, mask or object that is explained."""
    objects: Sequence[int] = ()
    """Of a detector: the number of each row's object; none where rows are others, or were asked for by number."""
    targets: Sequence[Json] = ()
    """The generated tokens that the rows explain."""
    grid: tuple[int, int] | None = None
    """Rows and columns of the patches of its columns, where stages of a model have different ones."""
    details: Json = field(default_factory=dict, repr=False)
    """All that the service says of the map but its values: `conserved`, `completeness`, `against`, `pool`, ..."""

    @property
    def rests_on(self) -> Mapping[str, npt.NDArray[np.float64]]:
        """What generated tokens rest on, by libra or integrated: the shares (token,) of each part, which add up to 1.

        Parts are the `source`, the `prefix` that was generated before a token and the `start`; of a chat
        `instructions` and `context` in place of the source, and its `template`.
        """
        parts = [target.get("parts", {}) for target in self.targets]
        names = {name: None for own in parts for name in own}  # in their order
        return {name: np.array([own.get(name, {}).get("share", 0.0) for own in parts]) for name in names}

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype) if copy else np.asarray(self.values, dtype)

    def __repr__(self) -> str:
        return f"<map {self.name}: values {self.values.shape}, heads, queries, keys>"


@dataclass(frozen=True, eq=False)
class Looked:
    """The maps of one input, and what their rows and columns are."""

    method: str
    maps: Sequence[Map]
    tokens: Mapping[str, Sequence[Token]]
    """Of texts, by axis: `source`, `target` (what each row emitted), `target_input` (what each row was fed); `node`."""
    grid: tuple[int, int] | None = None
    """Of an image: rows and columns of patches."""
    prefix: int = 0
    """Of an image: tokens before the first patch."""
    size: tuple[int, int] | None = None
    """Of an image: its width and height as people see it, upright."""
    orientation: int = 1
    """Of an image: the EXIF value by which its stored pixels are turned."""
    box: Box | None = None
    """Of an image: the rectangle (left, top, right, bottom) that the grid covers, in pixels of the upright image."""
    step: float | None = None
    """Of a sound: the seconds of a frame; column `n` of a map over frames begins at `n * step`."""
    graph: SentGraph | None = None
    """Of a graph: its edges, and where its nodes may be drawn."""
    objects: Sequence[Detected] = ()
    """Of a detector: all that it looks for, by number, found or not."""
    diagnostics: Sequence[Diagnosis] = ()
    evaluation: Evaluation | None = None
    against: Looked | None = None
    """That of the other input: where both sides of an embedding were asked for, or two inputs' states are compared."""
    json: Json = field(default_factory=dict, repr=False)
    """The answer as the service sent it."""

    def heat(
        self,
        *,
        map: int | None = None,  # noqa: A002 # the word of the interface
        head: int | None = None,
        row: int | None = None,
        object: int | None = None,  # noqa: A002 # as above
        smooth: bool = True,
        upright: bool = True,
        outside: float = np.nan,
        scale: bool = False,
    ) -> Array:
        """Return a map as heat over the picture: (height, width), as large as the picture that was sent.

        Resizing and cropping are undone, and the picture stands upright: the value at a pixel is that of the patch
        which covers it, `smooth` between the middles of patches. Pixels that the model did not see are `outside`. With
        `upright=False` the array is turned as the file stores its pixels, as Pillow shows them if nothing turns them.
        With `scale` values go from 0 to 1, or where they are signed from -1, by the rule of the service's pictures, by
        which a few large ones do not leave all others cold.

        `map` chooses among `maps`, such as one for each target; without it, it is the first, of stages that of the last
        stage. Without `head`, it is the mean of the heads. Without `row`, it is the only row, or the mean over patches
        that look; of a map with a row for each word, `row` must be given. Relevance is without the identity that its
        rows start from where the map has a row for each token (`queries="all"`), and with it otherwise. `object` is the
        number of a detector's object: it chooses the row that is the object's, and `map` among the maps that have one.
        Raises BadInput if the input was no image or there is no such map, head, row or object.
        """
        if self.grid is None or self.size is None or self.box is None:
            raise BadInput("heat: must be of an image, given the attention of another; maps[0].values has its numbers")
        if self.method == "parts":
            raise BadInput("heat: must be of one number a patch, given parts, which have colours; take colours()")
        one, row = self._chosen(map, row, object)
        patches = self._patches_of(one)
        if patches is None:
            raise BadInput("heat: must be of a map whose columns are all patches, given another, such as one with pool")
        heads = slice(None) if head is None else [checked("head", head, len(one.values))]
        values = one.values[heads].mean(0)  # (queries, keys)
        looks_from_patches = len(values) == one.values.shape[2]
        if self.method == "relevance" and looks_from_patches:
            values = (values - np.eye(len(values), dtype=values.dtype)).clip(0)
        if row is not None:
            values = values[checked("row", row, len(values))]
        elif len(values) > 1 and not looks_from_patches:
            which = "object: or row must be given, since the map has a row for each object"
            rule = f"row: must be given, 0 to {len(values) - 1}, since the map has a row for each word"
            raise BadInput(which if self.objects else rule)
        else:
            values = (values[patches] if looks_from_patches else values).mean(0)
        grid = values[patches].reshape(one.grid or self.grid)
        return spread(
            self._scaled(grid, one) if scale else grid, self.size, self.box,
            smooth=smooth, outside=outside, orientation=1 if upright else self.orientation,
        )  # fmt: skip

    def _scaled(self, grid: Array, one: Map) -> Array:
        """Return values as the service colours them: likeness from 0, and raw weights that may be negative by sign."""
        if self.method == "similar":
            return scaled(grid.clip(min=0), signed=False)
        return scaled(grid, signed=self._is_signed(one))

    def _is_signed(self, one: Map) -> bool:
        """Return whether a map is drawn in two colours, by the signs of its values."""
        alike = self.method == "similar" and not self.grid
        return one.signed or alike or (self.method == "raw" and not one.normalized)

    def overlay(
        self,
        picture: Image.Image,
        *,
        map: int | None = None,  # noqa: A002 # as above
        head: int | None = None,
        row: int | None = None,
        object: int | None = None,  # noqa: A002 # as above
        smooth: bool = True,
        opacity: float = OPACITY,
        ground: Ground = "grey",
    ) -> Image.Image:
        """Return the picture that was sent, upright, under heat, in the colours of the service.

        `map`, `head`, `row` and `object` choose as for `heat`. `ground` is what is under the heat: the picture in grey,
        or as it was sent (`photo`). Raises BadInput as `heat` does, and for a picture of another size.
        """
        if self.method == "parts":
            return laid_over(picture, self.colours(map=map or 0, smooth=smooth), opacity=opacity, ground=ground)
        heat = self.heat(map=map, head=head, row=row, object=object, smooth=smooth, scale=True)
        signed = self._is_signed(self._chosen(map, row, object)[0])
        return laid_over(picture, heat, signed=signed, opacity=opacity, ground=ground)

    def colours(
        self,
        *,
        map: int = 0,  # noqa: A002 # as above
        smooth: bool = True,
        upright: bool = True,
        outside: float = np.nan,
    ) -> Array:
        """Return the colours of `parts` over the picture: (height, width, 3), from 0 to 1.

        The words mean what they do for `heat`. Raises BadInput for what another method found.
        """
        if self.method != "parts" or self.grid is None or self.size is None or self.box is None:
            raise BadInput(f"colours: must be of parts, given {self.method}; take heat()")
        one = self.maps[checked("map", map, len(self.maps))]
        grids = one.values[:, 0, self._patches_of(one)].reshape(-1, *self.grid)
        turned = 1 if upright else self.orientation
        channels = [
            spread(grid, self.size, self.box, smooth=smooth, outside=outside, orientation=turned) for grid in grids
        ]
        return np.stack(channels, axis=-1)

    def _chosen(self, map: int | None, row: int | None, object: int | None) -> tuple[Map, int | None]:  # noqa: A002 # as above
        """Return the map of an index and the row that was asked for; with an object, among those that have its row."""
        if map is None:
            last = self.maps[-1].kind if self.maps and self.maps[0].grid and object is None else None
            map = next((at for at, one in enumerate(self.maps) if one.kind == last), 0)  # noqa: A001 # as above
        if object is None:
            return self.maps[checked("map", map, len(self.maps))], row
        if row is not None:
            raise BadInput("object: chooses the row, so row must be left out, given both")
        shown = [one for one in self.maps if object in one.objects and self._patches_of(one)]
        if not shown:
            raise BadInput(f"object: must be one that has a row over patches in these maps, given {object}")
        one = shown[checked("map", map, len(shown))]
        return one, one.objects.index(object)

    def _patches_of(self, one: Map) -> slice | None:
        """Return which columns of a map are patches; None if it has others, or not all."""
        rows, columns = one.grid or self.grid or (0, 0)
        end = self.prefix + rows * columns
        widths = (end, end + len(self.objects))  # objects may be tokens behind the patches
        return slice(self.prefix, end) if one.values.shape[2] in widths else None

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if len({one.values.shape for one in self.maps}) != 1:
            raise BadInput("attention: must have maps of one shape to be an array; take maps[n].values")
        return np.array([one.values for one in self.maps], dtype)  # (maps, heads, queries, keys)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{one.kind} {one.values.shape}" for one in self.maps)
        return f"<attention by {self.method}: {len(self.maps)} maps, heads, queries, keys: {shapes}>"
