"""A comparison of all methods of a model on one input: the query of each."""

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from contract.manifest import STATE_METHODS, Method
from service.errors import Unacceptable
from service.explanations.evaluation import COMPARE, CURVE_NAMES, CurveName
from service.explanations.methods import METHODS
from service.explanations.query import AttentionQuery, evaluated_kind, has_one_row, is_of
from service.explanations.score import OF_PLACES
from service.options.attention import AttentionOptions


def is_comparison(query: AttentionQuery) -> bool:
    """Return whether a request asks for all methods side by side."""
    return COMPARE in query.options.evaluate


def curve_names(query: AttentionQuery) -> tuple[CurveName, ...]:
    """Return the curves that a request asks for; all for a comparison."""
    asked: tuple[CurveName, ...] = query.options.evaluate
    return CURVE_NAMES if is_comparison(query) else asked


def compared(
    query: AttentionQuery, resolve: Callable[[AttentionOptions], AttentionQuery], target: int | None = None
) -> dict[Method, AttentionQuery]:
    """Return the query of each method that a comparison is of: those with one row, by their defaults.

    `target` is the class, mask or position that is explained, once it is known. Raises Unacceptable for a target, or
    for something to explain it against, that the model has not, and if no method has one row.
    """
    evaluated = evaluated_kind(query.model_kinds)
    # of several stages, the last one whose maps are over the patches of the first: it knows of all before it
    kinds = query.model_kinds[::-1] if evaluated.windows else (evaluated,)
    found: dict[Method, AttentionQuery] = {}
    order: tuple[Method, ...] = get_args(Method)
    explaining = [method for method in order if method not in STATE_METHODS]
    for method, kind in ((method, kind) for method in explaining for kind in kinds if method in kind.methods):
        options = AttentionOptions(method=method, kind=kind.name)
        if METHODS[method].by_gradient:
            asked = query.options.target if target is None else (target,)
            against = {"against": query.options.against} if "against" in query.options.model_fields_set else {}
            options = options.model_copy(update={"target": asked, **against})
        elif query.explains in OF_PLACES and not METHODS[method].rowless:  # whose own row is among them
            options = options.model_copy(update={"queries": "all"})
        resolved = replace(resolve(options), kept=query.kept)
        (one,) = resolved.kinds
        if method not in found and is_of(resolved.shown(kind), evaluated) and has_one_row(resolved, one):
            found[method] = resolved
    if not found:
        raise Unacceptable(f"evaluate: {COMPARE} needs a method whose map has one row, and this model has none")
    return found
