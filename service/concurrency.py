"""Waiting for several tasks of asyncio."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all; the first failure cancels the others and is raised."""
    coroutines = list(work)
    if len(coroutines) == 1:  # needs no task of its own
        return [await coroutines[0]]
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


@contextlib.contextmanager
def while_wanted(futures: Sequence["asyncio.Future[Any]"], stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` if all futures are done before the block is."""
    left, over = len(futures), False

    def one_less(_: "asyncio.Future[Any]") -> None:
        nonlocal left
        left -= 1
        if not left and not over:
            stop()

    for future in futures:
        future.add_done_callback(one_less)
    try:
        yield
    finally:
        over = True  # what is called from now on was queued before
        for future in futures:
            future.remove_done_callback(one_less)
