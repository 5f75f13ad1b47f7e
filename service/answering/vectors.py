"""The vectors that inputs are compared with: of texts, such as the labels of a request, and of pictures."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from service.answering.modalities import PendingInput, modality_of, permit_decoding
from service.batching.fair_queue import Caller
from service.concurrency import together
from service.errors import TooLarge, Unacceptable
from service.repository.models.known_vectors import unit
from service.repository.models.predictor import Embedder, Predictor
from service.repository.models.served_model import Prediction
from service.state import State

Vectors: TypeAlias = npt.NDArray[np.float64]


async def vectors_of_texts(
    state: State, served: Embedder, texts: Sequence[str], caller: Caller, subject: str
) -> Vectors:
    """Return the vector of each text (text, width), of length one; what is not known is predicted. Raises Busy.

    `subject` is what a request calls them. Raises TooLarge for texts that are too long together, or one that is, and
    Unacceptable for one of too many tokens.
    """
    if (length := sum(map(len, texts))) > (most := state.settings.max_text_bytes):
        raise TooLarge(f"{subject}: at most {most} characters in their sentences together, given {length}")
    fresh: dict[str, Prediction] = {}
    if missing := served.known.missing(texts):
        try:
            pending = await modality_of(served).prepare(state, missing, [False] * len(missing), count=1)
        except (TooLarge, Unacceptable) as error:
            reason = error.detail.removesuffix(" (against)").removeprefix("input: ")
            error.detail = f"{subject}: {reason}, of one sentence"
            raise
        fresh = dict(zip(missing, await _predicted(served, pending, caller), strict=True))
    return served.known.of(texts, fresh)


async def vectors_of_files(state: State, served: Predictor, files: Sequence[bytes], caller: Caller) -> Vectors:
    """Return the vector of each picture (picture, width), of length one. Raises Busy, and what decoding does."""
    pending = await modality_of(served).prepare(state, files, count=0)
    with permit_decoding(pending, caller):
        return np.array([unit(one) for one in await _predicted(served, pending, caller)])


async def _predicted(served: Predictor, pending: Sequence[PendingInput], caller: Caller) -> list[Prediction]:
    """Return what a model answers for some inputs, once there is room for them. Raises Busy."""

    async def predicted(one: PendingInput) -> Prediction:
        return await served.predict(await one.decode(), caller)

    queue, cost = served.cost([one.lengths for one in pending])
    with queue.permit(cost, caller, len(pending)):
        return await together(predicted(one) for one in pending)
