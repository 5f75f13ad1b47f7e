"""What the protocols ask of a task. A task of one pass and one that generates answer it by different ways."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.modalities import modality_of
from service.answering.predictions import predict
from service.api.pipelines.asked import Asked
from service.api.reading.call import call_of
from service.api.reading.request_parsing import ParsedRequest
from service.api.reading.sorts import read_own
from service.api.tasks.answers import Answer
from service.api.tasks.tensors import Output, Row
from service.options.base import RequestOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction, ServedModel
from service.state import State
from service.store.stored_request import StoredRequest

S = TypeVar("S", bound=ServedModel)
P = TypeVar("P", bound=Predictor)
T = TypeVar("T")
Show = Callable[[Prediction], T]
"""Makes of the prediction of one input what is shown of it."""
Json = dict[str, object]


class Endpoint(ABC, Generic[S]):
    """One endpoint of models."""

    endpoint: ClassVar[str]
    """The end of its path."""
    model: type[S]
    about: ClassVar[str]
    """What its operation does, in a sentence."""

    @property
    def operation(self) -> str:
        """The name of its operation, by which generated clients know it."""
        return self.endpoint.replace("-", "_")

    @abstractmethod
    async def ask(self, request: Request, state: State, served: S) -> Response:
        """Read a request to a model, and answer it in our own protocol."""


class Task(Endpoint[S]):
    """The endpoint of the tasks of manifests that it serves: which models it asks, and how it writes answers."""

    async def ask(self, request: Request, state: State, served: S) -> Response:
        """Read the inputs and options of a request, and answer it."""
        served, parsed = await read_own(request, state.settings, served)
        options = parsed.options(self.options(served))
        return await self.answer(call_of(request, state, served, parsed), options)

    @abstractmethod
    def options(self, served: S) -> type[RequestOptions]:
        """Return the class of the options that the endpoint takes."""

    def attention_options(self, served: S) -> type[RequestOptions]:
        """Return the options of attention alone, beside those of attention itself."""
        return modality_of(served).options

    def tensor_options(self, served: S) -> type[RequestOptions]:
        """Return the options where answers are tensors, which hold what is not shown in part."""
        return self.attention_options(served)

    def stored_options(self, served: S, stored: StoredRequest, parsed: ParsedRequest) -> RequestOptions:
        """Return the options for asking about a stored request."""
        return modality_of(served).stored_options(stored, parsed.options(RequestOptions))

    def asked_of_stored(self, served: S, stored: StoredRequest, given: Json) -> Json:
        """Return the options of attention to a stored request, as they were sent, with those that it implies."""
        return given

    @abstractmethod
    async def answer(self, call: Call[S], options: RequestOptions) -> Response:
        """Answer in our own protocol."""

    @abstractmethod
    async def attend(self, call: Call[S], options: RequestOptions, stored: StoredRequest | None = None) -> Response:
        """Answer with attention alone, perhaps to a stored request."""

    @abstractmethod
    async def answer_pipeline(self, asked: Asked, served: S) -> Response:
        """Answer as the pipeline of the task does, for Hugging Face's clients."""

    @abstractmethod
    def outputs(self, served: S) -> list[Output]:
        """Return the tensors that are answered where a request of the Open Inference Protocol names none."""

    @abstractmethod
    async def infer(
        self, call: Call[S], options: RequestOptions, respond: Callable[[Answered[Row]], Awaitable[Response]]
    ) -> Response:
        """Return what `respond` makes of the rows of tensors, one for each input."""


class OnePass(Task[P]):
    """A task that one pass answers: it says how a prediction is shown."""

    @abstractmethod
    def shown(self, served: P, options: RequestOptions) -> Show[Json]:
        """Return what shows a prediction in our own protocol."""

    @abstractmethod
    def row(self, served: P, options: RequestOptions) -> Show[Row]:
        """Return what makes a row of tensors of a prediction."""

    async def answer(self, call: Call[P], options: RequestOptions) -> Response:
        """Predict."""
        return await predict(call, options, self.shown(call.served, options), Answer(call, options))

    async def attend(self, call: Call[P], options: RequestOptions, stored: StoredRequest | None = None) -> Response:
        """Explain; what is predicted is not shown."""
        return await predict(call, options, None, Answer(call, options))

    async def infer(
        self, call: Call[P], options: RequestOptions, respond: Callable[[Answered[Row]], Awaitable[Response]]
    ) -> Response:
        """Predict, as rows of tensors."""
        return await predict(call, options, self.row(call.served, options), respond)
