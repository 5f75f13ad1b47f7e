"""Looks inside a layer: runs its graph for one row and one column of an input."""

from collections.abc import Mapping, Sequence

import numpy as np

from contract.manifest import INSIDE
from service.arrays import Array
from service.batching.fair_queue import Caller
from service.explanations.inside import InsideQuery
from service.inputs.model_input import ModelInput, Text, Token
from service.options.attention import AttentionOptions
from service.repository.explaining.explain import axes_of, axes_of_generated
from service.repository.models.generator import Generator
from service.repository.models.gradient_jobs import GradientJob
from service.repository.models.served_model import ServedModel


async def look_inside(served: ServedModel, item: ModelInput, query: InsideQuery, caller: Caller) -> Mapping[str, Array]:
    """Return what the layer makes of the row and the column, by the names of `INSIDE`, each (head, numbers)."""
    positions: dict[str, Array] = {"query": np.array(query.query), "key": np.array(query.key)}
    (found,) = await served.explain_scores("inside", [GradientJob(item, positions, (query.layer,))], caller)
    return {what: found[f"{query.kind.name}.{what}"][:, 0] for what in INSIDE}


def with_target(
    served: ServedModel, item: ModelInput, text: Text, target: Sequence[int] | None
) -> tuple[ModelInput, Mapping[str, Sequence[Token]]]:
    """Return an input, with the target that was generated from it if there is one, and the tokens of its axes."""
    if not isinstance(served, Generator) or target is None:
        return item, axes_of(item, text)[0]
    query = served.query(AttentionOptions())
    return served.finished(item, target, query), axes_of_generated(served, item, text, target, query)[0]
