"""The attention answer to one input: its maps, what their axes stand for, and its forms: JSON, npz, PNG."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
from PIL import Image

from contract.manifest import Kind
from service.arrays import Array
from service.explanations import drawing, token_merging
from service.explanations.query import AttentionQuery, image_kind
from service.inputs.model_input import Picture, Pixels, Token

Values: TypeAlias = npt.NDArray[np.float32]

SMALLEST_RANGE = 1e-30
"""Bytes of a map whose values differ by less are scaled as if they differed by this, so that no scale is 0."""


@dataclass(frozen=True)
class AttentionMap:
    """One map: its kind, what JSON says of it, and its values (heads, rows, keys)."""

    kind: Kind
    entry: dict[str, object]
    values: Values
    rows: tuple[int, ...]
    """Positions of the rows on their axis."""


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
    diagnostics: list[dict[str, object]] | None = None
    evaluation: dict[str, object] | None = None

    def merged(self) -> "AttentionAnswer":
        """Return the same with words in place of tokens, if the request asks for that."""
        if not self.query.options.merge:
            return self
        groups = {axis: token_merging.group_by_word(tokens, self.texts[axis]) for axis, tokens in self.axes.items()}
        axes = {
            axis: token_merging.merge_tokens(tokens, groups[axis], self.texts[axis])
            for axis, tokens in self.axes.items()
        }
        asked = {one.kind.kind: one for one in self.query.kinds}
        maps = []
        for one in self.maps:
            key = one.kind.key
            values = token_merging.sum_columns(one.values, groups[key]) if key in groups else one.values
            own = groups[one.kind.query]
            if self.query.method == "relevance":  # whose rows are single tokens, each in a word
                rows = [next(index for index, group in enumerate(own) if row in group) for row in one.rows]
            else:
                values = token_merging.average_rows(values, own)
                rows = asked[one.kind.kind].rows(values.shape[1])
                values = values[:, rows]
            maps.append(replace(one, values=values, rows=tuple(rows)))
        return replace(self, axes=axes, maps=maps)

    def without_identity(self) -> "AttentionAnswer":
        """Return relevance without the identity that it starts from, which would outshine the rest in a picture."""
        if self.query.method != "relevance":
            return self
        maps = []
        for one in self.maps:
            values = one.values.copy()
            if one.kind.query == one.kind.fed:
                for index, row in enumerate(one.rows):
                    values[:, index, row] -= 1
            maps.append(replace(one, values=values.clip(min=0)))
        return replace(self, maps=maps)

    def json(self) -> dict[str, object]:
        """Return the answer for JSON; numbers are rounded, except in base64."""
        shown = self.merged()
        return {**shown._frame(), "maps": [{**shown._entry(one), **shown._values(one)} for one in shown.maps]}

    def arrays(self, prefix: str) -> tuple[dict[str, object], dict[str, Array]]:
        """Return the answer with the names of arrays in place of values, and the arrays."""
        shown = self.merged()
        arrays: dict[str, Array] = {}
        maps = []
        for index, one in enumerate(shown.maps):
            name = f"{prefix}/maps/{index}"
            arrays[name], scale = shown._packed(one)
            maps.append({**shown._entry(one), "array": name, **scale})
        return {**shown._frame(), "maps": maps}, arrays

    def png(self, sent: Pixels | None, max_pixels: int) -> bytes:
        """Draw the maps over the image as it was sent, upright, or as a matrix of tokens. Raises TooLarge."""
        style = drawing.Style(self.query.options.colormap, self.query.options.opacity)
        shown = self.without_identity().merged()
        first, kind = shown.maps[0], shown.maps[0].kind
        if self.picture and sent is not None and kind.key == "image":
            panels = [
                drawing.Panel(
                    shown._row_title(one, head, position),
                    one.values[head, row, kind.prefix :].reshape(kind.grid or (1, -1)),
                )
                for one in shown.maps
                for head in range(one.values.shape[0])
                for row, position in enumerate(one.rows)
            ]
            image = Image.fromarray(sent[:, :, 0] if sent.shape[2] == 1 else sent)
            return drawing.overlay(image, self.picture.box, panels, style, max_pixels)
        targets = first.entry.get("targets")  # tokens, whatever words they are in
        queries = (
            [str(target["text"]) for target in targets]
            if isinstance(targets, list)
            else [shown.axes[kind.query][row].text for row in first.rows]
        )
        keys = [token.text for token in shown.axes[kind.key]]
        panels = [
            drawing.Panel(self._title(one, head), one.values[head])
            for one in shown.maps
            for head in range(one.values.shape[0])
        ]
        return drawing.matrix(panels, queries, keys, style, max_pixels)

    def _row_title(self, one: AttentionMap, head: int, position: int) -> str:
        """Return the title of one row over an image: its word, and what distinguishes it from the other rows."""
        title = self._title(one, head)
        if one.kind.query not in self.axes:
            return title + (f", row {position}" if position else "")
        word = self.axes[one.kind.query][position].text
        return word if len(self.maps) == len(one.values) == 1 else f"{word.strip()}, {title}"

    @staticmethod
    def _title(one: AttentionMap, head: int) -> str:
        heads, layer = one.entry["heads"], one.entry["layer"]
        if isinstance(target := one.entry.get("target"), dict):
            return f"relevance of {target['label']}"
        if "targets" in one.entry:
            return f"relevance, {one.kind.kind}"
        which = f"head {heads[head]}" if isinstance(heads, list) else f"{heads} of heads"
        return f"{one.kind.kind}: " + (which if layer is None else f"layer {layer}, {which}")

    def _entry(self, one: AttentionMap) -> dict[str, object]:
        entry = {**one.entry, "shape": list(one.values.shape)}
        if self.query.options.hard and one.kind.kind == "cross":
            entry["aligned"] = one.values.argmax(-1)
        return entry

    def _values(self, one: AttentionMap) -> dict[str, object]:
        options = self.query.options
        if options.encoding == "list":
            return {"values": np.ascontiguousarray(one.values.round(options.digits))}
        array, scale = self._packed(one)
        return {"dtype": options.dtype, **scale, "values": base64.b64encode(array.data).decode()}

    def _packed(self, one: AttentionMap) -> tuple[Array, dict[str, object]]:
        """Return values in the dtype asked for and, of bytes, the numbers that undo it."""
        if self.query.options.dtype == "uint8":
            return quantized(one.values)
        return np.ascontiguousarray(one.values, "<f4"), {}

    def _frame(self) -> dict[str, object]:
        """Return all of the answer but the maps."""
        tokens: dict[str, object] = {axis: [token.json() for token in tokens] for axis, tokens in self.axes.items()}
        frame: dict[str, object] = {"method": self.query.method, "maps": [], "tokens": tokens}
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
        if self.diagnostics is not None:
            frame["diagnostics"] = self.diagnostics
        if self.evaluation is not None:
            frame["evaluation"] = self.evaluation
        return frame


def quantized(values: Values) -> tuple[npt.NDArray[np.uint8], dict[str, object]]:
    """Return finite values as bytes, and their `scale` and `offset`: byte x scale + offset is within scale / 2 of each.

    Bytes count from 0 or, where a value is negative, from about the least: only then there is an offset, a multiple of
    the scale, so that a zero is exactly 0 again.
    """
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    scale = max(high - low, SMALLEST_RANGE) / 255
    if low >= 0:
        return (values / scale).round().astype(np.uint8), {"scale": scale}
    zero = round(-low / scale)  # the byte of 0
    steps = (values.astype(np.float64) / scale).round() + zero
    return steps.clip(0, 255).astype(np.uint8), {"scale": scale, "offset": -zero * scale}


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
