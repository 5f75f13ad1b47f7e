"""The same service for `async` and `await`, by asyncio or trio."""

from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Self, Unpack, overload

import httpx
from PIL import Image

from regard import calls, comparing
from regard.attention import Attention, AttentionOptions, LookedAt, Method, PictureOptions
from regard.calls import Call, P, T
from regard.connecting import Connecting
from regard.errors import NotFound, StreamBroken
from regard.inputs import Input, Picture, Sound, Text, encode, with_rate
from regard.maps import Json
from regard.models import Description
from regard.results import Look, R, Result
from regard.service import asked_attention, is_forgotten, known, of_picture, streamed, with_method
from regard.showing import opened
from regard.tasks import task_of
from regard.tasks.answering import ANSWER, Answered, AnswerOptions
from regard.tasks.classification import CLASSIFY, Classification, ClassifyOptions
from regard.tasks.detection import DETECT, Detection, DetectOptions
from regard.tasks.embedding import EMBED, CompareOptions, Embedding, EmbedOptions
from regard.tasks.fill_mask import FILL_MASK, Filled, FillMaskOptions
from regard.tasks.generation import GENERATE, GenerateOptions, Generation, StreamedToken
from regard.tasks.ranking import Ranked, RerankOptions
from regard.tasks.similarity import Similarity
from regard.tasks.sparse_embedding import EMBED_SPARSE, SparseEmbedding, SparseOptions
from regard.tasks.tagging import TAG, Tagged, TagOptions
from regard.tasks.task import ATTENTION, Task
from regard.tasks.transcription import TRANSCRIBE, Segment, TranscribeOptions, Transcription
from regard.transport import UNREADABLE, AsyncTransport, incompatible


class AsyncService:
    """A service at an address: `async with regard.AsyncService(url) as service: model = await service.model("digits")`.

    It takes what `regard.connect` takes, and asks nothing before the first call.
    """

    def __init__(self, url: str | None = None, key: str | None = None, **options: Unpack[Connecting]) -> None:
        self._transport = AsyncTransport(*known(url, key), options)

    @property
    def url(self) -> str:
        """The address."""
        return self._transport.address

    async def models(self) -> list[Description]:
        """Return the models that the service has, as it describes them."""
        return await self._transport.send(calls.list_models())

    async def model(self, name: str) -> "AsyncModel":
        """Return a model by its name. Raises NotFound if there is none of it."""
        return AsyncModel(self._transport, await self._transport.send(calls.get_model(name)))

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<regard service at {self.url}>"


class AsyncStream(Generic[P, R]):
    """The parts of an answer as they come: `async for token in stream`. Then `result` is the whole answer."""

    def __init__(self, transport: AsyncTransport, call: Call[Any], events: calls.Events[P, R]) -> None:
        self._events = events
        self._parts = _read(transport, call, events)

    @property
    def result(self) -> R:
        """The whole answer, once all parts came. Raises StreamBroken before that."""
        return self._events.end()

    def __repr__(self) -> str:
        return repr(self._events)

    def __aiter__(self) -> AsyncIterator[P]:
        return self._parts

    async def __anext__(self) -> P:
        return await anext(self._parts)

    async def close(self) -> None:
        """Stop, and close the connection."""
        await self._parts.aclose()  # type: ignore[attr-defined] # it is a generator

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


async def _read(transport: AsyncTransport, call: Call[Any], events: calls.Events[P, R]) -> AsyncIterator[P]:
    """Yield the parts of a stream. The event loop closes one that is left half read."""
    async with transport.lines(call) as lines:
        try:
            async for line in lines:
                if part := events.take(line):
                    yield part
        except (httpx.HTTPError, httpx.StreamError) as error:
            message = f"stream: broke off ({type(error).__name__}); ask again, or without stream"
            raise StreamBroken(message, events.text) from error
        except UNREADABLE as error:
            raise incompatible(None) from error
    events.end()


class AsyncModel:
    """A model of a service. Awaited with an input, it answers what it was made for.

    Inputs and options are those of `regard.Model`.
    """

    def __init__(self, transport: AsyncTransport, description: Description) -> None:
        self._transport = transport
        self.description = description

    @property
    def name(self) -> str:
        """The model's name."""
        return self.description.name

    async def __call__(self, given: Input, **options: object) -> Result:
        """Return the answer of the model's own task, such as `classify`."""
        return await self._one(task_of(self.description), given, options)

    async def classify(self, given: Input, **options: Unpack[ClassifyOptions]) -> Classification:
        """Return the likeliest classes of a picture, a text or a graph."""
        return await self._one(CLASSIFY, given, options)

    async def classify_batch(self, given: Iterable[Input], **options: Unpack[ClassifyOptions]) -> list[Classification]:
        """Return the likeliest classes of each of several pictures, texts or graphs."""
        return await self._all(CLASSIFY, given, options)

    async def detect(self, given: Picture, **options: Unpack[DetectOptions]) -> Detection:
        """Return the objects of a picture: which they are, and where."""
        return await self._one(DETECT, given, options)

    async def detect_batch(self, given: Iterable[Picture], **options: Unpack[DetectOptions]) -> list[Detection]:
        """Return the objects of each of several pictures."""
        return await self._all(DETECT, given, options)

    async def embed(self, given: Input, **options: Unpack[EmbedOptions]) -> Embedding:
        """Return a text, a picture or a graph as a vector."""
        return await self._one(EMBED, given, options)

    async def embed_batch(self, given: Iterable[Input], **options: Unpack[EmbedOptions]) -> list[Embedding]:
        """Return each of several texts, pictures or graphs as a vector."""
        return await self._all(EMBED, given, options)

    async def embed_sparse(self, given: Text, **options: Unpack[SparseOptions]) -> SparseEmbedding:
        """Return the words that a text is about, with their weights."""
        return await self._one(EMBED_SPARSE, given, options)

    async def embed_sparse_batch(
        self, given: Iterable[Text], **options: Unpack[SparseOptions]
    ) -> list[SparseEmbedding]:
        """Return the words that each of several texts is about."""
        return await self._all(EMBED_SPARSE, given, options)

    async def fill_mask(self, given: Text, **options: Unpack[FillMaskOptions]) -> Filled:
        """Return candidates for every mask of a text."""
        return await self._one(FILL_MASK, given, options)

    async def fill_mask_batch(self, given: Iterable[Text], **options: Unpack[FillMaskOptions]) -> list[Filled]:
        """Return candidates for every mask of each of several texts."""
        return await self._all(FILL_MASK, given, options)

    async def tag(self, given: Text, **options: Unpack[TagOptions]) -> Tagged:
        """Return the entities of a text."""
        return await self._one(TAG, given, options)

    async def tag_batch(self, given: Iterable[Text], **options: Unpack[TagOptions]) -> list[Tagged]:
        """Return the entities of each of several texts."""
        return await self._all(TAG, given, options)

    async def answer(self, question: str, context: str, **options: Unpack[AnswerOptions]) -> Answered:
        """Return what answers a question in a context."""
        return await self._one(ANSWER, (question, context), options)

    async def answer_batch(self, given: Iterable[tuple[str, str]], **options: Unpack[AnswerOptions]) -> list[Answered]:
        """Return what answers each of several questions, each with its context."""
        return await self._all(ANSWER, given, options)

    async def generate(self, given: Input, **options: Unpack[GenerateOptions]) -> Generation:
        """Return the text that the model writes for a text, the messages of a chat or a picture."""
        return await self._one(GENERATE, given, options)

    async def generate_batch(self, given: Iterable[Input], **options: Unpack[GenerateOptions]) -> list[Generation]:
        """Return the text that the model writes for each of several texts or pictures."""
        return await self._all(GENERATE, given, options)

    def stream(self, given: Input, **options: Unpack[GenerateOptions]) -> AsyncStream[StreamedToken, Generation]:
        """Return the tokens of a text as the model writes them."""
        return AsyncStream(self._transport, *streamed(GENERATE, self.description, given, options, None))

    @overload
    def transcribe(
        self, given: Sound, rate: int | None = None, *, stream: Literal[True], **options: Unpack[TranscribeOptions]
    ) -> AsyncStream[Segment, Transcription]: ...

    @overload
    def transcribe(
        self,
        given: Sound,
        rate: int | None = None,
        *,
        stream: Literal[False] = False,
        **options: Unpack[TranscribeOptions],
    ) -> Coroutine[Any, Any, Transcription]: ...

    def transcribe(
        self, given: Sound, rate: int | None = None, *, stream: bool = False, **options: Unpack[TranscribeOptions]
    ) -> AsyncStream[Segment, Transcription] | Coroutine[Any, Any, Transcription]:
        """Return what was said in a sound, to await; with `stream`, its segments as they are heard."""
        sound = with_rate(given, rate)
        if stream:
            return AsyncStream(self._transport, *streamed(TRANSCRIBE, self.description, sound, options, None))
        return self._one(TRANSCRIBE, sound, options)

    async def transcribe_batch(
        self, given: Iterable[Sound], rate: int | None = None, **options: Unpack[TranscribeOptions]
    ) -> list[Transcription]:
        """Return what was said in each of several sounds."""
        return await self._all(TRANSCRIBE, calls.with_rates(given, rate), options)

    async def rerank(self, query: str, texts: Iterable[str], **options: Unpack[RerankOptions]) -> list[Ranked]:
        """Return the texts that answer a query, best first."""
        return await self._transport.send(comparing.ranking(self.description, query, texts, options))

    async def similarity(
        self, source: Input | Sequence[Input], inputs: Iterable[Input], **options: Unpack[CompareOptions]
    ) -> list[Similarity]:
        """Return how alike each text, or picture, is to a source, or to each of several."""
        return await self._transport.send(comparing.similarity(self.description, source, inputs, options))

    async def attention(self, given: Input, **options: Unpack[LookedAt]) -> Look:
        """Return what the model looks at, without its prediction: `.attention` of the answer."""
        return await self._one(ATTENTION, given, asked_attention(self.description, options))

    async def attention_batch(self, given: Iterable[Input], **options: Unpack[LookedAt]) -> list[Look]:
        """Return what the model looks at in each of several inputs."""
        return await self._all(ATTENTION, given, asked_attention(self.description, options))

    async def look(
        self, result: Result, method: Method | None = None, **options: Unpack[AttentionOptions]
    ) -> Attention:
        """Return what the model looked at for an answer; the input is not sent again while the service keeps it."""
        asked = with_method(self.description, method, options)
        return await self._kept(result, calls.stored_attention(result, asked), calls.attention_again(result, asked))

    async def image(
        self, result: Result, method: Method | None = None, **options: Unpack[PictureOptions]
    ) -> Image.Image:
        """Return what the model looked at as the service draws it."""
        asked = of_picture(self.description, method, options)
        stored = calls.stored_picture(result, asked)
        again = calls.picture_again(result, asked)
        return opened(await self._kept(result, stored, again))

    async def _kept(self, result: Result, stored: Call[T], again: Call[T]) -> T:
        if stored.fits or not result.asked.is_repeatable:
            try:
                return await self._transport.send(stored)
            except NotFound as error:
                if not is_forgotten(error, result):
                    raise
        return await self._transport.send(again)

    async def _one(self, task: Task[R], given: object, options: Json) -> R:
        inputs = [encode(given, self.description.sent)]
        (found,) = await self._transport.send(calls.predictions(task, self.description, inputs, options))
        return found

    async def _all(self, task: Task[R], given: Iterable[object], options: Json) -> list[R]:
        found = list[R]()
        for start, batch in calls.batches(self.description, given, len(options.get("labels", "1"))):
            with calls.placed(start, batch):
                call = calls.predictions(task, self.description, batch, options)
                answers = await self._transport.send(call)
            found += answers
        return found

    def __repr__(self) -> str:
        return f"<regard model {self.name}: {self.description.task}>"
