"""The options of models that generate."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from contract.generation import Generation, LanguageCode, Sampling
from service.errors import TooLarge
from service.options.base import SHARED, Number, RequestOptions
from service.options.predictions import CANDIDATE_BYTES
from service.options.readers import read_bad_words, read_stops

OF_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p")
SAMPLING = "temperature, top_k, top_p, min_p or typical_p"
"""The options that sample, and how they are listed."""
MOST_TEXTS = 128


class LanguageOptions(RequestOptions):
    """Options of requests to models that translate among several languages."""

    source_language: LanguageCode | None = Field(
        None,
        description="of models of several languages: that of the text; the model's by default",
        json_schema_extra=SHARED,
    )
    target_language: LanguageCode | None = Field(
        None,
        description="of models of several languages: that of the answer; the model's or its choice by default",
        json_schema_extra=SHARED,
    )


class GenerateOptions(LanguageOptions):
    """Options of `generate`.

    A temperature above 0, top_k, top_p, min_p or typical_p samples, with the model's defaults; else its default holds.
    """

    unserved: ClassVar[Mapping[str, str]] = {"stop_sequences": "it is stop here"}

    max_new_tokens: int | None = Field(
        None, ge=1, description="tokens to generate at most; the model's by default", json_schema_extra=SHARED
    )
    num_beams: int | None = Field(
        None, ge=1, description="hypotheses of a beam search; the model's by default", json_schema_extra=SHARED
    )
    length_penalty: Number | None = Field(
        None, ge=-10, le=10, description="scores are divided by length to this power", json_schema_extra=SHARED
    )
    temperature: Number | None = Field(
        None,
        ge=0,
        le=100,
        description="divides the logits; 0 takes the likeliest, without beams by default",
        json_schema_extra=SHARED,
    )
    top_k: int | None = Field(
        None, ge=1, le=10**6, description="sample among this number of the likeliest tokens", json_schema_extra=SHARED
    )
    top_p: Number | None = Field(
        None, gt=0, le=1, description="sample among the likeliest tokens of so much mass", json_schema_extra=SHARED
    )
    min_p: Number | None = Field(
        None, ge=0, le=1, description="sample tokens of this part of the likeliest", json_schema_extra=SHARED
    )
    typical_p: Number | None = Field(
        None, gt=0, le=1, description="sample typical tokens of so much mass", json_schema_extra=SHARED
    )
    seed: int | None = Field(
        None, ge=0, lt=2**63, description="the same seed samples the same tokens", json_schema_extra=SHARED
    )
    repetition_penalty: Number | None = Field(
        None, ge=0.01, le=100, description="of tokens that came already", json_schema_extra=SHARED
    )
    no_repeat_ngram_size: int | None = Field(
        None, ge=0, description="length of sequences that come once", json_schema_extra=SHARED
    )
    bad_words: Annotated[tuple[str | tuple[int, ...], ...], read_bad_words()] | None = Field(
        None, description="never written"
    )
    stop: Annotated[tuple[str, ...], read_stops()] | None = Field(
        None, description="up to four strings: a text ends before the first of them", json_schema_extra=SHARED
    )
    num_return_sequences: int | None = Field(
        None, ge=1, le=MOST_TEXTS, description="texts of an input", json_schema_extra=SHARED
    )
    stream: bool = Field(False, description="answer with server-sent events, a token each")
    alternatives: int = Field(
        0,
        ge=0,
        le=20,
        description="likeliest tokens of each place, with log-probabilities before rules of one place",
        json_schema_extra=SHARED,
    )

    @property
    def samples(self) -> bool:
        """True if the request asks for sampling."""
        asked = (self.temperature, self.top_k, self.top_p) != (None, None, None)
        return self.temperature != 0 and (asked or bool(self.min_p) or (self.typical_p or 1) < 1)

    def sampling(self, default: Sampling | None) -> Sampling | None:
        """Return how tokens are sampled; None if they are not. What is not given is the model's default.

        A request for beams, or for a temperature of 0, does not sample.
        """
        if self.samples:
            asked = {name: value for name in OF_SAMPLING if (value := getattr(self, name)) is not None}
            return (default or Sampling()).model_copy(update={**asked, "by_default": True})
        drawn = default and default.by_default and self.temperature is None and (self.num_beams or 1) == 1
        return default if drawn else None

    def beams(self, generation: Generation) -> int:
        """Return the beams of a search: by default 1 if it samples or the temperature is 0, else the model's."""
        draws = self.sampling(generation.sampling)
        return self.num_beams or (1 if draws or self.temperature == 0 else generation.num_beams)

    def texts(self, generation: Generation) -> int:
        """Return how many texts are answered of an input.

        The model's own number is not asked for: a stream is of one, and no more are answered than beams find.
        """
        if self.num_return_sequences or self.stream:
            return self.num_return_sequences or 1
        own, beams = generation.num_return_sequences, self.beams(generation)
        return own if beams == 1 and self.sampling(generation.sampling) else min(own, beams)

    def check_size(self, tokens: int, limit: int) -> None:
        """Raise TooLarge if the alternatives of `tokens` tokens would exceed a limit in bytes."""
        size = tokens * self.alternatives * CANDIDATE_BYTES
        if size > limit:
            raise TooLarge(
                f"alternatives: at most {limit} bytes an answer, this one would have {size}; "
                "ask for fewer alternatives, max_new_tokens or inputs"
            )
