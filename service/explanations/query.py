"""What a request wants to see, how large it is, what the graphs must be asked for, and reading their answer out.

`raw` picks; `rollout` follows attention through the layers (Abnar & Zuidema 2020, arXiv 2005.00928); `norm` weighs it
by the vectors it multiplies (Kobayashi et al. 2020, arXiv 2004.10102); `relevance` by the gradient of one class or
token (Chefer et al. 2021, arXiv 2103.15679). All of it is computed and reduced in the graphs; here it is asked for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from contract.manifest import FIGURES, FUSIONS, READ, Kind, Manifest, Method
from service.errors import TooLarge, Unacceptable
from service.options import MOST_TARGETS, AttentionOptions, Indices

Array: TypeAlias = npt.NDArray[Any]
Maps: TypeAlias = npt.NDArray[np.float32]
Fusion = Literal["mean", "max", "min", "sum"]

CLASSES = ("image-classification", "text-classification")
"""Tasks whose answer is classes; that of the others which relevance explains is tokens."""
REASONS: dict[Method, str] = {
    "rollout": "needs maps of tokens onto themselves whose rows sum to one, as self-attention has",
    "norm": "needs values that are joined by one projection and added, not fed to what recurs",
    "relevance": "needs a class or token to explain, a gradient, which 8-bit weights and hard choices have not, "
    "and layers that attend, none that recur or convolve",
}
MAP_BYTES = 384  # of an answer, a map without its values
ROW_BYTES = 2  # brackets
ARRAY_BYTES = 384  # of an npz, an array's own headers
TOKEN_BYTES = 64  # of a text's axis, each token with its span
CURVE_BYTES = 2048  # of an evaluation


@dataclass(frozen=True)
class Map:
    """One map of an answer: what it is, and its values (heads, rows, keys)."""

    kind: Kind
    entry: dict[str, object]
    values: Maps
    rows: tuple[int, ...]
    """Places of the rows on their axis."""


@dataclass(frozen=True)
class Target:
    """What one relevance is of: a class, or the token at a position of the answer; and the rows to read."""

    token: int
    """Class or token; the likeliest where it is negative."""
    rows: tuple[int, ...]
    position: int = 0
    shown: int = 0
    """Which mask or generated token it is, as the client counts."""


@dataclass(frozen=True)
class KindQuery:
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
class KindControls:
    """What of one kind a graph is asked for; None for all rows."""

    kind: Kind
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    rows: tuple[int, ...] | None
    discard: int = 0
    """Entries of a layer."""


@dataclass(frozen=True)
class GraphControls:
    """What the attention graph is asked for. Inputs of which the same is asked run together."""

    method: str
    fusion: str
    diagnose: bool
    parts: tuple[KindControls, ...]

    def feed(self, longest: Mapping[str, int], special: Mapping[str, Array]) -> dict[str, Array]:
        """Return the graph's controls for a batch whose axes have these lengths."""
        feed: dict[str, Array] = {
            "method": np.array(READ.index(self.method)),
            "fusion": np.array(FUSIONS.index(self.fusion)),
            "diagnose": np.array(self.diagnose),
        }
        for part in self.parts:
            name = part.kind.kind
            rows = range(longest[part.kind.query]) if part.rows is None else part.rows
            feed[f"{name}.layers"] = np.array(part.layers, np.int64)
            feed[f"{name}.heads"] = np.array(part.heads, np.int64)
            feed[f"{name}.rows"] = np.array(rows, np.int64)
            feed[f"{name}.discard"] = np.array(part.discard)
            feed[f"{name}.special"] = special[part.kind.fed]
        return feed


@dataclass(frozen=True)
class AttentionQuery:
    """An attention request that the model can serve."""

    options: AttentionOptions
    wanted: tuple[KindQuery, ...]
    every: tuple[Kind, ...]
    """All kinds of the model, wanted or not."""
    targets: tuple[int, ...] | None = None
    """Classes, masks or positions that relevance explains; None for the model's own choice."""

    @property
    def method(self) -> Method:
        """What is computed."""
        return self.options.method

    def shift(self, kind: Kind) -> int:
        """Return how many rows later a token's row stands: one, where it is the row at which the token is the input."""
        return int(self.options.align == "input" and kind.query == "target")

    def rows(self, one: KindQuery, lengths: Mapping[str, int]) -> list[int]:
        """Return the rows to read of an input whose axes have these lengths; of words, which are counted later, all."""
        length = lengths[one.kind.query] - self.shift(one.kind)
        return list(range(length)) if self.options.merge else one.rows(length)

    def rows_of_a_target(self, one: KindQuery, lengths: Mapping[str, int]) -> int:
        """Return how many rows one relevance has: those asked for, or its target's own where it is a token."""
        return len(one.rows(lengths[one.kind.query])) if one.kind.prefix else 1

    def reading(self, lengths: Mapping[str, int]) -> GraphControls:
        """Return what to ask of the attention graph for an input with axes of these lengths.

        Raises Unacceptable for rows that it does not have.
        """
        asked = {one.kind.kind: one for one in self.wanted if self.method != "relevance"}
        first = self.wanted[0]
        fused = isinstance(first.heads, str)
        return GraphControls(
            method="raw" if self.method == "relevance" else self.method,
            fusion={"sum": "mean"}.get(str(first.heads), str(first.heads)) if fused else "each",
            diagnose=self.options.diagnostics,
            parts=tuple(self._part(kind, asked.get(kind.kind), lengths) for kind in self.every),
        )

    def _part(self, kind: Kind, one: KindQuery | None, lengths: Mapping[str, int]) -> KindControls:
        if one is None:
            return KindControls(kind, (0,), (), ())
        heads = () if isinstance(one.heads, str) else one.heads
        rows, shift = self.rows(one, lengths), self.shift(kind)
        every = rows == list(range(lengths[kind.query] - shift))
        discard = int(self.options.discard * lengths[kind.query] ** 2)
        return KindControls(kind, one.layers, heads, None if every else tuple(row + shift for row in rows), discard)

    def read(self, reading: GraphControls, lengths: Mapping[str, int], stacks: Mapping[str, Array]) -> list[Map]:
        """Return the maps of one input from what the graph returned: (heads, layers, rows, keys) a kind, unpadded."""
        found = []
        parts = {part.kind.kind: part for part in reading.parts}
        for one in self.wanted:
            stack, rows = stacks[one.kind.kind], tuple(self.rows(one, lengths))
            if parts[one.kind.kind].rows is None and self.shift(one.kind):
                stack = stack[:, :, 1:]
            entry: dict[str, object] = {"name": one.kind.kind, "kind": one.kind.kind, "layer": None}
            heads = one.heads if isinstance(one.heads, str) else list(one.heads)
            if self.method == "rollout":
                entry |= {"layers": list(one.layers), "heads": heads, "normalized": True}
                found.append(Map(one.kind, entry, stack[:, 0], rows))
                continue
            normalized = self.method == "raw" and one.kind.normalized and heads not in ("max", "min")
            for layer in one.layers:
                values = stack[:, sorted(one.layers).index(layer)]
                named = {"name": one.kind.maps[layer], "layer": layer, "heads": heads, "normalized": normalized}
                found.append(Map(one.kind, entry | named, values, rows))
        return found

    def explained(self, one: KindQuery, values: Maps, rows: Sequence[int]) -> Map:
        """Return the relevance of a target (rows, keys) as a map."""
        entry: dict[str, object] = {
            "name": one.kind.kind,
            "kind": one.kind.kind,
            "layer": None,
            "layers": list(one.layers),
            "heads": "mean",
            "normalized": False,
        }
        return Map(one.kind, entry, values[None], tuple(rows))

    def diagnostics(self, stacks: Mapping[str, Array]) -> list[dict[str, object]]:
        """Return the figures of every layer and head, of stacks (layers, heads, queries, figures), unpadded."""
        shown = []
        for kind in self.every:
            figures = stacks[f"{kind.kind}.diagnostics"].astype(np.float64)
            means: dict[str, object] = {
                name: figures[..., index].mean(-1).round(self.options.digits)
                for index, name in enumerate(FIGURES[: figures.shape[-1]])
            }
            if "distance" in means:  # of patches; the tokens before them stand nowhere
                means["distance"] = figures[..., kind.prefix :, 2].mean(-1).round(self.options.digits)
            most = round(float(np.log(max(stacks[kind.kind].shape[-1], 1))), self.options.digits)
            shown.append({"kind": kind.kind, "max_entropy": most, **means})
        return shown

    def size(self, lengths: Mapping[str, int], targets: int = 1) -> int:
        """Return the bytes that the answer for one input will have at most, from the lengths of its axes."""
        total = TOKEN_BYTES * sum(length for name, length in lengths.items() if name != "image")
        for one in self.wanted:
            maps = len(one.layers) if self.method in ("raw", "norm") else targets
            heads = 1 if isinstance(one.heads, str) else len(one.heads)
            rows = (
                self.rows_of_a_target(one, lengths)
                if self.method == "relevance"
                else len(one.rows(lengths[one.kind.query]))
            )
            if self.options.hard:
                total += maps * heads * rows * 6
            total += maps * (MAP_BYTES + self._values_bytes(heads * rows, lengths[one.kind.key]))
        if self.options.diagnostics:
            total += sum(len(kind.maps) * kind.heads * len(FIGURES) * (self.options.digits + 6) for kind in self.every)
        return total + CURVE_BYTES * len(self.options.evaluate)

    def _values_bytes(self, rows: int, keys: int) -> int:
        """Return the bytes that the values of one map will have at most."""
        options = self.options
        size = rows * keys * (1 if options.dtype == "uint8" else 4)
        if options.format == "npz":
            return size + ARRAY_BYTES
        if options.encoding == "base64":
            return 4 * -(-size // 3)
        number = options.digits + 3  # "0.", the digits and a comma
        if self.method in ("norm", "relevance"):
            number += 3  # larger than one
        return rows * (ROW_BYTES + keys * number)

    def check_size(self, sizes: Sequence[int], limit: int) -> None:
        """Raise TooLarge if the answer for inputs of these sizes would pass the limit."""
        if sum(sizes) > limit:
            raise TooLarge(
                f"attention: at most {limit} bytes an answer, this one would have {sum(sizes)}; "
                "ask for fewer layers, heads, queries, targets, digits or inputs, or for rollout"
            )


def resolve(options: AttentionOptions, manifest: Manifest) -> AttentionQuery:
    """Hold options against the model. Raises Unacceptable, with the reason, for what it cannot serve."""
    method = options.method
    kinds = [kind for kind in manifest.attention if options.kind in (None, kind.kind)]
    if not kinds:
        has = ", ".join(kind.kind for kind in manifest.attention)
        raise Unacceptable(f"kind: this model has {has}, given {options.kind}")
    kinds = [kind for kind in kinds if method in kind.methods]
    if not kinds:
        served = [name for name in methods_of(manifest) if options.kind is None]
        other = f"; this model serves {', '.join(served)}" if served else f", not {options.kind} of this model"
        raise Unacceptable(f"method {method}: {REASONS.get(method, 'is not served')}{other}")
    heads = _heads(options)
    _check(options, manifest, kinds)
    wanted = tuple(_want(kind, options, heads) for kind in kinds)
    ask = AttentionQuery(options, wanted, manifest.attention, _targets(options, manifest))
    if options.evaluate:
        _check_one_row(ask)
    return ask


def patches(kinds: Sequence[Kind]) -> Kind:
    """Return the first kind whose keys are the patches of an image."""
    return next(kind for kind in kinds if kind.key == "image")


def methods_of(manifest: Manifest) -> list[Method]:
    """Return the methods that some kind of a model's maps can serve."""
    order: tuple[Method, ...] = get_args(Method)
    return [method for method in order if any(method in kind.methods for kind in manifest.attention)]


def _check_one_row(ask: AttentionQuery) -> None:
    """Refuse an evaluation of more than one map of one row."""
    (one,) = ask.wanted
    rows, columns = one.kind.grid or (0, 0)
    maps = len(one.layers) if ask.method in ("raw", "norm") else len(ask.targets or (-1,))
    heads = 1 if isinstance(one.heads, str) else len(one.heads)
    if maps * heads * len(one.rows(one.kind.prefix + rows * columns)) != 1:
        raise Unacceptable("evaluate: needs one map of one row; ask for one layer, fused heads, one query and target")


def _targets(options: AttentionOptions, manifest: Manifest) -> tuple[int, ...] | None:
    """Return targets as numbers. A string is a label, or labels and numbers with commas between."""
    if options.target is None:
        return None
    classes = manifest.task in CLASSES
    labels = {label: index for index, label in enumerate(manifest.labels)} if classes else {}
    most = int(manifest.graphs["attention"].outputs[0].axes[-1]) - 1
    words = f"target: must be from 0 to {most} or a label" if classes else "target: must be numbers, such as 0 or 0,3"
    found: list[int] = []
    for one in options.target:
        parts = [one] if isinstance(one, int) or one in labels else [part.strip() for part in one.split(",")]
        for part in parts:
            if isinstance(part, str) and part not in labels and not re.fullmatch(r"\d{1,9}", part):
                raise Unacceptable(f"{words}, given another")
            found.append(labels[part] if part in labels else int(part))
    if classes and not all(0 <= index <= most for index in found):
        raise Unacceptable(f"{words}, given another")
    if len(found) > MOST_TARGETS or len(set(found)) < len(found):
        raise Unacceptable(f"target: must be at most {MOST_TARGETS}, each once, given {len(found)}")
    return tuple(found)


def _heads(options: AttentionOptions) -> Indices | Fusion:
    """Return the heads asked for, or how they are fused."""
    method, heads = options.method, options.heads
    if options.fusion is not None:
        if method != "rollout":
            raise Unacceptable("fusion: is for rollout; heads fuses those of raw")
        if heads is not None:
            raise Unacceptable("fusion: says what heads does, give one of them")
        heads = options.fusion
    if method == "rollout" and not _fuses(heads or "mean"):
        raise Unacceptable("heads: rollout fuses them, by mean, max or min")
    if method == "norm":
        if heads is not None:
            raise Unacceptable("heads: norm is of the sum over all heads, leave it out")
        return "sum"
    if method == "relevance" and heads not in (None, "mean"):
        raise Unacceptable("heads: relevance is the mean over heads, leave it out")
    resolved: Indices | Fusion = heads or "mean"
    return resolved


def _check(options: AttentionOptions, manifest: Manifest, kinds: Sequence[Kind]) -> None:
    """Refuse options that the method, or the model, has no use for."""
    if options.method != "rollout" and (options.discard or options.start_layer is not None):
        raise Unacceptable(f"{'discard' if options.discard else 'start_layer'}: is for rollout")
    if options.start_layer is not None and options.layers is not None:
        raise Unacceptable("start_layer: says what layers does, give one of them")
    if options.target is not None and options.method != "relevance":
        raise Unacceptable("target: is for relevance, the other methods explain no class")
    if options.method == "relevance" and options.layers is not None and len(manifest.attention) > 1:
        raise Unacceptable("layers: relevance of an encoder-decoder is through all of them")
    if options.method == "relevance" and options.queries is not None and manifest.task not in CLASSES:
        raise Unacceptable("queries: are the targets' own; choose them by target")
    crossed = any(kind.kind == "cross" for kind in kinds)
    if (options.hard or options.steps) and not crossed:
        raise Unacceptable(f"{'hard' if options.hard else 'steps'}: is read off cross, which is not asked for")
    if options.steps and (options.method != "raw" or options.merge):
        raise Unacceptable("steps: needs method raw, and tokens rather than words")
    if options.align == "input" and (
        options.method == "relevance" or not any(kind.query == "target" for kind in kinds)
    ):
        raise Unacceptable("align: is for raw, rollout and norm of generated tokens")
    if options.merge and manifest.image and not manifest.generation:
        raise Unacceptable("merge: is for texts, this model takes images")
    if options.evaluate and manifest.task != "image-classification":
        raise Unacceptable(f"evaluate: is for image-classification, this model's task is {manifest.task}")


def _want(kind: Kind, options: AttentionOptions, heads: Indices | Fusion) -> KindQuery:
    layers: Indices = options.layers
    if layers is None:
        layers = "all" if options.method in ("rollout", "relevance") else (-1,)
    if options.start_layer is not None:
        (start,) = select("start_layer", (options.start_layer,), len(kind.maps))
        layers = slice(start, None)
    if options.queries == "cls" and not kind.prefix:
        raise Unacceptable("queries: cls needs a class token, and this model has none; ask for all or for indices")
    chosen = tuple(select("layers", layers, len(kind.maps)))
    return KindQuery(
        kind,
        tuple(sorted(chosen)) if options.method in ("rollout", "relevance") else chosen,
        heads if isinstance(heads, str) and heads != "all" else tuple(select("heads", heads, kind.heads)),
        options.queries if options.queries is not None else "cls" if kind.prefix else "all",
    )


def _fuses(heads: object) -> bool:
    return isinstance(heads, str) and heads in FUSIONS


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
