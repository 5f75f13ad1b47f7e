"""What stands out in a picture: the map of its graph, which knows nothing of the model's answer."""

from contract.manifest import SALIENCY
from service.batching.fair_queue import Caller
from service.explanations.answer import AttentionMap
from service.explanations.query import AttentionQuery
from service.inputs.model_input import ModelInput
from service.repository.models.gradient_jobs import GradientJob
from service.repository.models.graph_controls import grid_entry
from service.repository.models.served_model import ServedModel


async def find_salient(
    served: ServedModel, item: ModelInput, query: AttentionQuery, caller: Caller
) -> list[AttentionMap]:
    """Return the map of a picture: a number for each token of a kind, 0 for those that are no patches."""
    (kind,) = (one.kind for one in query.kinds)
    (found,) = await served.explain_scores(SALIENCY, [GradientJob(item, {})], caller)
    named = {"name": kind.name, "kind": kind.name, "layer": None, **grid_entry(kind)}
    entry: dict[str, object] = {**named, "heads": None, "normalized": False, "queries": None}
    return [AttentionMap(kind, entry, found[kind.name][None, None], None)]
