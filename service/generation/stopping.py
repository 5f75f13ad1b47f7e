"""Words at which a text ends: they are found as it is written, and are no part of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

BYTES = 4
"""Of a character at most (UTF-8), each of which may be a token."""


@dataclass(frozen=True)
class Stops:
    """The words that end a text, and what makes a text of tokens."""

    words: Sequence[str] = ()
    decode: Callable[[Sequence[int]], str] = lambda tokens: ""

    def reached(self, tokens: Sequence[int]) -> bool:
        """Return whether the last tokens hold a word: all of them that one could have."""
        if not self.words:
            return False
        return self.place(self.decode(tokens[-BYTES * max(map(len, self.words)) - 1 :])) is not None

    def place(self, text: str) -> int | None:
        """Return how many characters are before the first word in a text; None if it holds none."""
        return min((place for word in self.words if (place := text.find(word)) >= 0), default=None)

    def shown(self, text: str, *, ended: bool) -> int:
        """Return how many characters of a text are before a word and, unless it has ended, before what may become one.

        Of a text that goes on, what is shown once remains.
        """
        place = self.place(text)
        if place is not None:
            return place
        begun = (size for word in self.words for size in range(1, len(word)) if text.endswith(word[:size]))
        return len(text) - (0 if ended else max(begun, default=0))
