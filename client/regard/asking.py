"""What asks for a model: plans carried out, streams, and many inputs at once. `Model` has the methods of each task."""

import _thread
import copy
import inspect
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, cast, overload

import httpx
from typing_extensions import Self
from typing_extensions import TypeVar as Default

from regard import calls, plans
from regard.bulk import Bulk, I
from regard.calls import Call, P, T
from regard.connecting import AS_CONNECTED, Sending
from regard.errors import RegardError, StreamBroken
from regard.failures import incompatible
from regard.inputs import Input
from regard.maps import Json
from regard.models import Description
from regard.plans import Plan, advance
from regard.results import Asker, R, Result
from regard.tasks import task_of
from regard.tasks.task import Task
from regard.transport import UNREADABLE, AsyncTransport, Transport

X = TypeVar("X", Transport, AsyncTransport)
S = TypeVar("S", bound=Result)
A = Default("A", default=Any)
"""What a call of a model answers; of a model by its name alone, whatever its task answers."""


def carry_out(plan: Plan[T], transport: Transport, sending: Sending) -> T:
    """Send the calls of a plan, and return what it returns. Raises RegardError."""
    ended, found = advance(plan)
    while not ended:
        try:
            answer = transport.send(found, sending)
        except RegardError as error:  # noqa: PERF203 # each may go on
            ended, found = advance(plan, error=error)
        else:
            ended, found = advance(plan, answer)
    result: T = found
    return result


class Stream(Generic[P, R]):
    """The parts of an answer as they come: iterate over it. Afterwards `result` is the whole answer.

    They are the tokens of a text, or the segments of what was said.

    Close it in the thread that reads it, or use it as a context manager, to stop earlier: the service then stops, too.
    """

    def __init__(
        self, transport: Transport, call: Call[Any], events: calls.Events[P, R], sending: Sending = AS_CONNECTED
    ) -> None:
        self._events, self._closed = events, False
        self._parts = _read(transport, call, events, sending)
        weakref.finalize(self, _abandon, self._parts).atexit = False

    @property
    def result(self) -> R:
        """The whole answer, once all parts came. Raises StreamBroken before that."""
        return self._events.end(self._closed)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> P:
        return next(self._parts)

    def close(self) -> None:
        """Stop, and close the connection."""
        self._closed = True
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._events)


def _read(
    transport: Transport, call: Call[Any], events: calls.Events[P, R], sending: Sending
) -> Generator[P, None, None]:
    """Yield the parts of a stream. It does not know the stream, so that the stream ends before it does: `_abandon`."""
    with transport.lines(call, sending) as lines:
        try:
            for line in lines:
                if part := events.take(line):
                    yield part
        except (httpx.HTTPError, httpx.StreamError) as error:
            message = f"stream: broke off ({type(error).__name__}); ask again, or without stream"
            raise StreamBroken(message, events.text) from None
        except UNREADABLE as error:
            raise incompatible(None) from error
    events.end()


def _abandon(parts: Generator[Any, None, None]) -> None:
    """End a stream that was left half read, on a thread of its own.

    The garbage collector may call this while its thread holds the lock of the connections, which the end waits for. So
    it must take no lock here, as `threading.Thread` would.
    """
    if inspect.getgeneratorstate(parts) != inspect.GEN_CLOSED:
        _thread.start_new_thread(parts.close, ())


class Bound(Generic[X, A]):
    """A model, with what sends to it: what a model and its asynchronous twin have in common."""

    def __init__(self, transport: X, description: Description, sending: Sending = AS_CONNECTED) -> None:
        self._transport: X = transport
        self._sending = sending
        self.description = description

    @property
    def name(self) -> str:
        """The model's name."""
        return self.description.name

    def with_options(
        self,
        *,
        timeout: float | None = None,
        patience: float | None = None,
        retries: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the same model, asked in another way; what is left out stays as it was given to `connect`.

        `model.with_options(timeout=5).classify("seven.png")` waits five seconds at most, for this call alone.
        """
        found = copy.copy(self)
        found._sending = self._sending.changed(timeout, patience, retries, headers)
        return found

    def __repr__(self) -> str:
        return f"<regard model {self.name}: {self.description.task}>"


class Asks(Bound[Transport, A]):
    """A model whose answers are waited for."""

    def __call__(self, given: Input, **options: object) -> A:
        """Return the answer of the model's own task, such as `classify`, whose options it takes."""
        found: Any = self._one(task_of(self.description), given, options)
        answer: A = found
        return answer

    @overload
    def map(
        self, inputs: Iterable[I], task: str | None = None, *, concurrency: int = 4,
        errors: Literal["raise"] = "raise", progress: bool = False, **options: object,
    ) -> Iterator[tuple[I, A]]: ...  # fmt: skip

    @overload
    def map(
        self, inputs: Iterable[I], task: str | None = None, *, concurrency: int = 4,
        errors: Literal["yield"], progress: bool = False, **options: object,
    ) -> Iterator[tuple[I, A | RegardError]]: ...  # fmt: skip

    def map(
        self, inputs: Iterable[I], task: str | None = None, *, concurrency: int = 4,
        errors: Literal["raise", "yield"] = "raise", progress: bool = False, **options: object,
    ) -> Iterator[tuple[I, Any]]:  # fmt: skip
        """Yield each of many inputs with its answer, in their order, as they come.

        - `task`: another task that the model has, such as "embed" (its own); `options` are those of this task.
        - `concurrency`: How many are asked for at once (4). Inputs are read a few ahead, so that they may be endless.
        - `errors`: "yield" puts an error in the place of an answer; "raise" ends with the first ("raise").
        - `progress`: Write how far it is to stderr (False).

        Example: `for path, answer in model.map(Path("pictures").iterdir(), errors="yield"): print(path, answer)`
        """
        chosen = plans.chosen(self.description, task)
        bulk = Bulk(inputs, concurrency, errors, progress)
        return self._mapped(bulk, lambda given: plans.one(chosen, self.description, given, options, self._asker))

    def _mapped(self, bulk: Bulk[I], plan: Callable[[object], Plan[Any]]) -> Iterator[tuple[I, Any]]:
        asked = deque[tuple[int, I, Future[Any]]]()
        pool = ThreadPoolExecutor(bulk.concurrency)

        def next_answer() -> tuple[I, Any]:
            place, given, future = asked.popleft()
            try:
                found = future.result()
            except RegardError as error:
                found = error
            return given, bulk.take(place, found)

        try:
            for place, given in bulk:
                asked.append((place, given, pool.submit(self._run, plan(given))))
                if len(asked) >= bulk.ahead:
                    yield next_answer()
            while asked:
                yield next_answer()
        finally:
            pool.shutdown(cancel_futures=True)
            bulk.end()

    @property
    def _asker(self) -> Asker:
        return cast(Asker, self)  # `Model` has its methods

    def _run(self, plan: Plan[T]) -> T:
        return carry_out(plan, self._transport, self._sending)

    def _ask(self, make: Callable[..., Call[T]], *given: object) -> T:
        return self._run(plans.sent(lambda: make(self.description, *given, self._asker)))

    def _one(self, task: Task[S], given: object, options: Json) -> S:
        return self._run(plans.one(task, self.description, given, options, self._asker))

    def _all(self, task: Task[S], given: Iterable[object], options: Json) -> list[S]:
        return self._run(plans.several(task, self.description, given, options, self._asker))

    def _stream(self, task: Task[S], given: object, options: Json) -> Stream[Any, S]:
        return Stream(
            self._transport, *plans.streamed(task, self.description, given, options, self._asker), self._sending
        )

    def __deepcopy__(self, _: object) -> Self:
        return self  # so that an answer can be copied: connections cannot be
