"""The device that graphs run on: the cores that runs take, and the threads that they run on."""

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import structlog

from service.errors import Broken
from service.runtime.runtime_errors import DeviceLost

R = TypeVar("R")
T = TypeVar("T")
Outcome: TypeAlias = "tuple[Any, None] | tuple[None, Exception]"
"""What a function returned, or the exception that it raised."""
Done: TypeAlias = Callable[[Outcome], None]
log = structlog.get_logger()


class Stoppable(Protocol):
    """Options of a run of onnxruntime: once `terminate` is True, the run ends before its next node."""

    terminate: bool


class Turn:
    """A part of the device: some of its cores and one of its threads. Functions run on it one after the other."""

    def __init__(self, device: "Device", cores: int, thread: "_Thread") -> None:
        self.cores, self.thread = cores, thread
        self.share = 0.0
        """The part of a bound on the work of all runs together that this turn takes, from 0 to 1."""
        self.since: float | None = None
        """When its function began to run (monotonic); None if none runs."""
        self._device = device
        self._loop = asyncio.get_running_loop()
        self._done: Done | None = None
        self._running: set[Stoppable] = set()
        """The options of the runs of its function that have not ended."""
        self._stopped = self._released = False

    @property
    def room(self) -> float:
        """The share that the turns of others leave; infinite if there is no other, so that anything may run alone."""
        return self._device.room_beside(self)

    @property
    def others(self) -> int:
        """The number of turns of as many cores that the free cores have room for, beside this one."""
        return self._device.free // self.cores

    @property
    def part(self) -> float:
        """The part of the device's cores that it has, from 0 to 1."""
        return self.cores / self._device.cores

    @property
    def awaited(self) -> bool:
        """True if a caller waits for cores, even if it needs more than this turn has. May be read from any thread."""
        return self._device.wanted > 0

    def start(self, function: Callable[[], R], done: Done) -> None:
        """Run a function on the thread, then `done` with its outcome on the event loop. `done` is new for each run."""
        self._done, self._stopped, self.since = done, False, time.monotonic()
        self.thread.begin(self, function, done)

    def __call__(self, function: Callable[..., R], *arguments: Any) -> "asyncio.Future[R]":  # noqa: ANN401 # the arguments of `function`
        """Run a function on the thread; return its future. If that is cancelled, the function runs on to its end."""
        future: asyncio.Future[R] = self._loop.create_future()
        self.start(partial(function, *arguments), partial(_settle, future))
        return future

    def stop(self) -> None:
        """End the current runs before their next node, or as soon as they begin. May be called from any thread."""
        self._stopped = True
        for options in self._running.copy():
            options.terminate = True

    def release(self) -> None:
        """Give the cores back; while a function runs, once it has returned."""
        if self.since is not None:
            self._released = True
        else:
            self._device.release(self)

    @contextlib.contextmanager
    def running(self, options: Stoppable) -> Iterator[None]:
        """Let `stop` end the run of a block, on a thread of this turn."""
        self._running.add(options)
        if self._stopped:
            options.terminate = True
        try:
            yield
        finally:
            self._running.discard(options)

    def returned(self, done: Done, outcome: Outcome) -> None:
        """Tell the event loop, from the thread, the outcome of the function that was started with `done`."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            self._loop.call_soon_threadsafe(self._finish, done, outcome)

    def _finish(self, done: Done, outcome: Outcome) -> None:
        if done is not self._done:
            return  # an exception was thrown into the thread after the function had returned
        self._done = self.since = None
        if isinstance(outcome[1], DeviceLost):
            self._device.lost = outcome[1]
        try:
            done(outcome)
        finally:
            if self._released:
                self._device.release(self)


Begin: TypeAlias = Callable[[Turn], float | None]
"""Begins a turn and returns the share that it takes; None if that is not left, and the turn must wait for more."""
ROUNDING = 1e-9
"""Sums of shares may be wrong by less."""


@dataclass(eq=False)
class Place:
    """The place of a caller among those that take turns."""

    last: int = 0
    """The number of its last turn; 0 before the first."""


@dataclass(eq=False)
class Claim:
    """A caller that waits for its turn, and the cores that it needs."""

    cores: int
    begin: Begin
    place: Place


class Device:
    """A device and its cores. Callers take turns, as many at a time as have cores: first who had the last one earliest.

    So one that always wants a turn has one between any two of another, and no more.

    A GPU counts as one core. On a CPU, runs of one thread each use the cores better than one run of several threads,
    and they can share a session: a session's threads are the cores that a run of it takes.
    """

    def __init__(self, cores: int = 1) -> None:
        self.cores = self.free = cores
        self.lost: Exception | None = None
        """The error after which nothing can run here any more; None as long as the device works."""
        self._claims: list[Claim] = []
        self._granted = 0
        """The number of turns so far."""
        self._turns: set[Turn] = set()
        self._threads = [_Thread() for _ in range(cores)]
        self._idle = [*self._threads]
        self._granting = False

    @property
    def wanted(self) -> int:
        """The number of callers that wait for their turn."""
        return len(self._claims)

    def claim(self, cores: int, begin: Begin, place: Place | None = None) -> Claim:
        """Queue `begin`; call it with a turn of `cores` cores, or of all if the device has fewer.

        Without a `place` it is behind all who have had a turn. What arrives in one round of the event loop can begin
        together: `begin` is called in the next round, or where another turn is released.
        """
        self._claims.append(claim := Claim(min(cores, self.cores), begin, place or Place(self._granted)))
        self._claims.sort(key=lambda claim: claim.place.last)
        self.look_again()
        return claim

    def withdraw(self, claim: Claim) -> None:
        """Wait no longer, so that those behind it need not wait for its cores."""
        if claim in self._claims:
            self._claims.remove(claim)
            self.look_again()

    def look_again(self) -> None:
        """Look in the next round of the event loop whether the first claim can begin, which may need less room now."""
        if self._claims and not self._granting and self._claims[0].cores <= self.free:
            self._granting = True
            asyncio.get_running_loop().call_soon(self._grant)

    @contextlib.asynccontextmanager
    async def turn(
        self, cores: int | None = None, share: float = 1.0, place: Place | None = None
    ) -> AsyncIterator[Turn]:
        """Wait for a turn of `cores` cores (by default all), and hold it for the length of a block."""
        granted: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()

        def begin(turn: Turn) -> float | None:
            if granted.done():  # its caller was cancelled in this round
                turn.release()
                return 0.0
            if share > turn.room:
                return None
            granted.set_result(turn)
            return share

        claim = self.claim(cores or self.cores, begin, place)
        try:
            turn = await granted
        except asyncio.CancelledError:
            self.withdraw(claim)
            if granted.done() and not granted.cancelled():
                granted.result().release()
            raise
        try:
            yield turn
        finally:
            turn.release()

    def room_beside(self, turn: Turn) -> float:
        """Return the share that the turns beside one leave; infinite if there is none."""
        others = [other.share for other in self._turns if other is not turn]
        return 1.0 - sum(others) + ROUNDING if others else math.inf

    def release(self, turn: Turn) -> None:
        """Take back the cores of a turn, and begin at once the turns that wait for them."""
        if turn in self._turns:
            self._take_back(turn)
            self._grant()

    def revive(self) -> None:
        """Start every thread that does not run. An exception thrown into one between two lines may end it."""
        for thread in self._threads:
            thread.revive()

    def busy_seconds(self) -> float:
        """Return the seconds since the longest of the current runs began; 0 if nothing runs."""
        started = [turn.since for turn in self._turns if turn.since is not None]
        return time.monotonic() - min(started) if started else 0.0

    def close(self) -> None:
        """End the threads once their current runs are finished."""
        for thread in self._threads:
            thread.close()

    def _take_back(self, turn: Turn) -> None:
        self._turns.remove(turn)
        self._idle.append(turn.thread)
        self.free += turn.cores

    def _grant(self) -> None:
        """Begin the turns that are next, as far as there are cores and room."""
        self._granting = False
        while self._claims and self._claims[0].cores <= self.free:
            claim = self._claims.pop(0)
            turn = Turn(self, claim.cores, self._idle.pop())  # the thread last used, whose memory is in the caches
            self._turns.add(turn)
            self.free -= claim.cores
            last, claim.place.last = claim.place.last, self._granted + 1  # it may claim the next one as this one begins
            try:
                share = claim.begin(turn)
            except Exception:  # of any kind: the others need the device
                log.exception("turn failed")
                turn.release()
                continue
            if share is None:
                claim.place.last = last
                self._claims.insert(0, claim)
                self._take_back(turn)
                return  # until another turn ends, or its caller says that it needs less
            self._granted += 1
            turn.share = share


class _Thread:
    """A thread of the device, which runs one function at a time."""

    def __init__(self) -> None:
        # a SimpleQueue switches between this thread and the loop less often than a semaphore
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._task: tuple[Turn, Callable[[], Any], Done] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        self.revive()

    def begin(self, turn: Turn, function: Callable[[], Any], done: Done) -> None:
        self._task = turn, function, done
        self._wake.put(None)

    def revive(self) -> None:
        if not self._closed and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._work, name="device", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.put(None)

    def _work(self) -> None:
        while not self._closed:
            self._run_next()

    def _run_next(self) -> None:
        """Wait for a function and run it. What it was given and what it returned is not kept afterwards.

        An exception does not end the thread, and always reaches the caller, who would otherwise wait for ever.
        """
        task = None
        try:
            self._wake.get()
            if task := self._task:
                self._task = None
                turn, function, done = task
                _OF_THREAD.turn = turn
                turn.returned(done, (function(), None))
        except BaseException as error:  # a panic in a library is a BaseException, not an Exception
            if task is None:
                task, self._task = self._task, None
            if task:
                turn, _, done = task
                turn.returned(done, (None, error if isinstance(error, Exception) else Died(type(error).__name__)))


_OF_THREAD = threading.local()


def this_turn() -> Turn | None:
    """Return the turn whose function runs on this thread; None outside of the device."""
    turn: Turn | None = getattr(_OF_THREAD, "turn", None)
    return turn


def run_beside(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Run a function on each item, on `threads` threads, and return what it returns in the order of the items.

    All of them run in the turn of the caller's thread, which is one of the threads. Raises what the first that fails
    raises, once those that run have ended; the others do not begin.
    """
    turn = this_turn()
    left = deque(enumerate(items))
    found: dict[int, R] = {}
    faults: list[BaseException] = []

    def work() -> None:
        _OF_THREAD.turn = turn
        while True:
            try:
                number, item = left.popleft()
            except IndexError:
                return
            try:
                found[number] = function(item)
            except BaseException as error:  # of any kind: the caller gets it
                faults.append(error)
                left.clear()

    # a run that hangs must not keep the process from its end, as the threads of a pool would
    helpers: list[threading.Thread] = []
    try:
        for _ in items[1:threads]:
            helper = threading.Thread(target=work, name="beside", daemon=True)
            helper.start()
            helpers.append(helper)
        work()
    finally:
        left.clear()
        for helper in helpers:
            helper.join()
    if faults:
        raise faults[0]
    return [found[number] for number in range(len(items))]


class Died(RuntimeError):
    """A BaseException, such as a panic in a library, ended a run. The message is the name of its class."""


def kind_of(error: Exception) -> str:
    """Return the label under which metrics count an error of a run."""
    return "not_finite" if isinstance(error, Broken) else "worker" if isinstance(error, Died) else "exception"


def _settle(future: "asyncio.Future[Any]", outcome: Outcome) -> None:
    result, error = outcome
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
