"""What an answer shows of attention, and the forms it is sent in: JSON, npz, png."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import orjson
from PIL import Image

from service.errors import TooLarge, Unacceptable
from service.explanations import drawing as pictures
from service.explanations import token_merging as words
from service.explanations.query import Array, AttentionQuery, Map, patches
from service.inputs.model_input import Picture, Pixels, Token
from service.options import AttentionOptions

Form: TypeAlias = Literal["json", "npz", "png"]
TYPES: dict[Form, str] = {"json": "application/json", "npz": "application/x-npz", "png": "image/png"}
UNSHOWN: dict[Form, set[str]] = {
    "json": {"dtype", "colormap", "opacity"},
    "npz": {"encoding", "colormap", "opacity"},
    "png": {"encoding", "dtype", "diagnostics", "evaluate", "hard"},
}
"""Options of which an answer in that form would show nothing; base64 in JSON shows its dtype."""
MOST_PANELS = 144
"""Of one picture."""


@dataclass(frozen=True)
class AttentionAnswer:
    """What was seen of one input: maps, and what their axes are."""

    ask: AttentionQuery
    maps: Sequence[Map]
    image: Picture | None = None
    axes: Mapping[str, Sequence[Token]] = field(default_factory=dict)
    """Of texts: the tokens of each axis."""
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What the spans of each axis lie in."""
    diagnostics: list[dict[str, object]] | None = None
    evaluation: dict[str, object] | None = None

    def merged(self) -> "AttentionAnswer":
        """Return the same with words for tokens, where that is asked for."""
        if not self.ask.options.merge:
            return self
        groups = {axis: words.words(tokens, self.texts[axis]) for axis, tokens in self.axes.items()}
        axes = {axis: words.joined(tokens, groups[axis], self.texts[axis]) for axis, tokens in self.axes.items()}
        wanted = {one.kind.kind: one for one in self.ask.wanted}
        maps = []
        for one in self.maps:
            key = one.kind.key
            values = words.summed(one.values, groups[key]) if key in groups else one.values  # patches are no words
            own = groups[one.kind.query]
            if self.ask.method == "relevance":  # whose rows are single tokens, each in a word
                rows = [next(index for index, group in enumerate(own) if row in group) for row in one.rows]
            else:
                values = words.averaged(values, own)
                rows = wanted[one.kind.kind].rows(values.shape[1])
                values = values[:, rows]
            maps.append(replace(one, values=values, rows=tuple(rows)))
        return replace(self, axes=axes, maps=maps)

    def rest(self) -> "AttentionAnswer":
        """Return relevance without the identity that it starts from, beside which little else would be seen."""
        if self.ask.method != "relevance":
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
        """Return the answer, numbers rounded but for those in base64."""
        seen = self.merged()
        return {**seen._frame(), "maps": [{**seen._entry(one), **seen._values(one)} for one in seen.maps]}

    def arrays(self, prefix: str) -> tuple[dict[str, object], dict[str, Array]]:
        """Return the answer with the names of arrays in place of values, and the arrays."""
        seen = self.merged()
        arrays: dict[str, Array] = {}
        maps = []
        for index, one in enumerate(seen.maps):
            name = f"{prefix}/maps/{index}"
            arrays[name], scale = seen._packed(one)
            maps.append({**seen._entry(one), "array": name, **scale})
        return {**seen._frame(), "maps": maps}, arrays

    def png(self, sent: Pixels | None, max_pixels: int) -> bytes:
        """Draw the maps over the image as it was sent, upright, or as a matrix of tokens. Raises TooLarge."""
        style = pictures.Style(self.ask.options.colormap, self.ask.options.opacity)
        seen = self.rest().merged()
        first, kind = seen.maps[0], seen.maps[0].kind
        if self.image and sent is not None and kind.key == "image":
            panels = [
                pictures.Panel(
                    seen._row_title(one, head, place),
                    one.values[head, row, kind.prefix :].reshape(kind.grid or (1, -1)),
                )
                for one in seen.maps
                for head in range(one.values.shape[0])
                for row, place in enumerate(one.rows)
            ]
            image = Image.fromarray(sent[:, :, 0] if sent.shape[2] == 1 else sent)
            return pictures.overlay(image, self.image.box, panels, style, max_pixels)
        targets = first.entry.get("targets")  # tokens, whatever words they are in
        queries = (
            [str(target["text"]) for target in targets]
            if isinstance(targets, list)
            else [seen.axes[kind.query][row].text for row in first.rows]
        )
        keys = [token.text for token in seen.axes[kind.key]]
        panels = [
            pictures.Panel(self._title(one, head), one.values[head])
            for one in seen.maps
            for head in range(one.values.shape[0])
        ]
        return pictures.matrix(panels, queries, keys, style, max_pixels)

    def _row_title(self, one: Map, head: int, place: int) -> str:
        """Return the title of one row over an image: the word that it is of, and what else there is to tell apart."""
        title = self._title(one, head)
        if one.kind.query not in self.axes:
            return title + (f", row {place}" if place else "")
        word = self.axes[one.kind.query][place].text
        return word if len(self.maps) == len(one.values) == 1 else f"{word.strip()}, {title}"

    @staticmethod
    def _title(one: Map, head: int) -> str:
        heads, layer = one.entry["heads"], one.entry["layer"]
        if isinstance(target := one.entry.get("target"), dict):
            return f"relevance of {target['label']}"
        if "targets" in one.entry:
            return f"relevance, {one.kind.kind}"
        which = f"head {heads[head]}" if isinstance(heads, list) else f"{heads} of heads"
        return f"{one.kind.kind}: " + (which if layer is None else f"layer {layer}, {which}")

    def _entry(self, one: Map) -> dict[str, object]:
        entry = {**one.entry, "shape": list(one.values.shape)}
        if self.ask.options.hard and one.kind.kind == "cross":
            entry["aligned"] = one.values.argmax(-1)
        return entry

    def _values(self, one: Map) -> dict[str, object]:
        options = self.ask.options
        if options.encoding == "list":
            return {"values": np.ascontiguousarray(one.values.round(options.digits))}
        array, scale = self._packed(one)
        return {"dtype": options.dtype, **scale, "values": base64.b64encode(array.data).decode()}

    def _packed(self, one: Map) -> tuple[Array, dict[str, object]]:
        """Return values as the dtype that was asked for, and with bytes their scale."""
        if self.ask.options.dtype == "uint8":
            scale = max(float(one.values.max(initial=0)), 1e-30) / 255
            return (one.values / scale).round().astype(np.uint8), {"scale": scale}
        return np.ascontiguousarray(one.values, "<f4"), {}

    def _frame(self) -> dict[str, object]:
        tokens: dict[str, object] = {axis: [token.json() for token in tokens] for axis, tokens in self.axes.items()}
        frame: dict[str, object] = {"method": self.ask.method, "maps": [], "tokens": tokens}
        if self.image:
            kind = patches(self.ask.every)
            rows, columns = kind.grid or (0, 0)
            left, top, right, bottom = (round(edge, 2) for edge in self.image.box)
            tokens |= {"grid": {"rows": rows, "columns": columns}, "prefix": kind.prefix}
            frame["image"] = {
                "width": self.image.width,
                "height": self.image.height,
                "orientation": self.image.orientation,
                "box": {"left": left, "top": top, "right": right, "bottom": bottom},
            }
        if self.diagnostics is not None:
            frame["diagnostics"] = self.diagnostics
        if self.evaluation is not None:
            frame["evaluation"] = self.evaluation
        return frame


def unshown(options: AttentionOptions, form: Form) -> list[str]:
    """Return the options that were given of which an answer in that form would show nothing."""
    packed = form == "json" and options.encoding == "base64"
    return sorted(options.model_fields_set & UNSHOWN[form] - ({"dtype"} if packed else set()))


def check_picture(
    ask: AttentionQuery, sizes: Mapping[str, int], size: tuple[int, int] | None, targets: int, limit: int
) -> None:
    """Raise TooLarge or Unacceptable, before anything runs, for a picture that cannot be drawn.

    sizes are the lengths of the axes, size the width and height of an image, if the input is one.
    """
    if len({(one.kind.query, one.kind.key) for one in ask.wanted}) > 1:
        raise Unacceptable(
            f"format: a png shows one kind; ask for kind {', '.join(one.kind.kind for one in ask.wanted)}"
        )
    if ask.wanted[0].kind.key != "image":
        size = None
    panels = rows = 0
    for one in ask.wanted:
        heads = 1 if isinstance(one.heads, str) else len(one.heads)
        maps = len(one.layers) if ask.method in ("raw", "norm") else targets
        rows = len(one.rows(sizes[one.kind.query]))
        if ask.method == "relevance":
            rows = ask.rows_of_a_target(one, sizes)
            if not one.kind.prefix:  # of generated tokens, rows of one map
                maps, rows = 1, targets
        panels += heads * maps * (rows if size else 1)
    if panels > MOST_PANELS:
        raise TooLarge(f"png: at most {MOST_PANELS} panels, given {panels}; ask for fewer layers, heads or queries")
    keys = sizes[ask.wanted[0].kind.key]
    pixels = pictures.overlay_pixels(*size, panels) if size else pictures.matrix_pixels(rows, keys, panels)
    if pixels > limit:
        raise TooLarge(
            f"png: at most {limit} pixels, this one would have {pixels}; ask for fewer layers, heads or queries"
        )


def npz(answer: Mapping[str, object], sights: Sequence[AttentionAnswer]) -> bytes:
    """Return all arrays as numpy's npz; its `meta` is the answer as JSON, arrays by name.

    Not compressed: of a large model that takes longer than the prediction, for a tenth of the bytes of floats.
    """
    file = io.BytesIO()
    results = [sight.arrays(f"results/{index}") for index, sight in enumerate(sights)]
    meta = {**answer, "results": [{"attention": shown} for shown, _ in results]}
    arrays: dict[str, Any] = {name: array for _, own in results for name, array in own.items()}
    text = orjson.dumps(meta, option=orjson.OPT_SERIALIZE_NUMPY)
    np.savez(file, meta=np.frombuffer(text, np.uint8), **arrays)
    return file.getvalue()
