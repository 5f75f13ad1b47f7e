"""The asynchronous twin of `asking`, by asyncio or trio."""

from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, Generic, Literal, overload

import anyio
import anyio.to_thread
import httpx
from typing_extensions import Self

from regard import calls, plans
from regard.asking import A, Bound, S
from regard.bulk import Bulk, I
from regard.calls import Call, P, T
from regard.connecting import AS_CONNECTED, Sending
from regard.errors import RegardError, StreamBroken
from regard.failures import incompatible
from regard.inputs import Input
from regard.maps import Json
from regard.plans import Plan, advance
from regard.results import R
from regard.tasks import task_of
from regard.tasks.task import Task
from regard.transport import UNREADABLE, AsyncTransport


async def carry_out(plan: Plan[T], transport: AsyncTransport, sending: Sending, in_thread: bool = False) -> T:
    """Send the calls of a plan, and return what it returns; `in_thread` is where it reads and encodes its inputs."""

    async def go_on(answer: object = None, error: RegardError | None = None) -> tuple[bool, Any]:
        return (
            await anyio.to_thread.run_sync(advance, plan, answer, error) if in_thread else advance(plan, answer, error)
        )

    ended, found = await go_on()
    while not ended:
        answer, failed = None, None
        try:
            answer = await transport.send(found, sending)
        except RegardError as error:
            failed = error
        ended, found = await go_on(answer, failed)
    result: T = found
    return result


class AsyncStream(Generic[P, R]):
    """The parts of an answer as they come: `async for token in stream`. Then `result` is the whole answer."""

    def __init__(
        self, transport: AsyncTransport, call: Call[Any], events: calls.Events[P, R], sending: Sending = AS_CONNECTED
    ) -> None:
        self._events, self._closed = events, False
        self._parts = _read(transport, call, events, sending)

    @property
    def result(self) -> R:
        """The whole answer, once all parts came. Raises StreamBroken before that."""
        return self._events.end(self._closed)

    def __aiter__(self) -> AsyncIterator[P]:
        return self._parts

    async def __anext__(self) -> P:
        return await anext(self._parts)

    async def close(self) -> None:
        """Stop, and close the connection."""
        self._closed = True
        await self._parts.aclose()  # type: ignore[attr-defined] # it is a generator

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self._events)


async def _read(
    transport: AsyncTransport, call: Call[Any], events: calls.Events[P, R], sending: Sending
) -> AsyncIterator[P]:
    """Yield the parts of a stream. The event loop closes one that is left half read."""
    async with transport.lines(call, sending) as lines:
        try:
            async for line in lines:
                if part := events.take(line):
                    yield part
        except (httpx.HTTPError, httpx.StreamError) as error:
            message = f"stream: broke off ({type(error).__name__}); ask again, or without stream"
            raise StreamBroken(message, events.text) from None
        except UNREADABLE as error:
            raise incompatible(None) from error
    events.end()


class AsyncAsks(Bound[AsyncTransport, A]):
    """A model whose answers are awaited."""

    async def __call__(self, given: Input, **options: object) -> A:
        """Return the answer of the model's own task, such as `classify`, whose options it takes."""
        found: Any = await self._one(task_of(self.description), given, options)
        answer: A = found
        return answer

    @overload
    def map(
        self, inputs: Iterable[I], task: str | None = None, *, concurrency: int = 4,
        errors: Literal["raise"] = "raise", progress: bool = False, **options: object,
    ) -> AsyncIterator[tuple[I, A]]: ...  # fmt: skip

    @overload
    def map(
        self, inputs: Iterable[I], task: str | None = None, *, concurrency: int = 4,
        errors: Literal["yield"], progress: bool = False, **options: object,
    ) -> AsyncIterator[tuple[I, A | RegardError]]: ...  # fmt: skip

    def map(
        self, inputs: Iterable[I], task: str | None = None, *, concurrency: int = 4,
        errors: Literal["raise", "yield"] = "raise", progress: bool = False, **options: object,
    ) -> AsyncIterator[tuple[I, Any]]:  # fmt: skip
        """Yield each of many inputs with its answer, in their order: `async for path, answer in model.map(paths)`.

        What it takes is said at `regard.Model.map`. Answers come by groups of four times `concurrency`.
        """
        chosen = plans.chosen(self.description, task)
        bulk = Bulk(inputs, concurrency, errors, progress)
        return self._mapped(bulk, lambda given: plans.one(chosen, self.description, given, options, None))

    async def _mapped(self, bulk: Bulk[I], plan: Callable[[object], Plan[Any]]) -> AsyncIterator[tuple[I, Any]]:
        """Yield outside of every group of tasks: a generator that is left within one could not end it."""
        turns = anyio.CapacityLimiter(bulk.concurrency)
        while few := bulk.next_few():
            found = dict[int, Any]()

            async def ask(place: int, given: I, found: dict[int, Any] = found) -> None:
                async with turns:
                    try:
                        found[place] = await self._run(plan(given))
                    except RegardError as error:
                        found[place] = error

            async with anyio.create_task_group() as group:
                for place, given in few:
                    group.start_soon(ask, place, given)
            for place, given in few:
                yield given, bulk.take(place, found[place])
        bulk.end()

    async def _run(self, plan: Plan[T]) -> T:
        in_thread = self.description.sent != "text"  # files are read and pictures encoded, while others are answered
        return await carry_out(plan, self._transport, self._sending, in_thread)

    async def _ask(self, make: Callable[..., Call[T]], *given: object) -> T:
        return await self._run(plans.sent(lambda: make(self.description, *given, None)))

    async def _one(self, task: Task[S], given: object, options: Json) -> S:
        return await self._run(plans.one(task, self.description, given, options, None))

    async def _all(self, task: Task[S], given: Iterable[object], options: Json) -> list[S]:
        return await self._run(plans.several(task, self.description, given, options, None))

    def _stream(self, task: Task[S], given: object, options: Json) -> AsyncStream[Any, S]:
        return AsyncStream(
            self._transport, *plans.streamed(task, self.description, given, options, None), self._sending
        )
