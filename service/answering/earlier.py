"""Earlier requests, by id: whole ones, and single inputs of those that had several."""

import re

from service.answering.modalities import PendingInput, modality_of
from service.errors import Unacceptable
from service.inputs.model_input import LanguageTokens
from service.inputs.text_inputs import MODEL_LANGUAGES
from service.options.generation import GenerateOptions
from service.repository.models.generator import Generator
from service.repository.models.served_model import ServedModel
from service.state import State
from service.store.stored_request import Store, StoredRequest

OF_SEVERAL = re.compile(r"(?P<id>.+)\.(?P<number>0|[1-9][0-9]{0,8})")
"""The id of one input of a request: the request's, and the input's number."""


def id_of_input(request_id: str, number: int, count: int) -> str:
    """Return the id of an input of a request with `count` of them; of a single one it is the request's."""
    return request_id if count == 1 else f"{request_id}.{number}"


async def find_earlier(store: Store, id: str, owner: str | None) -> StoredRequest | None:  # noqa: A002 # the word of the API
    """Return a request that was answered, or with one of its inputs alone, by id; None if none is kept of that owner.

    Raises NotReady if the store cannot be read.
    """
    found, named = await store.get(id, owner), OF_SEVERAL.fullmatch(id)
    if found or not named:
        return found
    whole, number = await store.get(named["id"], owner), int(named["number"])
    return whole.only(number) if whole and number < len(whole.inputs) else None


def check_one_input(stored: StoredRequest) -> None:
    """Raise Unacceptable for a request of several inputs, of which only one can be asked about."""
    if len(stored.inputs) != 1:
        raise Unacceptable(f"id: must be of one input, given that of {len(stored.inputs)}; ask for ID.0, or another")


async def prepare_earlier(state: State, served: ServedModel, stored: StoredRequest) -> PendingInput:
    """Return the only input of a stored request, as it was prepared then. Raises Unacceptable for several windows."""
    languages, windows = languages_of(served, stored), stored.windows
    first, *others = await modality_of(served).prepare(
        state, stored.inputs, [stored.truncate], languages, windows=windows
    )
    if others:
        raise Unacceptable(f"id: must be of a text that was read at once, given one of {len(others) + 1} windows")
    return first


def languages_of(served: ServedModel, stored: StoredRequest) -> LanguageTokens:
    """Return the tokens of the languages that a stored request asked for."""
    if not isinstance(served, Generator):
        return MODEL_LANGUAGES
    options = GenerateOptions(source_language=stored.source_language, target_language=stored.target_language)
    return served.language_tokens(options)
