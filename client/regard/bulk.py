"""Many inputs at once: which are asked for together, what becomes of those that fail, and how far it is."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Generic, Literal, TypeVar

from regard.errors import BadInput, RegardError, noted
from regard.inputs import is_one

I = TypeVar("I")  # noqa: E741 # an input
A = TypeVar("A")

AHEAD = 4
"""For each input that is asked for at once, this number of inputs is read ahead."""
STEP = 0.1
"""Seconds between two lines of progress."""
WORDS = "inputs: must be a list or another iterable, given one input; `model(...)` takes one"


class Bulk(Generic[I]):
    """Inputs, each with its place, of which `concurrency` are asked for at once, in their order.

    With `errors="yield"` an error stands in the place of an answer, with "raise" it is raised. Raises BadInput for
    what is no such number, word or list.
    """

    def __init__(
        self, inputs: Iterable[I], concurrency: int, errors: Literal["raise", "yield"], progress: bool
    ) -> None:
        if is_one(inputs) or not isinstance(inputs, Iterable):
            raise BadInput(WORDS)
        if not isinstance(concurrency, int) or concurrency < 1:
            raise BadInput(f"concurrency: must be 1 or more, given {concurrency!r}")
        if errors not in ("raise", "yield"):
            raise BadInput(f'errors: must be "raise" or "yield", given {errors!r}')
        self.concurrency, self.ahead = concurrency, concurrency * AHEAD
        self._inputs, self._raises = enumerate(inputs), errors == "raise"
        self._total = len(inputs) if isinstance(inputs, Sized) else None
        self._shows, self._done, self._failed, self._shown = progress, 0, 0, 0.0

    def __iter__(self) -> Iterator[tuple[int, I]]:
        return self._inputs

    def next_few(self) -> list[tuple[int, I]]:
        """Return the next inputs that are read together; none at the end."""
        return list(islice(self._inputs, self.ahead))

    def take(self, place: int, found: A | RegardError) -> A | RegardError:
        """Take what came of an input, and return it. Raises an error where errors are raised."""
        failed = isinstance(found, RegardError)
        self._done, self._failed = self._done + 1, self._failed + failed
        if self._shows and time.monotonic() - self._shown > STEP:
            self._show("")
        if isinstance(found, RegardError) and self._raises:
            raise noted(found, f"inputs[{place}]")
        return found

    def end(self) -> None:
        """Say how far it came, at the end."""
        if self._shows:
            self._show("\n")

    def _show(self, end: str) -> None:
        """Write how far it is to stderr, in one line that is written over."""
        self._shown = time.monotonic()
        of = "" if self._total is None else f" of {self._total}"
        failed = f", {self._failed} failed" if self._failed else ""
        sys.stderr.write(f"\r{self._done}{of} answered{failed}{end}")
        sys.stderr.flush()
