"""The attention that a request asks for: its options, checked against the model.

`raw` picks weights; `rollout` follows attention through the layers (Abnar & Zuidema 2020, arXiv 2005.00928); `norm`
weighs it by the vectors that it multiplies (Kobayashi et al. 2020, arXiv 2004.10102); `relevance` weighs it by the
gradient of one class or token (Chefer et al. 2021, arXiv 2103.15679). The graphs compute all of it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from contract.manifest import FUSIONS, Kind, Manifest, Method, was_left_out
from service.errors import Unacceptable
from service.options import MOST_TARGETS, AttentionOptions, Indices

Fusion: TypeAlias = Literal["mean", "max", "min", "sum"]
Form: TypeAlias = Literal["json", "npz", "png"]

CLASSIFICATION_TASKS = ("image-classification", "text-classification")
"""Tasks that answer with classes. For these, relevance explains a class; for all other tasks, a token."""
REASONS: dict[Method, str] = {
    "rollout": "needs maps of tokens onto themselves whose rows sum to one, as self-attention has",
    "norm": "needs values that are joined by one projection and added, not fed to what recurs",
    "relevance": "needs a class or token to explain, a gradient, which 8-bit weights and hard choices have not, "
    "and layers that attend, none that recur or convolve",
}
"""Why a model may not serve a method."""
WITHOUT_EFFECT: dict[Form, set[str]] = {
    "json": {"dtype", "colormap", "opacity"},
    "npz": {"encoding", "colormap", "opacity"},
    "png": {"encoding", "dtype", "diagnostics", "evaluate", "hard"},
}
"""Options that an answer in that form does not show; base64 in JSON shows its dtype."""


DIGITS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Target:
    """What one relevance explains: a class, or the token at a position of the answer; and the rows to read."""

    token: int
    """Class or token; a negative number stands for the likeliest."""
    rows: tuple[int, ...]
    position: int = 0
    index: int = 0
    """Which mask or generated token it is, counted as the client counts."""


@dataclass(frozen=True)
class KindQuery:
    """What a request asks of one kind of map: layers and heads by number, rows as the client wrote them."""

    kind: Kind
    layers: tuple[int, ...]
    heads: tuple[int, ...] | Fusion
    queries: Indices | Literal["cls"]

    @property
    def maps_of_heads(self) -> int:
        """Number of maps of one layer: one where the heads are fused."""
        return 1 if isinstance(self.heads, str) else len(self.heads)

    def rows(self, length: int) -> list[int]:
        """Return the rows asked for of a map with `length` queries. Raises Unacceptable for one it does not have."""
        if self.queries == "cls":
            return [0]
        return select("queries", self.queries, length)


@dataclass(frozen=True)
class AttentionQuery:
    """The attention that one request asks for, which its model can serve."""

    options: AttentionOptions
    kinds: tuple[KindQuery, ...]
    model_kinds: tuple[Kind, ...]
    """All kinds of the model, asked for or not."""
    targets: tuple[int, ...] | None = None
    """Classes, masks or positions that relevance explains; None for the model's own choice."""
    form: Form = "json"

    @property
    def method(self) -> Method:
        """What is computed."""
        return self.options.method

    def shift(self, kind: Kind) -> int:
        """Return the offset of a token's row: 1 if the row that is fed the token is read (`align=input`), else 0."""
        return int(self.options.align == "input" and kind.query == "target")

    def rows(self, one: KindQuery, lengths: Mapping[str, int]) -> list[int]:
        """Return the rows to read of an input with these axis lengths.

        All of them if tokens are merged into words: words are counted later.
        """
        length = lengths[one.kind.query] - self.shift(one.kind)
        return list(range(length)) if self.options.merge else one.rows(length)

    def rows_per_target(self, one: KindQuery, lengths: Mapping[str, int]) -> int:
        """Return how many rows one relevance has: those asked for, or its target's own where the target is a token."""
        return len(one.rows(lengths[one.kind.query])) if one.kind.prefix else 1

    def count_maps(self, one: KindQuery, targets: int) -> int:
        """Return the number of maps of one kind, each with its heads: one for each layer, or for each target."""
        return len(one.layers) if self.method in ("raw", "norm") else targets

    def count_targets(self, available: int) -> int:
        """Return how many relevances are computed of an input with so many masks or tokens to explain."""
        if self.method != "relevance":
            return 1
        return available if self.targets is None else len(self.targets)

    def in_form(self, form: Form) -> "AttentionQuery":
        """Return the query with the form of its answer. Raises Unacceptable for options that the form does not show."""
        options = self.options
        packed = form == "json" and options.encoding == "base64"
        for name in sorted(options.model_fields_set & WITHOUT_EFFECT[form] - ({"dtype"} if packed else set())):
            raise Unacceptable(f"{name}: has no effect on {form}, leave it out")
        return replace(self, form=form)


def resolve(options: AttentionOptions, manifest: Manifest) -> AttentionQuery:
    """Check options against the model. Raises Unacceptable, with the reason, for what it cannot serve."""
    method = options.method
    kinds = [kind for kind in manifest.attention if options.kind in (None, kind.kind)]
    if not kinds:
        has = ", ".join(kind.kind for kind in manifest.attention)
        raise Unacceptable(f"kind: this model has {has}, given {options.kind}")
    kinds = [kind for kind in kinds if method in kind.methods]
    if not kinds:
        served = [name for name in methods_of(manifest) if options.kind is None]
        other = f"; this model serves {', '.join(served)}" if served else f", not {options.kind} of this model"
        unserved = REASONS.get(method, "is not served")
        reason = "was left out when this model was exported" if was_left_out(manifest, method) else unserved
        raise Unacceptable(f"method {method}: {reason}{other}")
    heads = _heads(options)
    _check(options, manifest, kinds)
    asked = tuple(_kind_query(kind, options, heads) for kind in kinds)
    query = AttentionQuery(options, asked, manifest.attention, _targets(options, manifest))
    if options.evaluate:
        _check_one_row(query)
    return query


def image_kind(kinds: Sequence[Kind]) -> Kind:
    """Return the first kind whose keys are the patches of an image."""
    return next(kind for kind in kinds if kind.key == "image")


def methods_of(manifest: Manifest) -> list[Method]:
    """Return the methods that some kind of a model's maps can serve."""
    order: tuple[Method, ...] = get_args(Method)
    return [method for method in order if any(method in kind.methods for kind in manifest.attention)]


def _check_one_row(query: AttentionQuery) -> None:
    """Refuse an evaluation of more than one map of one row."""
    (one,) = query.kinds
    maps = query.count_maps(one, len(query.targets or (-1,)))
    if maps * one.maps_of_heads * len(one.rows(one.kind.length)) != 1:
        raise Unacceptable("evaluate: needs one map of one row; ask for one layer, fused heads, one query and target")


def _targets(options: AttentionOptions, manifest: Manifest) -> tuple[int, ...] | None:
    """Return targets as numbers. A string is an index, a label, or some of both with commas between.

    Digits are an index, in a query, a form and JSON alike. A query has no types, so they cannot mean a label there and
    an index in JSON. A label of digits is asked for by its index.
    """
    if options.target is None:
        return None
    classes = manifest.task in CLASSIFICATION_TASKS
    labels = {label: index for index, label in enumerate(manifest.labels)} if classes else {}
    most = int(manifest.graphs["attention"].outputs[0].axes[-1]) - 1
    rule = f"target: must be from 0 to {most} or a label" if classes else "target: must be numbers, such as 0 or 0,3"
    found: list[int] = []
    for one in options.target:
        whole = isinstance(one, int) or one in labels
        for part in [one] if whole else [part.strip() for part in one.split(",")]:
            if isinstance(part, int) or DIGITS.fullmatch(part):
                found.append(int(part))
            elif part in labels:
                found.append(labels[part])
            else:
                raise Unacceptable(f"{rule}, given another")
    if classes and not all(0 <= index <= most for index in found):
        raise Unacceptable(f"{rule}, given another")
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
    if method == "rollout" and not _is_fusion(heads or "mean"):
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
    if options.method == "relevance" and options.queries is not None and manifest.task not in CLASSIFICATION_TASKS:
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


def _kind_query(kind: Kind, options: AttentionOptions, heads: Indices | Fusion) -> KindQuery:
    """Return the layers, heads and rows that the options ask for, or their defaults."""
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


def _is_fusion(heads: object) -> bool:
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
