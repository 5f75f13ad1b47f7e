"""A text that a model writes, for a text or a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.maps import Json, Map
from regard.models import Description
from regard.reading import read_map
from regard.results import Result
from regard.tasks.task import CommonOptions, Task


class GenerateOptions(CommonOptions, total=False):
    """What `generate` and `stream` take."""

    max_new_tokens: int
    """How many tokens are written at most (the model's)."""
    num_beams: int
    """Hypotheses of a beam search; 1 takes the likeliest token each time (the model's)."""
    length_penalty: float
    """Scores are divided by length to this power (the model's)."""
    temperature: float
    """Divides the logits before a token is drawn; 0 takes the likeliest (the model's)."""
    top_k: int
    """Draws among this number of the likeliest tokens (the model's)."""
    top_p: float
    """Draws among the likeliest tokens that have this probability together (the model's)."""
    min_p: float
    """Draws tokens that have at least this part of the likeliest one's probability (the model's)."""
    typical_p: float
    """Draws typical tokens that have this probability together (the model's)."""
    seed: int
    """The same seed draws the same tokens (another each time)."""
    repetition_penalty: float
    """Above 1, tokens that came already become less likely (the model's)."""
    no_repeat_ngram_size: int
    """Sequences of this number of tokens come once (the model's)."""
    bad_words: Sequence[str | Sequence[int]]
    """Words, or lists of tokens, that are never written (the model's)."""
    stop: str | Sequence[str]
    """Up to four strings: a text ends before the first of them (none)."""
    num_return_sequences: int
    """How many texts are answered: those behind the first are its `others` (1)."""
    alternatives: int
    """How many of the likeliest tokens are answered for each place (0)."""
    source_language: str
    """Of models of several languages: that of the text (the model's)."""
    target_language: str
    """Of models of several languages: that of the answer (the model's)."""


@dataclass(frozen=True)
class GeneratedToken:
    """A token that a model wrote."""

    index: int
    token: int
    text: str
    log_probability: float
    alternatives: Sequence[Json] = ()


@dataclass(frozen=True)
class OtherText:
    """Another text that a model wrote for the same input."""

    text: str
    tokens: Sequence[GeneratedToken]
    score: float | None
    finish_reason: str


@dataclass(frozen=True, eq=False)
class Generation(Result):
    """A text that a model wrote."""

    text: str
    tokens: Sequence[GeneratedToken]
    score: float | None
    """The sum of log-probabilities over the length to the power of `length_penalty`."""
    finish_reason: str
    """`stop` or `length`."""
    others: Sequence[OtherText] = ()
    """With `num_return_sequences` above 1."""

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {**_text(json), "others": [OtherText(**_text(one)) for one in json.get("others", ())]}

    def _words(self) -> str:
        return self.text


def _text(json: Json) -> Json:
    tokens = [
        GeneratedToken(one["index"], one["token"], one["text"], one["log_probability"], one.get("alternatives", ()))
        for one in json["tokens"]
    ]
    reason = json["finish_reason"]
    return {"text": json["text"], "tokens": tokens, "score": json.get("score"), "finish_reason": reason}


@dataclass(frozen=True)
class StreamedToken:
    """A token as it comes, and the rows of attention that were asked for with `steps=True`."""

    index: int
    token: int
    text: str
    maps: Sequence[Map] = ()


def _streamed(json: Json) -> StreamedToken:
    maps = [read_map(one) for one in json.get("attention") or ()]
    return StreamedToken(json["index"], json["token"], json["text"], maps)


def _is_repeatable(model: Description, options: Json) -> bool:
    """Return whether nothing is drawn at random, or all of it from a seed."""
    if options.get("seed") is not None:
        return True
    if any(options.get(name) is not None for name in ("temperature", "top_k", "top_p", "min_p", "typical_p")):
        return options.get("temperature") == 0
    return (options.get("num_beams") or 1) > 1 or not model.json.get("sampling")


GENERATE = Task(
    "generate",
    Generation,
    of_answer=("alternatives", "num_return_sequences"),
    is_repeatable=_is_repeatable,
    event="token",
    read_event=_streamed,
)
