"""The other input that one is compared with: a text or an image in `against`, or that of an earlier request."""

from dataclasses import dataclass
from typing import Literal

from service.answering.call import Call
from service.answering.earlier import find_earlier
from service.answering.modalities import could_answer
from service.errors import NotFound, Unacceptable
from service.inputs.encoded_files import IMAGE, decode_file
from service.inputs.model_input import Prompted, Text
from service.options.readers import Against
from service.repository.models.served_model import ServedModel


@dataclass(frozen=True)
class OtherInput:
    """An input that each input of a request is compared with: their embeddings, or the states of their parts."""

    name: Literal["text", "image", "id"]
    """How the request gives it."""
    given: bytes | Text
    """An encoded image, or a text."""
    truncate: bool
    """True if the end of a text that is too long is cut off."""
    served: ServedModel
    """The model that takes it: the one that is asked, or its partner."""


async def read_others(call: Call[ServedModel], *, truncate: bool) -> list[OtherInput]:
    """Return the other inputs that a call's query names: none, one, or the one whose likeness is less the other's.

    None are where it names a class or a token. Raises what `_read` does.
    """
    query = call.query
    against = query.options.against if query and query.compares_inputs else None
    named = [one for one in (against, against.than if against else None) if one]
    return [await _read(call, one, truncate=truncate) for one in named]


async def _read(call: Call[ServedModel], against: Against, *, truncate: bool) -> OtherInput:
    """Return another input. That of an earlier request is cut off as it was then; a text has the inputs' prompt.

    Raises NotFound for an id that is not, or no longer, that of an input that was sent with the same API key to the
    same version of the same model; Unacceptable for that of a request with several inputs; Malformed and TooLarge for
    an image as `decode_image` does.
    """
    state, value = call.state, str(against.value)
    if against.name == "image":
        image = await decode_file(IMAGE, "against", value, state.settings)
        return OtherInput("image", image, truncate, call.served.taking([image]))
    if against.name == "text":
        first = call.inputs[0]
        text = Prompted(value, first.prompt) if isinstance(first, Prompted) else value
        return OtherInput("text", text, truncate, call.served.taking([text]))
    stored = await find_earlier(state.store, value, call.exchange.key_name)
    served = next((one for one in call.served.together if stored and could_answer(one, stored)), None)
    if stored is None or served is None:
        seconds = f"{state.settings.keep_seconds:g}"
        raise NotFound(
            f"against: id must be of a request to this model that was answered, at most {seconds} seconds ago, "
            "given another"
        )
    if (count := len(stored.inputs)) > 1:
        raise Unacceptable(f"against: id must be of one input, given a request of {count}; ID.0 is that of the first")
    if served is not call.served and call.query and call.query.by_states:
        raise Unacceptable(
            "against: id must be of an input of this model, whose states are compared, given its partner's"
        )
    return OtherInput("id", stored.inputs[0], stored.truncate, served)
