"""The attention that a request asks for: its options, checked against the model. The graphs compute all of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from contract.input_rules import Baseline
from contract.manifest import POOL, Kind, Manifest, Method, Recommendation, was_left_out
from service.errors import TooLarge, Unacceptable
from service.explanations.evaluation import COMPARE
from service.explanations.methods import METHODS, MethodRules
from service.explanations.option_checks import check_layers_and_rows, check_rest, heads_of
from service.explanations.score import (
    CHOSEN_AFTER,
    OF_PLACES,
    Explains,
    TokenOf,
    against_of,
    baselines_of,
    check_score,
    explains,
    points_of,
    targets_of,
)
from service.explanations.selection import Fusion, KindQuery, rows_of, select
from service.options.attention import DEFAULT_STEPS, AttentionOptions
from service.options.predictions import DetectOptions
from service.options.readers import Indices
from service.options.tags import EntityOptions

Form: TypeAlias = Literal["json", "npz", "png"]

MOST_RUNS = 4096
"""The most runs of graphs that explain what one request asks for."""
NOT_IN_FEW_BITS = "needs the graph in floats, which 8-bit weights have where the export was told --explain float"
STYLES_OF_MAPS = {"colormap", "opacity", "ground", "scale"}
"""Options that a picture of curves does not show."""
WITHOUT_EFFECT: dict[Form, set[str]] = {
    "json": {"dtype", "width"} | STYLES_OF_MAPS,
    "npz": {"encoding", "width"} | STYLES_OF_MAPS,
    "png": {"encoding", "dtype", "diagnostics", "hard", "sides", "pool", "orders"},
}
"""Options that an answer in that form does not show; base64 in JSON shows its dtype."""
FINER = 3
"""A path whose first points are too few gets as many times their number: each is then the middle one of three."""
PATH_ENDS = (1.0, 0.0)
"""The points of a path at which only the score is computed: the input, and the baseline."""
ONE_ROW = "evaluate: needs one map of one row; ask for one layer, fused heads, one query and target"


@dataclass(frozen=True)
class AttentionQuery:
    """The attention that one request asks for, which its model can serve."""

    options: AttentionOptions
    kinds: tuple[KindQuery, ...]
    model_kinds: tuple[Kind, ...]
    """All kinds of the model, asked for or not."""
    method: Method
    explains: Explains
    targets: tuple[int, ...] | None = None
    """Classes, masks or positions that are explained; None for the model's own choice."""
    against: int | None = None
    """The class or token that they are explained against."""
    baseline: Baseline | None = None
    """Of integrated gradients."""
    best: Recommendation | None = None
    """Why it is this method, if the request asked for the best one."""
    form: Form = "json"
    found: DetectOptions = field(default_factory=DetectOptions)
    """Which objects of a detector count as found."""
    entities: EntityOptions = field(default_factory=EntityOptions)
    """Which entities of a text count as found."""
    kept: int | None = None
    """How many numbers of embeddings are compared, the first ones; None for all."""
    may_refine: bool = True
    """False if there is no time for the further points of a path."""

    @property
    def rules(self) -> MethodRules:
        """What is particular to the method."""
        return METHODS[self.method]

    @property
    def by_gradient(self) -> bool:
        """True if the method explains a score, by a graph of its own."""
        return self.rules.by_gradient

    @property
    def by_states(self) -> bool:
        """True if the method compares the states of tokens."""
        return self.rules.by_states

    @property
    def compares_inputs(self) -> bool:
        """True if `against` is another input, not a class or a token."""
        return self.by_states or self.explains == "embedding"

    @property
    def both_sides(self) -> bool:
        """True if the answer has maps of the other input too."""
        return self.options.sides == "both" or (self.by_states and self.options.against is not None)

    @property
    def points(self) -> int:
        """Points of the path of integrated gradients, at first."""
        return points_of(self.options)

    @property
    def refines(self) -> bool:
        """True if a path has more points where the first are too few, since the request does not say how many."""
        return self.rules.path and not self.options.steps and self.may_refine

    @property
    def runs(self) -> int:
        """How often a graph runs for each target at most: at each point of a path and at its ends, or once."""
        return runs_of(self.method, self.points * (FINER if self.refines else 1))

    @property
    def diagnosed_apart(self) -> int:
        """1 if diagnostics take a run of the attention graph beside those of a gradient method, else 0."""
        return int(self.by_gradient and self.options.diagnostics)

    def predicts_first(self, manifest: Manifest) -> bool:
        """Return whether a prediction comes before what a gradient method explains.

        That is so where the graph returns none, where it would choose targets in another precision, and of objects and
        entities.
        """
        apart = self.rules.path or self.explains in CHOSEN_AFTER or manifest.explained is not None
        return self.by_gradient and apart

    @property
    def streams_steps(self) -> bool:
        """True if each token of a stream brings its row of cross."""
        return self.rules.weights and bool(self.options.steps)

    def shown(self, kind: Kind) -> Kind:
        """Return a kind as its maps have it: rollout and relevance of a later stage have the keys of the first."""
        if kind.carried is None or (self.rules.by_layer and not self.by_gradient):
            return kind
        first = next(one for one in self.model_kinds if one.name == kind.carried)
        return kind.model_copy(update={"key": first.key, "grid": first.grid})

    @property
    def summarized(self) -> bool:
        """True if a map has one row that stands for the whole answer, not for a token.

        That is so of signed shares of a class, a word or an embedding, and of relevance where a word or an embedding is
        made of all rows and the request names none; that is without the identity.
        """
        if not self.by_gradient or self.explains in OF_PLACES:
            return False
        kind = self.kinds[0].kind
        mean = self.explains in ("embedding", "word") and kind.pooled == "all" and self.options.queries is None
        return self.rules.signed or mean

    @property
    def rows_of_words(self) -> bool:
        """True if maps have rows of words: all rows are computed, averaged by word, and then chosen."""
        explained = self.by_gradient and (self.explains in OF_PLACES or self.summarized)
        return bool(self.options.merge) and not explained

    def shift(self, kind: Kind) -> int:
        """Return the offset of a token's row: 1 if the row that is fed the token is read (`align=input`), else 0."""
        return int(self.options.align == "input" and kind.query == "target")

    def rows(self, one: KindQuery, lengths: Mapping[str, int]) -> list[int]:
        """Return the rows to read of an input with these axis lengths.

        All of them if tokens are merged into words: words are counted later.
        """
        length = lengths[one.kind.query] - self.shift(one.kind)
        return list(range(length)) if self.options.merge else one.rows(length)

    def count_rows(self, one: KindQuery, lengths: Mapping[str, int]) -> int:
        """Return how many rows a map has at most: those asked for, or one for what is explained."""
        if self.by_gradient and (self.explains in OF_PLACES or self.summarized):
            return 1
        if self.rules.rowless:
            return 1
        count = len(one.rows(lengths[one.kind.query]))
        return min(count, self.found.top_k) if one.queries == "found" else count

    def count_maps(self, one: KindQuery, targets: int) -> int:
        """Return the number of maps of one kind, each with its heads: for each layer, for each target, or for both."""
        return targets * (len(one.layers) if self.rules.by_layer else 1)

    def count_targets(self, available: int) -> int:
        """Return how many scores are explained of an input that has `available` masks or tokens to explain."""
        if not self.by_gradient:
            return 1
        return available if self.targets is None else len(self.targets)

    def in_form(self, form: Form) -> "AttentionQuery":
        """Return the query with the form of its answer. Raises Unacceptable for options that the form does not show."""
        options = self.options
        unseen = WITHOUT_EFFECT[form] | (STYLES_OF_MAPS if options.evaluate else set())
        if form == "json" and options.encoding == "base64":
            unseen = unseen - {"dtype"}
        for name in sorted(options.model_fields_set & unseen):
            raise Unacceptable(f"{name}: has no effect on {form}, leave it out")
        return replace(self, form=form)


def resolve(options: AttentionOptions, manifest: Manifest, token_of: TokenOf = lambda text: None) -> AttentionQuery:
    """Check options against the model. Raises Unacceptable, with the reason, for what it cannot serve.

    `token_of` finds the token that `against` names by its text.
    """
    method, best = _method(options, manifest)
    kinds = [kind for kind in manifest.attention if options.kind in (None, kind.name, kind.kind)]
    if not kinds:
        has = ", ".join(kind.name for kind in manifest.attention)
        raise Unacceptable(f"kind: this model has {has}, given another")
    kinds = [kind for kind in kinds if method in kind.methods]
    if not kinds:
        raise Unacceptable(_unserved(method, options, manifest))
    rules = METHODS[method]
    check_score(options, method, manifest)
    heads = heads_of(options, method, rules)
    check_layers_and_rows(options, method, manifest, kinds)
    check_rest(options, rules, manifest, kinds)
    asked = tuple(_kind_query(kind, options, rules, heads, manifest) for kind in kinds)
    targets = targets_of(options, manifest, token_of)
    query = AttentionQuery(
        options,
        asked,
        manifest.attention,
        method,
        explains(manifest),
        targets,
        against_of(options, method, manifest, targets, token_of),
        options.baseline or baselines_of(manifest)[0] if rules.path else None,
        best,
    )
    if options.evaluate:
        _check_evaluation(query)
    return query


def _method(options: AttentionOptions, manifest: Manifest) -> tuple[Method, Recommendation | None]:
    """Return the method asked for, and why it is that one if the best one is."""
    if options.method != "best":
        return options.method, None
    if manifest.best is None:
        methods = ", ".join(methods_of(manifest))
        raise Unacceptable(f"method best: no method was measured on this model; it serves {methods}")
    return manifest.best.method, manifest.best


def _unserved(method: Method, options: AttentionOptions, manifest: Manifest) -> str:
    """Return why a model, or the kind of its maps that is asked for, does not serve a method."""
    served = [name for name in methods_of(manifest) if options.kind is None]
    other = f"; this model serves {', '.join(served)}" if served else f", not {options.kind} of this model"
    in_others = [kind.name for kind in manifest.attention if method in kind.methods]
    rules = METHODS[method]
    reason = rules.why_not_served
    if was_left_out(manifest, method):
        few_bits = rules.by_gradient and manifest.precision in ("int8", "int4") and manifest.explained is None
        reason = NOT_IN_FEW_BITS if few_bits else "was left out when this model was exported"
    elif in_others and (rules.by_gradient or any(kind.windows for kind in manifest.attention)):
        reason = f"is in {' and '.join(in_others)}"
    return f"method {method}: {reason}{other}"


def runs_of(method: Method, points: int = DEFAULT_STEPS) -> int:
    """Return how often the graph of a method runs for a target: at the points of a path and at its ends, or once."""
    return points + len(PATH_ENDS) if METHODS[method].path else 1


def check_runs(count: int, query: AttentionQuery) -> None:
    """Raise TooLarge if a request would run graphs more often than `MOST_RUNS`."""
    if count > MOST_RUNS:
        fewer = f"steps={query.points} or less" if query.refines else "fewer steps"
        raise TooLarge(
            f"attention: at most {MOST_RUNS} runs a request, this one would have {count}; "
            f"ask for fewer targets or inputs, or for {fewer}"
        )


def image_kind(kinds: Sequence[Kind]) -> Kind:
    """Return the first kind whose keys are the patches of an image."""
    return next(kind for kind in kinds if kind.grid)


def methods_of(manifest: Manifest) -> list[Method]:
    """Return the methods that some kind of a model's maps can serve."""
    order: tuple[Method, ...] = get_args(Method)
    return [method for method in order if any(method in kind.methods for kind in manifest.attention)]


def evaluated_kind(kinds: Sequence[Kind]) -> Kind:
    """Return the kind whose columns are the input of a model: `cross` of an encoder-decoder, else its only kind."""
    return next((kind for kind in kinds if kind.kind == "cross" and kind.query != POOL), kinds[0])


def _check_evaluation(query: AttentionQuery) -> None:
    """Refuse an evaluation of what has no order of parts: more than one row or target, or words."""
    options, kind = query.options, evaluated_kind(query.model_kinds)
    if options.orders > 1 and COMPARE in options.evaluate:
        raise Unacceptable(f"orders: must be 1 for {COMPARE}, given {options.orders}")
    if options.merge:
        raise Unacceptable("evaluate: needs tokens rather than words, leave merge out")
    if len(query.targets or (-1,)) != 1:
        raise Unacceptable(ONE_ROW)
    if COMPARE in options.evaluate:  # of maps that are computed beside those asked for
        if len(options.evaluate) > 1:
            raise Unacceptable(f"evaluate: {COMPARE} has both curves, ask for it alone")
        return
    own = [one for one in query.kinds if is_of(query.shown(one.kind), kind)]
    if not own:
        raise Unacceptable(f"evaluate: is of {kind.name}, whose columns are the input, and which is not asked for")
    if len(own) > 1:
        raise Unacceptable(f"evaluate: is of one kind, given {len(own)}; ask for one of them as kind")
    if query.count_maps(own[0], 1) * own[0].maps_of_heads != 1 or not has_one_row(query, own[0]):
        raise Unacceptable(ONE_ROW)


def is_of(kind: Kind, evaluated: Kind) -> bool:
    """Return whether a map of a kind explains what is evaluated; of several stages, those with the first one's keys."""
    return kind.key == evaluated.key if evaluated.windows else kind == evaluated


def has_one_row(query: AttentionQuery, one: KindQuery) -> bool:
    """Return whether one row of a map explains what is evaluated: a token's, a class token's, or the only one."""
    if query.rules.rowless or query.explains in OF_PLACES or query.summarized or one.queries in ("cls", "mean"):
        return True
    if one.kind.length:
        return len(one.rows(one.kind.length)) == 1
    return isinstance(one.queries, tuple) and len(one.queries) == 1


def _kind_query(
    kind: Kind, options: AttentionOptions, rules: MethodRules, heads: Indices | Fusion, manifest: Manifest
) -> KindQuery:
    """Return the layers, heads and rows that the options ask for, or their defaults."""
    count = count_states(manifest) if rules.of_states else kind.blocks if rules.by_states else len(kind.maps)
    default = rules.default_layers
    if isinstance(default, Fraction):
        default = (max(round(default * count) - 1, 0),)
    layers: Indices = default if options.layers is None else options.layers
    if options.start_layer is not None:
        (start,) = select("start_layer", (options.start_layer,), count)
        layers = slice(start, None)
    chosen = tuple(select("layers", layers, count))
    return KindQuery(
        kind,
        chosen if rules.by_layer else tuple(sorted(chosen)),
        heads if isinstance(heads, str) and heads != "all" else tuple(select("heads", heads, kind.heads)),
        rows_of(kind, options.queries or "all" if rules.by_states or rules.rowless else options.queries),
    )


def count_states(manifest: Manifest) -> int:
    """Return how many layers' states libra can explain: those of the port of its biases (batch, layer)."""
    ports = manifest.graphs["libra"].outputs
    return next(int(port.axes[-1]) for port in ports if port.name == "biases")
