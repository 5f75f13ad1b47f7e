"""What an evaluation is of: which map of a request, or which methods of a model side by side."""

from collections.abc import Callable, Sequence
from typing import get_args

from contract.manifest import Kind, Method
from service.errors import Unacceptable
from service.explanations.evaluation import COMPARE, CURVE_NAMES, CurveName
from service.explanations.query import AttentionQuery, KindQuery
from service.explanations.score import GRADIENT_METHODS
from service.options import AttentionOptions

ONE_ROW = "evaluate: needs one map of one row; ask for one layer, fused heads, one query and target"


def evaluated_kind(kinds: Sequence[Kind]) -> Kind:
    """Return the kind whose columns are the input of a model: `cross` of an encoder-decoder, else its only kind."""
    return next((kind for kind in kinds if kind.kind == "cross"), kinds[0])


def curve_names(query: AttentionQuery) -> tuple[CurveName, ...]:
    """Return the curves that a request asks for; all for a comparison."""
    asked: tuple[CurveName, ...] = CURVE_NAMES if is_comparison(query) else query.options.evaluate
    return asked


def is_comparison(query: AttentionQuery) -> bool:
    """Return whether a request asks for all methods side by side."""
    return COMPARE in query.options.evaluate


def check_evaluation(query: AttentionQuery) -> None:
    """Raise Unacceptable for an evaluation of what has no order of parts: more than one row or target, or words."""
    if not query.options.evaluate:
        return
    kind = evaluated_kind(query.model_kinds)
    if query.options.merge:
        raise Unacceptable("evaluate: needs tokens rather than words, leave merge out")
    if len(query.targets or (-1,)) != 1:
        raise Unacceptable(ONE_ROW)
    if is_comparison(query):
        if len(query.options.evaluate) > 1:
            raise Unacceptable(f"evaluate: {COMPARE} has both curves, ask for it alone")
        return
    own = [one for one in query.kinds if one.kind == kind]
    if not own:
        raise Unacceptable(f"evaluate: is of {kind.kind}, whose columns are the input, which is not asked for")
    if query.count_maps(own[0], 1) * own[0].maps_of_heads != 1 or not has_one_row(query, own[0]):
        raise Unacceptable(ONE_ROW)


def has_one_row(query: AttentionQuery, one: KindQuery) -> bool:
    """Return whether one row of a map explains what is evaluated: a token's, a class token's, or the only one."""
    if query.explains == "token" or query.summarized or one.queries == "cls":
        return True
    if one.kind.length:
        return len(one.rows(one.kind.length)) == 1
    return isinstance(one.queries, tuple) and len(one.queries) == 1


def compared(
    query: AttentionQuery, resolve: Callable[[AttentionOptions], AttentionQuery], target: int | None = None
) -> dict[Method, AttentionQuery]:
    """Return the query of each method that a comparison is of: those with one row, by their defaults.

    `target` is the class, mask or position that is explained, once it is known. Raises Unacceptable for a target, or
    something to explain it against, that the model has not.
    """
    kind = evaluated_kind(query.model_kinds)
    found: dict[Method, AttentionQuery] = {}
    order: tuple[Method, ...] = get_args(Method)
    for method in (one for one in order if one in kind.methods):
        options = AttentionOptions(method=method, kind=kind.kind)
        if method in GRADIENT_METHODS:
            asked = query.options.target if target is None else (target,)
            options = options.model_copy(update={"target": asked, "against": query.options.against})
        resolved = resolve(options)
        if has_one_row(resolved, resolved.kinds[0]):
            found[method] = resolved
    return found
