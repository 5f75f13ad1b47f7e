"""What was said in a sound: segments, with words where times are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.explanations.spoken_words import Word


@dataclass(frozen=True)
class Segment:
    """What was said without a break."""

    start: float
    end: float
    """In seconds."""
    text: str
    tokens: tuple[int, ...] = ()
    """Those of times are not among them; none of a model that writes characters."""
    log_probability: float | None = None
    """The mean of the tokens of its window."""
    silent: float | None = None
    """The probability that nobody speaks in its window."""
    compression: float | None = None
    """How many times shorter the tokens of its window become by zlib."""
    temperature: float = 0.0
    words: tuple[Word, ...] = ()
    window: float = 0.0
    """The second at which its window begins."""


@dataclass(frozen=True)
class Transcript:
    """What was said in a sound."""

    language: str | None
    """None of a model that writes no names of languages."""
    duration: float
    segments: tuple[Segment, ...]
    target: tuple[int, ...]
    """The tokens of the last window, behind the start token."""

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(one.text for one in self.segments).strip()

    def with_shares(self, shares: Mapping[int, float]) -> "Transcript":
        """Return the same with how much of each word was heard, by the shares of the tokens of the target."""

        def heard(word: Word) -> Word:
            own = [shares[place] for place in word.places if place in shares]
            return replace(word, heard=sum(own) / len(own)) if own else word

        segments = tuple(replace(one, words=tuple(map(heard, one.words))) for one in self.segments)
        return replace(self, segments=segments)

    @property
    def words(self) -> list[Word]:
        """All words with their times."""
        return [word for one in self.segments for word in one.words]
