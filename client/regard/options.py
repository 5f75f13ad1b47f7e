"""Options of each endpoint, by the names that they have in the service. Those that are left out have its defaults."""

from typing import Literal, TypedDict

from regard.attention import AskedAttention, Method

Priority = Literal["interactive", "batch"]


class CommonOptions(TypedDict, total=False):
    """What every endpoint takes."""

    attention: Method | AskedAttention
    """Attention that comes with the answer: a method, or a method and options."""
    priority: Priority


class EmbedOptions(CommonOptions, total=False):
    """What `embed` takes."""

    truncate: bool
    """Cut a text that is too long, which is refused otherwise."""


class ClassifyOptions(EmbedOptions, total=False):
    """What `classify` and `fill_mask` take."""

    top_k: int


class DetectOptions(CommonOptions, total=False):
    """What `detect` takes."""

    threshold: float
    """The probability from which an object counts as found, 0 to 1; the model's own by default."""
    top_k: int
    """How many objects at most, surest first (100)."""


class GenerateOptions(CommonOptions, total=False):
    """What `generate` and `stream` take."""

    max_new_tokens: int
    num_beams: int
    length_penalty: float
    temperature: float
    top_k: int
    top_p: float
    seed: int
    alternatives: int
    """How many of the likeliest tokens are answered for each place."""
    source_language: str
    """Of models of several languages: that of the text."""
    target_language: str
    """Of models of several languages: that of the answer."""
