"""A service and its models, to ask in Python."""

import _thread
import inspect
import os
import weakref
from collections.abc import Generator, Iterable, Sequence
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
from regard.results import Asker, Look, R, Result
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
from regard.transport import UNREADABLE, Transport, incompatible

KEY_VARIABLE = "REGARD_KEY"
URL_VARIABLE = "REGARD_URL"
URL = "http://127.0.0.1:8000"


def connect(url: str | None = None, key: str | None = None, **options: Unpack[Connecting]) -> "Service":
    """Return a service that answers at an address, after a look at its models.

    `url` is its address, or else that of the environment's REGARD_URL, or else http://127.0.0.1:8000. `key` is an API
    key, or else that of REGARD_KEY. Raises NoService if nothing answers there, and KeyRefused without a key where
    one is needed.
    """
    service = Service(url, key, **options)
    try:
        service.models()
    except BaseException:
        service.close()
        raise
    return service


class Service:
    """A service at an address. `service["digits"]` is one of its models.

    It may be used by several threads at once. `close` it, or use it as a context manager, to close its connections.
    """

    def __init__(self, url: str | None = None, key: str | None = None, **options: Unpack[Connecting]) -> None:
        self._transport = Transport(*known(url, key), options)

    @property
    def url(self) -> str:
        """The address."""
        return self._transport.address

    def models(self) -> list[Description]:
        """Return the models that the service has, as it describes them."""
        return self._transport.send(calls.list_models())

    def __getitem__(self, name: str) -> "Model":
        """Return a model by its name. Raises NotFound if there is none of it."""
        return Model(self._transport, self._transport.send(calls.get_model(name)))

    model = __getitem__

    def close(self) -> None:
        """Close the connections."""
        self._transport.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<regard service at {self.url}>"


class Stream(Generic[P, R]):
    """The parts of an answer as they come: iterate over it. Afterwards `result` is the whole answer.

    They are the tokens of a text, or the segments of what was said.

    Close it in the thread that reads it, or use it as a context manager, to stop earlier: the service then stops, too.
    """

    def __init__(self, transport: Transport, call: Call[Any], events: calls.Events[P, R]) -> None:
        self._events = events
        self._parts = _read(transport, call, events)
        weakref.finalize(self, _abandon, self._parts).atexit = False

    @property
    def result(self) -> R:
        """The whole answer, once all parts came. Raises StreamBroken before that."""
        return self._events.end()

    def __repr__(self) -> str:
        return repr(self._events)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> P:
        return next(self._parts)

    def close(self) -> None:
        """Stop, and close the connection."""
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _read(transport: Transport, call: Call[Any], events: calls.Events[P, R]) -> Generator[P]:
    """Yield the parts of a stream. It does not know the stream, so that the stream ends before it does: `_abandon`."""
    with transport.lines(call) as lines:
        try:
            for line in lines:
                if part := events.take(line):
                    yield part
        except (httpx.HTTPError, httpx.StreamError) as error:
            message = f"stream: broke off ({type(error).__name__}); ask again, or without stream"
            raise StreamBroken(message, events.text) from error
        except UNREADABLE as error:
            raise incompatible(None) from error
    events.end()


def _abandon(parts: Generator[Any]) -> None:
    """End a stream that was left half read, on a thread of its own.

    The garbage collector may call this while its thread holds the lock of the connections, which the end waits for. So
    it must take no lock here, as `threading.Thread` would.
    """
    if inspect.getgeneratorstate(parts) != inspect.GEN_CLOSED:
        _thread.start_new_thread(parts.close, ())


class Model:
    """A model of a service. Called with an input, it answers what it was made for.

    Pictures are paths, the bytes of files, Pillow images or arrays; texts are strings, pairs of strings, or lists of
    messages; sounds are paths, the bytes of files, or arrays with their rate; graphs are dictionaries, those of
    networkx, or paths.
    """

    def __init__(self, transport: Transport, description: Description) -> None:
        self._transport = transport
        self.description = description

    @property
    def name(self) -> str:
        """The model's name."""
        return self.description.name

    def __call__(self, given: Input, **options: object) -> Result:
        """Return the answer of the model's own task, such as `classify`."""
        return self._one(task_of(self.description), given, options)

    def classify(self, given: Input, **options: Unpack[ClassifyOptions]) -> Classification:
        """Return the likeliest classes of a picture, a text or a graph."""
        return self._one(CLASSIFY, given, options)

    def classify_batch(self, given: Iterable[Input], **options: Unpack[ClassifyOptions]) -> list[Classification]:
        """Return the likeliest classes of each of several pictures, texts or graphs."""
        return self._all(CLASSIFY, given, options)

    def detect(self, given: Picture, **options: Unpack[DetectOptions]) -> Detection:
        """Return the objects of a picture: which they are, and where."""
        return self._one(DETECT, given, options)

    def detect_batch(self, given: Iterable[Picture], **options: Unpack[DetectOptions]) -> list[Detection]:
        """Return the objects of each of several pictures."""
        return self._all(DETECT, given, options)

    def embed(self, given: Input, **options: Unpack[EmbedOptions]) -> Embedding:
        """Return a text, a picture or a graph as a vector."""
        return self._one(EMBED, given, options)

    def embed_batch(self, given: Iterable[Input], **options: Unpack[EmbedOptions]) -> list[Embedding]:
        """Return each of several texts, pictures or graphs as a vector."""
        return self._all(EMBED, given, options)

    def embed_sparse(self, given: Text, **options: Unpack[SparseOptions]) -> SparseEmbedding:
        """Return the words that a text is about, with their weights."""
        return self._one(EMBED_SPARSE, given, options)

    def embed_sparse_batch(self, given: Iterable[Text], **options: Unpack[SparseOptions]) -> list[SparseEmbedding]:
        """Return the words that each of several texts is about."""
        return self._all(EMBED_SPARSE, given, options)

    def fill_mask(self, given: Text, **options: Unpack[FillMaskOptions]) -> Filled:
        """Return candidates for every mask of a text."""
        return self._one(FILL_MASK, given, options)

    def fill_mask_batch(self, given: Iterable[Text], **options: Unpack[FillMaskOptions]) -> list[Filled]:
        """Return candidates for every mask of each of several texts."""
        return self._all(FILL_MASK, given, options)

    def tag(self, given: Text, **options: Unpack[TagOptions]) -> Tagged:
        """Return the entities of a text."""
        return self._one(TAG, given, options)

    def tag_batch(self, given: Iterable[Text], **options: Unpack[TagOptions]) -> list[Tagged]:
        """Return the entities of each of several texts."""
        return self._all(TAG, given, options)

    def answer(self, question: str, context: str, **options: Unpack[AnswerOptions]) -> Answered:
        """Return what answers a question in a context."""
        return self._one(ANSWER, (question, context), options)

    def answer_batch(self, given: Iterable[tuple[str, str]], **options: Unpack[AnswerOptions]) -> list[Answered]:
        """Return what answers each of several questions, each with its context."""
        return self._all(ANSWER, given, options)

    def generate(self, given: Input, **options: Unpack[GenerateOptions]) -> Generation:
        """Return the text that the model writes for a text, the messages of a chat or a picture."""
        return self._one(GENERATE, given, options)

    def generate_batch(self, given: Iterable[Input], **options: Unpack[GenerateOptions]) -> list[Generation]:
        """Return the text that the model writes for each of several texts or pictures."""
        return self._all(GENERATE, given, options)

    def stream(self, given: Input, **options: Unpack[GenerateOptions]) -> Stream[StreamedToken, Generation]:
        """Return the tokens of a text as the model writes them.

        With `attention={"kind": "cross", "steps": True}` each holds what the model read while it wrote it.
        """
        return Stream(self._transport, *streamed(GENERATE, self.description, given, options, self))

    @overload
    def transcribe(
        self, given: Sound, rate: int | None = None, *, stream: Literal[True], **options: Unpack[TranscribeOptions]
    ) -> Stream[Segment, Transcription]: ...

    @overload
    def transcribe(
        self,
        given: Sound,
        rate: int | None = None,
        *,
        stream: Literal[False] = False,
        **options: Unpack[TranscribeOptions],
    ) -> Transcription: ...

    def transcribe(
        self, given: Sound, rate: int | None = None, *, stream: bool = False, **options: Unpack[TranscribeOptions]
    ) -> Stream[Segment, Transcription] | Transcription:
        """Return what was said in a sound; with `stream`, its segments as they are heard.

        `rate` is the samples a second of an array.
        """
        sound = with_rate(given, rate)
        if stream:
            return Stream(self._transport, *streamed(TRANSCRIBE, self.description, sound, options, self))
        return self._one(TRANSCRIBE, sound, options)

    def transcribe_batch(
        self, given: Iterable[Sound], rate: int | None = None, **options: Unpack[TranscribeOptions]
    ) -> list[Transcription]:
        """Return what was said in each of several sounds."""
        return self._all(TRANSCRIBE, calls.with_rates(given, rate), options)

    def rerank(self, query: str, texts: Iterable[str], **options: Unpack[RerankOptions]) -> list[Ranked]:
        """Return the texts that answer a query, best first."""
        return self._transport.send(comparing.ranking(self.description, query, texts, options, self))

    def similarity(
        self, source: Input | Sequence[Input], inputs: Iterable[Input], **options: Unpack[CompareOptions]
    ) -> list[Similarity]:
        """Return how alike each text, or picture, is to a source, or to each of several."""
        return self._transport.send(comparing.similarity(self.description, source, inputs, options, self))

    def attention(self, given: Input, **options: Unpack[LookedAt]) -> Look:
        """Return what the model looks at, without its prediction: `.attention` of the answer."""
        return self._one(ATTENTION, given, asked_attention(self.description, options))

    def attention_batch(self, given: Iterable[Input], **options: Unpack[LookedAt]) -> list[Look]:
        """Return what the model looks at in each of several inputs."""
        return self._all(ATTENTION, given, asked_attention(self.description, options))

    def look(self, result: Result, method: Method | None = None, **options: Unpack[AttentionOptions]) -> Attention:
        """Return what the model looked at for an answer, as `Result.look` does."""
        asked = with_method(self.description, method, options)
        return self._kept(result, calls.stored_attention(result, asked), calls.attention_again(result, asked))

    def image(self, result: Result, method: Method | None = None, **options: Unpack[PictureOptions]) -> Image.Image:
        """Return what the model looked at as the service draws it, as `Result.image` does."""
        return opened(self.png(result, method, **options))

    def png(self, result: Result, method: Method | None = None, **options: Unpack[PictureOptions]) -> bytes:
        """Return the same as the bytes of a PNG file."""
        asked = of_picture(self.description, method, options)
        return self._kept(result, calls.stored_picture(result, asked), calls.picture_again(result, asked))

    def _kept(self, result: Result, stored: Call[T], again: Call[T]) -> T:
        if stored.fits or not result.asked.is_repeatable:
            try:
                return self._transport.send(stored)
            except NotFound as error:
                if not is_forgotten(error, result):
                    raise
        return self._transport.send(again)

    def _one(self, task: Task[R], given: object, options: Json) -> R:
        inputs = [encode(given, self.description.sent)]
        (found,) = self._transport.send(calls.predictions(task, self.description, inputs, options, self))
        return found

    def _all(self, task: Task[R], given: Iterable[object], options: Json) -> list[R]:
        found = list[R]()
        for start, batch in calls.batches(self.description, given, len(options.get("labels", "1"))):
            with calls.placed(start, batch):
                call = calls.predictions(task, self.description, batch, options, self)
                answers = self._transport.send(call)
            found += answers
        return found

    def __deepcopy__(self, _: object) -> Self:
        return self  # so that an answer can be copied: connections cannot be

    def __repr__(self) -> str:
        return f"<regard model {self.name}: {self.description.task}>"


def known(url: str | None, key: str | None) -> tuple[str, str | None]:
    """Return an address and a key: those that are given, or those of the environment."""
    address = os.environ.get(URL_VARIABLE) or URL if url is None else url
    return address, key or os.environ.get(KEY_VARIABLE)


def streamed(
    task: Task[R], model: Description, given: object, options: Json, client: Asker | None
) -> tuple[Call[Any], calls.Events[Any, R]]:
    """Return the call of a stream, and what reads its events."""
    encoded = encode(given, model.sent)
    call = calls.predictions(task, model, [encoded], {**options, "stream": True})
    return call, calls.Events(task, model, encoded, options, client)


def with_method(model: Description, method: Method | None, options: Json) -> Json:
    """Return options of attention with a method: where none is given, the model's usual one with its options."""
    return {**({"method": method} if method else model.usual), **options}


def of_picture(model: Description, method: Method | None, options: Json) -> Json:
    """Return options of a picture with a method: where none is given, the one that the task is drawn by."""
    return with_method(model, method or task_of(model).drawn_by(options), options)


def asked_attention(model: Description, options: Json) -> Json:
    """Return the options of the endpoint of attention alone."""
    return calls.beside(with_method(model, options.get("method"), options))


def is_forgotten(error: NotFound, result: Result) -> bool:
    """True if the service has not kept an input that can be sent again, with the same answer."""
    return error.problem.detail.startswith("id:") and result.asked.is_repeatable
