"""One step inside the attention of an earlier request: it is checked, admitted, run again, and answered."""

from collections.abc import Mapping

from service.answering.call import Call
from service.answering.earlier import check_one_input, prepare_earlier
from service.answering.modalities import permit_decoding
from service.answering.predictions import keep
from service.explanations.inside import check_inside_size, inside_answer, resolve_inside
from service.inputs.model_input import cost_of
from service.options.inside import InsideOptions
from service.repository.explaining.inside import look_inside, with_target
from service.repository.models.generator import Generator
from service.repository.models.served_model import ServedModel
from service.store.stored_request import StoredRequest


async def one_step_inside(call: Call[ServedModel], options: InsideOptions, stored: StoredRequest) -> dict[str, object]:
    """Return what is inside a layer, for the input of a stored request and the target that was generated from it.

    Raises Unacceptable for a request of several inputs, and for what the model has not, TooLarge and Busy.
    """
    state, served, modality = call.state, call.served, call.modality
    check_one_input(stored)
    caller = call.caller(options)
    target = stored.targets[0] if stored.targets else None
    (likely,) = modality.likely_lengths(stored.inputs)
    size, budget = served.footprint.gradient, served.attention_budget
    with budget.permit(size(_lengths(served, stored, likely)), caller):  # else a text would be tokenized in vain
        pending = await prepare_earlier(state, served, stored)
    lengths = _lengths(served, stored, pending.lengths)
    query = resolve_inside(options, served.manifest, lengths)
    check_inside_size(query, served.manifest, lengths, state.settings.max_answer_bytes)
    served.check_run(None, [lengths])
    with budget.permit(size(lengths), caller), permit_decoding([pending], caller):
        item, axes = with_target(served, await pending.decode(), pending.text, target)
        found = await look_inside(served, item, query, caller)
        named = {"id": await keep(call, stored), "model": stored.model, "version": stored.version}
        return {**named, **inside_answer(query, found, axes)}


def _lengths(served: ServedModel, stored: StoredRequest, own: Mapping[str, int]) -> Mapping[str, int]:
    """Return the lengths of all axes, of an input with these lengths of its own."""
    if isinstance(served, Generator) and stored.targets:
        return served.lengths(cost_of(own), len(stored.targets[0]))
    return own
