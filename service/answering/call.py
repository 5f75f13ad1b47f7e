"""A request that was read, whatever its protocol: what it asks of which model, and what it is answered with."""

from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from contract.names import BUNDLED, UNSERVED, listed, nearest
from service.answering.modalities import Modality, PendingInput, modality_of
from service.batching.fair_queue import Caller, Priority
from service.errors import NotFound, NotReady
from service.explanations.answer import AttentionAnswer
from service.explanations.query import AttentionQuery
from service.http.answer_deadline import answer_in_time
from service.http.exchange import Exchange, exchange_of
from service.inputs.model_input import Text, cost_of
from service.options.base import RequestOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import ServedModel
from service.state import State

NOT_READY = {
    "warming up": "is warming up",
    "failed": "its runs fail, the service's log says why; it is tried again every few seconds",
}
"""What is said of a model in a state in which it cannot run."""
S = TypeVar("S", bound=ServedModel)
S_co = TypeVar("S_co", bound=ServedModel, covariant=True)

FEW_INPUTS = 32
"""What so few inputs are answered with is written at once."""
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[S_co]):
    """What a request asks of a model, beside its options."""

    state: State
    exchange: Exchange
    served: S_co
    inputs: Sequence[bytes | Text]
    """Encoded images, or texts."""
    query: AttentionQuery | None = None
    """The attention that is asked for beside the answer, or alone."""
    stored_id: str | None = None
    """The id of an earlier request that is asked about again; it is not stored once more."""
    prepared: Sequence[PendingInput] = ()
    """The same inputs, or windows of them, where they were prepared before."""
    copies: int = 1
    """How many inputs were made of each that was sent."""
    ranked: int | None = None
    """How many of the inputs are what a request asks about; the others are what these are compared with."""

    def caller(self, options: RequestOptions) -> Caller:
        """Return whose work it is."""
        return caller_of(self.exchange, options.priority)

    async def present(self, write: Callable[..., R], *arguments: object) -> R:
        """Return what `write` makes of arguments: an answer. It runs on a thread of its own where that takes long.

        That is so of maps, of candidates of masks, of entities, and of many inputs.
        """
        served = self.served
        places = isinstance(served, Predictor) and served.answers_places
        if self.query is None and not places and len(self.inputs) <= FEW_INPUTS:
            return write(*arguments)
        budget = served.attention_budget if self.query else served.prediction_budget
        return await self.state.present(served.manifest.name, budget, write, *arguments)

    def query_with(self, options: RequestOptions) -> AttentionQuery | None:
        """Return the attention that is asked for, with what the options of the answer say of it: what is found."""
        if self.query and isinstance(self.served, Predictor):
            return self.served.query_with(self.query, options)
        return self.query

    @property
    def modality(self) -> Modality:
        """How the inputs of the model are measured and decoded."""
        return modality_of(self.served)


@dataclass(frozen=True)
class Answered(Generic[T]):
    """What a call is answered with."""

    id: str
    """By which the attention of this request can be asked for later."""
    results: Sequence[tuple[T | None, AttentionAnswer | None]]
    """Of each input what is shown of its prediction, and its attention answer, as far as they were asked for."""
    inputs: Sequence[PendingInput]
    """The inputs, with the lengths of their axes in tokens or patches."""
    compared: bytes | Text | None = None
    """The other input that each is compared with."""

    @property
    def shown(self) -> list[T]:
        """What is shown of each input's prediction."""
        return [shown for shown, _ in self.results if shown is not None]

    @property
    def cost(self) -> int:
        """The tokens or patches of all inputs."""
        return sum(cost_of(one.lengths) for one in self.inputs)


def caller_of(exchange: Exchange, priority: Priority = "interactive") -> Caller:
    """Return whose work a request is."""
    return Caller(exchange.client, exchange.own_id, priority)


def find(state: State, name: str) -> ServedModel:
    """Return the model of a name. Raises NotFound."""
    if not state.models:
        raise NotFound("model: none is loaded")
    if name not in state.models:
        raise NotFound(f"model: must be one of {listed(state.models)}, given another{_meant(name, state.models)}")
    return state.models[name]


def _meant(name: str, served: Collection[str]) -> str:
    """Return which model may have been meant by a name, and how it is made if it is bundled but not served.

    Only names that the service knows are said, and nothing of the given one.
    """
    if name in UNSERVED:
        return "; this one is bundled, but attends to nothing, and is not served"
    near = nearest(name, [*served, *BUNDLED])
    if near is None:
        return ""
    if near in served:
        return f"; did you mean {near}?"
    return f"; {near} is bundled, but not served here: make artifacts/{near}/1/manifest.json, then start or reload"


def find_ready(state: State, name: str, endpoint: str, kind: type[S]) -> S:
    """Return a model that serves an endpoint and can run. Raises NotFound and NotReady."""
    served = find(state, name)
    if endpoint not in served.endpoints:
        raise NotFound(
            f"{endpoint}: this model's task is {served.manifest.task}; it serves {', '.join(served.endpoints)}"
        )
    check_ready(served)
    return narrowed(served, kind)


def check_ready(served: ServedModel) -> None:
    """Raise NotReady if a model cannot run yet, or can no longer run."""
    if failing := next((one for one in served.together if one.state != "ready"), None):
        raise NotReady(f"model: {NOT_READY[failing.state]}", seconds=1)


def narrowed(served: ServedModel, kind: type[S]) -> S:
    """Return a model as one of a kind, which its endpoints say that it is."""
    if not isinstance(served, kind):
        raise TypeError(f"{served.manifest.name}: must be {kind.__name__}")
    return served


async def answer(request: Request, state: State, served: ServedModel, work: Coroutine[Any, Any, Response]) -> Response:
    """Answer within the deadline; the model is in use until then. Raises TooSlow."""
    exchange_of(request.scope).model = served.manifest.name
    with served.used():
        return await answer_in_time(request, work, state.settings.request_seconds)
