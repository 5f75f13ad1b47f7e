"""The attention answer to one input: its maps, what their axes stand for, and its forms: JSON, npz, PNG."""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from contract.input_rules import FRAMES
from contract.manifest import OBJECTS, Kind
from service.arrays import Array
from service.explanations import token_merging
from service.explanations.evaluation import Evaluation
from service.explanations.found_object import FoundObject
from service.explanations.pooling import pool
from service.explanations.query import AttentionQuery, image_kind
from service.explanations.relevance_identity import identity_rows
from service.inputs.model_input import Graph, Picture, Sound, Token

Values: TypeAlias = npt.NDArray[np.float32]
Diagnostics: TypeAlias = list[dict[str, object]]
"""Entropy and other figures of each kind's layers and heads."""

MOST_ERROR = 0.05
"""The largest share of a difference of scores that values along a path may miss."""
SMALLEST_RANGE = 1e-15
"""Bytes of a map are scaled as if the root of its largest value was this, if it is less, so that no scale is 0."""
LEVELS = 255
"""Of a byte, beside 0."""


@dataclass(frozen=True)
class AttentionMap:
    """One map: its kind, what JSON says of it, and its values (heads, rows, keys)."""

    kind: Kind
    entry: dict[str, object]
    values: Values
    rows: tuple[int, ...] | None
    """Positions of the rows on their axis; None where one row stands for the whole answer."""


@dataclass(frozen=True)
class AttentionAnswer:
    """The maps of one input, the tokens or the picture of their axes, and figures about them."""

    query: AttentionQuery
    maps: Sequence[AttentionMap]
    picture: Picture | None = None
    axes: Mapping[str, Sequence[Token]] = field(default_factory=dict)
    """The tokens of each axis that is a text."""
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The texts that the spans of each axis' tokens lie in."""
    diagnostics: Diagnostics | None = None
    evaluation: Evaluation | None = None
    written: int = 0
    """Where in the last text of generated tokens these begin, which may continue a prompt."""
    against: str | None = None
    """How the request names the other input that an embedding is explained by: text, image or id."""
    than: str | None = None
    """The same of the input whose likeness is taken off."""
    objects: Sequence[FoundObject] = ()
    """All objects that a detector looks for, in the order of their rows."""
    opposite: "AttentionAnswer | None" = None
    """That of the other input, where both sides of an embedding are explained, or two inputs' states compared."""
    of_other: bool = False
    """True if columns are of another input than rows."""
    asking: Sequence[Token] = ()
    """The tokens that rows stand for, if they are those of another text."""
    sound: Sound | None = None
    """What was heard, with the seconds of a column."""
    graph: Graph | None = None

    def merged(self) -> "AttentionAnswer":
        """Return the same with words or sentences in place of tokens, if the request asks for that."""
        into = self.query.options.merge
        if not into:
            return self
        groups = {
            axis: token_merging.group_tokens(tokens, self.texts[axis], into, 0 if axis == "source" else self.written)
            for axis, tokens in self.axes.items()
        }
        axes = {
            axis: token_merging.merge_tokens(tokens, groups[axis], self.texts[axis])
            for axis, tokens in self.axes.items()
        }
        asked = {one.kind.name: one for one in self.query.kinds}
        maps = []
        for drawn in self.maps:
            key = drawn.kind.key
            values = token_merging.sum_columns(drawn.values, groups[key]) if key in groups else drawn.values
            own, rows = groups[drawn.kind.query], drawn.rows
            if self.query.rows_of_words:
                values = token_merging.average_rows(values, own)
                rows = tuple(asked[drawn.kind.name].rows(values.shape[1]))
                values = values[:, rows]
            elif rows is not None:  # those of single tokens that are explained, each in a word
                rows = tuple(next(index for index, group in enumerate(own) if row in group) for row in rows)
            maps.append(replace(drawn, values=values, rows=rows))
        return replace(self, axes=axes, maps=maps)

    def aligned(self) -> "AttentionAnswer":
        """Return the same with the column that each row of `cross` looks at most, if the request asks for that."""
        if not self.query.options.hard:
            return self
        maps = [
            replace(one, entry={**one.entry, "aligned": one.values.argmax(-1)}) if one.kind.kind == "cross" else one
            for one in self.maps
        ]
        return replace(self, maps=maps)

    def pooled(self) -> "AttentionAnswer":
        """Return the same with blocks in place of the rows and columns of large maps, if the request asks for that."""
        most = self.query.options.pool
        if most is None:
            return self
        maps = []
        for pooled_map in self.maps:
            _, queries, keys = pooled_map.values.shape
            if max(queries, keys) > most:
                entry = {**pooled_map.entry, "pool": {"queries": queries, "keys": keys}}
                pooled_map = replace(pooled_map, entry=entry, values=pool(pooled_map.values, most))
            maps.append(pooled_map)
        return replace(self, maps=maps)

    def drawable(self) -> "AttentionAnswer":
        """Return maps as a picture shows them.

        Relevance is without the identity that it starts from, which would outshine the rest; over an image, a likeness
        below 0 is 0.
        """
        if self.query.by_states and self.picture:
            return replace(self, maps=[replace(one, values=one.values.clip(min=0)) for one in self.maps])
        if not self.query.rules.identity:
            return self
        maps = []
        for shown in self.maps:
            start = (
                0 if shown.rows is None else identity_rows(self.query, shown.kind, shown.rows, shown.values.shape[2])
            )
            maps.append(replace(shown, values=(shown.values - start).clip(min=0)))
        return replace(self, maps=maps)

    def json(self) -> dict[str, object]:
        """Return the answer for JSON; numbers are rounded, except in base64."""
        shown = self.merged().aligned().pooled()
        maps = [{**shown._entry(one), **shown._values(one)} for one in shown.maps]
        frame = {**shown._frame(), "maps": maps}
        if self.opposite:
            frame["against"] = {"kind": self.against, **self.opposite.json()}
        return frame

    def arrays(self, prefix: str) -> tuple[dict[str, object], dict[str, Array]]:
        """Return the answer with the names of arrays in place of values, and the arrays."""
        shown = self.merged().aligned().pooled()
        arrays: dict[str, Array] = {}
        maps = []
        for index, one in enumerate(shown.maps):
            name = f"{prefix}/maps/{index}"
            arrays[name], scale = shown._packed(one)
            maps.append({**shown._entry(one), "array": name, **scale})
        frame = {**shown._frame(), "maps": maps}
        if self.opposite:
            opposite, others = self.opposite.arrays(f"{prefix}/against")
            frame["against"] = {"kind": self.against, **opposite}
            arrays |= others
        return frame, arrays

    def titled(self, number: int) -> str:
        """Return the title of what is drawn of one of several inputs, the first of which has the number 1."""
        if self.picture:
            return f"image {number}"
        if self.sound:
            return f"sound {number}, {self.sound.seconds:.1f} s"
        if self.graph:
            return f"graph {number}"
        return f"text {number}: {next(iter(self.texts.values()))[0]}"

    def _entry(self, one: AttentionMap) -> dict[str, object]:
        """Return what an answer says of a map, without its values: of a text also which tokens some rows stand for."""
        tokens, rows = self.asking or self.axes.get(one.kind.query, ()), one.rows
        some = rows is not None and len(rows) < len(tokens) and not one.entry.keys() & {"pool", "target", "targets"}
        named: dict[str, object] = {"rows": rows} if some else {}
        return {**one.entry, **named, **self._by_message(one), "shape": list(one.values.shape)}

    def _by_message(self, one: AttentionMap) -> dict[str, object]:
        """Return the sums of the values of each message's tokens, (head, row, message); the last: of no message."""
        tokens = self.axes.get(one.kind.key, ())
        if "pool" in one.entry or not any(token.role for token in tokens):
            return {}
        of = [-1 if token.sequence is None else token.sequence for token in tokens]
        columns = np.eye(max(of) + 2, dtype=one.values.dtype)[of]  # (key, message)
        return {"by_message": np.ascontiguousarray((one.values @ columns).round(self.query.options.digits))}

    def _values(self, one: AttentionMap) -> dict[str, object]:
        options = self.query.options
        if options.encoding == "list":
            return {"values": np.ascontiguousarray(one.values.round(options.digits))}
        array, scale = self._packed(one)
        return {"dtype": options.dtype, **scale, "values": base64.b64encode(array.data).decode()}

    def _packed(self, one: AttentionMap) -> tuple[Array, dict[str, object]]:
        """Return values in the dtype asked for, in the order of their indices, and the numbers that undo bytes."""
        if self.query.options.dtype == "uint8":
            return quantized(np.ascontiguousarray(one.values))
        return np.ascontiguousarray(one.values, "<f4"), {}

    def _frame(self) -> dict[str, object]:
        """Return all of the answer but the maps."""
        tokens: dict[str, object] = {axis: [token.json() for token in tokens] for axis, tokens in self.axes.items()}
        frame: dict[str, object] = {"method": self.query.method, "maps": [], "tokens": tokens}
        if self.query.best:
            frame["best"] = self.query.best.model_dump(include={"measure", "values"})
        if self.against:
            frame["against"] = {"kind": self.against, **({"than": {"kind": self.than}} if self.than else {})}
        if self.objects:
            tokens[OBJECTS] = [one.json() for one in self.objects]
        if self.picture:
            kind = image_kind(self.query.model_kinds)
            rows, columns = kind.grid or (0, 0)
            left, top, right, bottom = (round(edge, 2) for edge in self.picture.box)
            tokens |= {"grid": {"rows": rows, "columns": columns}, "prefix": kind.prefix}
            frame["image"] = {
                "width": self.picture.width,
                "height": self.picture.height,
                "orientation": self.picture.orientation,
                "box": {"left": left, "top": top, "right": right, "bottom": bottom},
            }
        if self.sound:
            grid = next((kind.grid for kind in self.query.model_kinds if kind.grid), None)
            tokens |= {"grid": {"rows": grid[0], "columns": grid[1]}} if grid else {}
            tokens[FRAMES] = {"step": self.sound.step, "start": 0.0, "count": self.sound.frames}
        if self.graph:
            places = self.graph.places.round(3).tolist()
            frame["graph"] = {"directed": self.graph.directed, "edges": self.graph.edges, "places": places}
        if self.diagnostics is not None:
            frame["diagnostics"] = self.diagnostics
        if self.evaluation is not None:
            frame["evaluation"] = self.evaluation.json()
        return frame


def quantized(values: Values) -> tuple[npt.NDArray[np.uint8], dict[str, object]]:
    """Return finite values as bytes, and their `scale` and `zero`: with n = byte - zero, a value is about n |n| scale.

    Attention has few large values and many small ones: squares leave levels for the small ones too, 16 of 255 for those
    below a 250th of the largest. Bytes count from 0; only where a value is negative there is a `zero`, the byte of 0.
    """
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    roots = math.sqrt(-low), math.sqrt(high)
    zero = round(LEVELS * roots[0] / max(sum(roots), SMALLEST_RANGE))
    above, below = max(roots[1], SMALLEST_RANGE) / max(LEVELS - zero, 1), roots[0] / max(zero, 1)
    scale = max(above, below) ** 2
    steps = np.sign(values) * np.sqrt(np.abs(values.astype(np.float64)) / scale)
    packed = (steps.round() + zero).clip(0, LEVELS).astype(np.uint8)
    return packed, {"scale": scale, "zero": zero} if low < 0 else {"scale": scale}


def npz(response: Mapping[str, object], answers: Sequence[AttentionAnswer]) -> bytes:
    """Return all arrays as numpy's npz; its `meta` is the response as JSON, with the names of arrays.

    Not compressed: for a large model compression takes longer than the prediction and saves a tenth of the bytes.
    """
    file = io.BytesIO()
    results = [answer.arrays(f"results/{index}") for index, answer in enumerate(answers)]
    meta = {**response, "results": [{"attention": shown} for shown, _ in results]}
    arrays: dict[str, Any] = {name: array for _, own in results for name, array in own.items()}
    text = orjson.dumps(meta, option=orjson.OPT_SERIALIZE_NUMPY)
    np.savez(file, meta=np.frombuffer(text, np.uint8), **arrays)
    return file.getvalue()
