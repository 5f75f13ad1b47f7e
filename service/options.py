"""The options of requests beside their inputs. They have the same names in a query string, a form and JSON."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from contract.generation import Generation, LanguageCode, Sampling
from contract.manifest import KindName, Method
from contract.names import suggestion
from service.errors import TooLarge, Unacceptable

Indices: TypeAlias = tuple[int, ...] | slice | Literal["all"]
"""Some indices, a range of them, or all. Negative indices count from the end."""

Baseline: TypeAlias = Literal["empty", "mask", "padding", "zero"]
"""What integrated gradients start from: a black picture, mask tokens, padding tokens, or states of zeros."""

CANDIDATE_BYTES = 80  # of an answer, for each candidate or alternative with its text
MOST_INDICES = 4096
"""A longer list of indices is refused before it is read."""
MOST_TARGETS = 256
MOST_STEPS = 256  # of integrated gradients
DEFAULT_STEPS = 16
SHORT_NUMBER = re.compile(r"[-+]?\d{1,16}(\.\d{1,16})?")
MOST_OPTIONS = 64  # of one request; no endpoint has as many
MOST_OPTION_CHARACTERS = 1 << 16
"""Of one option, or of the items of one that is a list."""

Number = Annotated[float, Field(allow_inf_nan=False)]


def _indices(*words: str) -> PlainValidator:
    """Accept a number, a list of numbers, or a string: one of the words, `3`, `0,2,-1` or `8:12`."""
    known = ", ".join(
        [f"'{word}'" for word in words] + ["an index such as -1", "a list such as 0,2", "a range such as 8:12"]
    )

    def parse(value: object) -> object:
        if isinstance(value, str):
            text = value.replace(" ", "")
            if text in words:
                return text
            if text.count(",") < MOST_INDICES and re.fullmatch(r"-?[0-9]{1,6}(,-?[0-9]{1,6})*", text):
                return tuple(int(index) for index in text.split(","))
            if found := re.fullmatch(r"(-?[0-9]{1,6})?:(-?[0-9]{1,6})?", text):
                return slice(*(int(bound) if bound else None for bound in found.groups()))
        numbers = value if isinstance(value, list) else [value]
        if 0 < len(numbers) <= MOST_INDICES and all(type(number) is int and abs(number) < 10**6 for number in numbers):
            return tuple(numbers)
        raise PydanticCustomError("indices", "must be {known}", {"known": known})

    return PlainValidator(parse, json_schema_input_type=int | list[int] | str)


def _targets() -> PlainValidator:
    """Accept indices and labels, alone or as a list. Digits are an index; for other strings the labels decide."""

    def parse(value: object) -> tuple[int | str, ...]:
        found: list[Any] = value if isinstance(value, list) else [value]
        if 0 < len(found) <= MOST_TARGETS and all(type(one) in (int, str) for one in found):
            return tuple(found)
        raise PydanticCustomError(
            "targets", "must be 1 to {most} indices or labels, such as 3 or 3,5", {"most": MOST_TARGETS}
        )

    return PlainValidator(parse, json_schema_input_type=int | str | list[int | str])


@dataclass(frozen=True)
class Against:
    """What a target is explained against: exactly one of a class, a token, or another input."""

    name: Literal["label", "index", "token", "text", "image", "id"]
    """`image` is base64; `id` is that of an earlier request."""
    value: str | int


_AGAINST: dict[str, tuple[type, str]] = {
    "label": (str, "of a class"),
    "index": (int, "of a class"),
    "token": (int, "its number, for fill-mask and generated tokens"),
    "text": (str, "of one token; for embeddings, another text"),
    "image": (str, "for embeddings: another image in base64"),
    "id": (str, "for embeddings: that of an earlier request to this model, whose first input is meant"),
}
"""The type and the description of each name that `against` may hold."""
_AGAINST_SCHEMA = {
    "type": "object",
    "properties": {
        name: {"type": "string" if type_ is str else "integer", "description": what}
        for name, (type_, what) in _AGAINST.items()
    },
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}


def _against() -> PlainValidator:
    """Accept an object with one name and value, or the text of one in JSON, as a query has it."""
    rule = f'must be an object with one of {", ".join(_AGAINST)}, such as {{"label": "7"}}'

    def parse(value: object) -> Against:
        pairs: Any = list(value.items()) if isinstance(value, dict) else None
        if isinstance(value, str):
            try:
                pairs = json.loads(value, object_pairs_hook=list)  # pairs, since a key may be given twice
            except (RecursionError, ValueError) as error:
                raise PydanticCustomError("against", "{rule}", {"rule": rule}) from error
        if isinstance(pairs, list) and len(pairs) == 1 and isinstance(pairs[0], tuple):
            ((name, given),) = pairs
            known: Any = _AGAINST.get(name, (None, ""))[0]
            if type(given) is known and (known is str or 0 <= given < 10**9):
                return Against(name, given)
        raise PydanticCustomError("against", "{rule}", {"rule": rule})

    return PlainValidator(parse)


def _steps() -> PlainValidator:
    """Accept a boolean or a number. A query has strings: digits are a number."""
    words = {
        **dict.fromkeys(("true", "t", "yes", "y", "on"), True),
        **dict.fromkeys(("false", "f", "no", "n", "off"), False),
    }

    def parse(value: object) -> bool | int:
        if isinstance(value, str):  # of a query; JSON has numbers and booleans
            value = int(value) if re.fullmatch(r"[0-9]{1,9}", value) else words.get(value.lower())
        if isinstance(value, bool) or type(value) is int:
            return value
        raise PydanticCustomError(
            "steps", "must be true or false, or for integrated a number from 1 to {most}", {"most": MOST_STEPS}
        )

    return PlainValidator(parse, json_schema_input_type=bool | int)


def _listed(*words: str) -> PlainValidator:
    """Accept some of the words, as a list or as a string separated by commas."""

    def parse(value: object) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if isinstance(parts, list) and parts and all(part in words for part in parts) and len(set(parts)) == len(parts):
            return tuple(parts)
        raise PydanticCustomError("listed", "must be some of {known}", {"known": ", ".join(words)})

    return PlainValidator(parse, json_schema_input_type=str | list[str])


class Options(BaseModel):
    """Base of all options: unknown names are refused, values are not converted, and NaN is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class RequestOptions(Options):
    """Options of any request."""

    priority: Literal["interactive", "batch"] = Field(
        "interactive", description="batch lets what is interactive go first, for two seconds, and may fill half a queue"
    )


class ClassifyOptions(RequestOptions):
    """Options of `classify`."""

    top_k: int = Field(5, ge=1, le=1000, description="labels a result, best first")


Threshold = Annotated[
    Number | None,
    Field(ge=0, le=1, description="probability from which an object counts as found; the model's by default"),
]


class DetectOptions(RequestOptions):
    """Options of `detect`, and of attention to what is detected."""

    threshold: Threshold = None
    top_k: int = Field(100, ge=1, le=1000, description="objects an image, surest first")


class TextOptions(RequestOptions):
    """Options of any prediction of a text."""

    truncate: bool = Field(False, description="cut off the end of a text that is too long, rather than refuse it")


class ClassifyTextOptions(ClassifyOptions, TextOptions):
    """Options of `classify` for a text."""


class FillMaskOptions(TextOptions):
    """Options of `fill-mask`."""

    top_k: int = Field(5, ge=1, le=1000, description="candidates a mask, best first")

    def check_size(self, masks: int, limit: int) -> None:
        """Raise TooLarge if the answer for this number of masks would exceed a limit in bytes."""
        size = masks * self.top_k * CANDIDATE_BYTES
        if size > limit:
            raise TooLarge(
                f"candidates: at most {limit} bytes an answer, this one would have {size}; ask for fewer top_k"
            )


class LanguageOptions(RequestOptions):
    """Options of requests to models that translate among several languages."""

    source_language: LanguageCode | None = Field(
        None, description="of models of several languages: that of the text; the model's by default"
    )
    target_language: LanguageCode | None = Field(
        None, description="of models of several languages: that of the answer; the model's or its choice by default"
    )


class GenerateOptions(LanguageOptions):
    """Options of `generate`.

    A temperature above 0, top_k or top_p samples, with the model's defaults for others; else its default holds.
    """

    max_new_tokens: int | None = Field(None, ge=1, description="tokens to generate at most; the model's by default")
    num_beams: int | None = Field(None, ge=1, description="hypotheses of a beam search; the model's by default")
    length_penalty: Number | None = Field(None, ge=-10, le=10, description="scores are divided by length to this power")
    temperature: Number | None = Field(
        None, ge=0, le=100, description="divides the logits; 0 takes the likeliest, without beams by default"
    )
    top_k: int | None = Field(None, ge=1, le=10**6, description="sample among so many of the likeliest tokens")
    top_p: Number | None = Field(None, gt=0, le=1, description="sample among the likeliest tokens of so much mass")
    seed: int | None = Field(None, ge=0, lt=2**63, description="the same seed samples the same tokens")
    stream: bool = Field(False, description="answer with server-sent events, a token each")
    alternatives: int = Field(
        0,
        ge=0,
        le=20,
        description="so many of the likeliest tokens at each token's place, best first, with natural log-probabilities "
        "among the whole vocabulary: before temperature, top_k and top_p. Tokens that the model's rules always "
        "suppress are left out; rules that force or forbid a token at one place change nothing here",
    )

    @property
    def samples(self) -> bool:
        """True if the request asks for sampling."""
        return self.temperature != 0 and (self.temperature, self.top_k, self.top_p) != (None, None, None)

    def sampling(self, default: Sampling | None) -> Sampling | None:
        """Return how tokens are sampled; None if they are not. What is not given is the model's default.

        A request for beams, or for a temperature of 0, does not sample.
        """
        if self.samples:
            own = default or Sampling()
            return Sampling(
                temperature=self.temperature or own.temperature,
                top_k=self.top_k or own.top_k,
                top_p=self.top_p or own.top_p,
            )
        return default if self.temperature is None and (self.num_beams or 1) == 1 else None

    def beams(self, generation: Generation) -> int:
        """Return the beams of a search: by default 1 if it samples or the temperature is 0, else the model's."""
        draws = self.sampling(generation.sampling)
        return self.num_beams or (1 if draws or self.temperature == 0 else generation.num_beams)

    def check_size(self, tokens: int, limit: int) -> None:
        """Raise TooLarge if the alternatives of so many tokens would exceed a limit in bytes."""
        size = tokens * self.alternatives * CANDIDATE_BYTES
        if size > limit:
            raise TooLarge(
                f"alternatives: at most {limit} bytes an answer, this one would have {size}; "
                "ask for fewer alternatives, max_new_tokens or inputs"
            )


class AttentionOptions(Options):
    """Options of attention, for any request."""

    method: Literal[Method, "best"] = Field(
        "raw",
        description="how maps are computed; best is the one that explained this model best, where one was measured",
    )
    kind: KindName | None = Field(None, description="all that the model has, by default")
    layers: Annotated[Any, _indices("all")] = Field(
        None, description="by default -1 for raw and norm, 0 for libra (the states that enter the layer), else all"
    )
    heads: Annotated[Any, _indices("all", "mean", "max", "min")] = Field(
        None, description="which, or how fused; mean by default"
    )
    queries: Annotated[Any, _indices("all", "cls", "mean", "found")] = Field(
        None,
        description="rows; of a detector those of the objects that are found; else cls, that of the class token; else, "
        "of an image, the mean of all; else all",
    )
    target: Annotated[Any, _targets()] = Field(
        None,
        description="for relevance, libra and integrated: classes by index or label, positions of a sequence, or "
        "numbers of objects; what was predicted, every token, or the surest object, by default. Digits are an index, "
        "whatever the labels are",
    )
    against: Annotated[Against | None, _against(), WithJsonSchema(_AGAINST_SCHEMA)] = Field(
        None,
        description="for relevance, libra and integrated: what speaks for the target rather than for this class or "
        "token; for embeddings, the other text or image. In a query, the same object as JSON",
    )
    sides: Literal["own", "both"] = Field(
        "own", description="for embeddings: explain the other input too, in the answer's `against`"
    )
    baseline: Baseline | None = Field(
        None, description="of integrated: where the path begins; the first of these that the model has, by default"
    )
    fusion: Literal["mean", "max", "min"] | None = Field(None, description="of rollout, the same as heads")
    discard: Number = Field(0.0, ge=0, lt=1, description="for rollout: share of a layer's smallest weights set to 0")
    start_layer: int | None = Field(None, description="for rollout: the first layer, the earlier ones left out")
    align: Literal["emit", "input"] = Field(
        "emit", description="the row of a generated token: where it came out, or where it went in"
    )
    hard: bool = Field(False, description="also the source token that each row of cross looks at most")
    merge: Literal["words"] | None = Field(None, description="columns of a word's tokens summed, rows averaged")
    diagnostics: bool = Field(False, description="also entropy, mass on special tokens, distance, by layer and head")
    evaluate: Annotated[Any, _listed("deletion", "insertion", "compare")] = Field(
        (),
        description="the probability of what is explained, as patches or tokens are deleted or inserted in the order "
        "of the map; compare: in that of every method",
    )
    steps: Annotated[bool | int, _steps()] = Field(
        False,
        description=f"of integrated: points of the path, 1 to {MOST_STEPS}, by default {DEFAULT_STEPS}; "
        "or with stream, true: each token's event holds its row of cross",
    )
    format: Literal["json", "npz", "png"] | None = Field(None, description="by Accept, by default; else json")
    pool: int | None = Field(
        None,
        ge=2,
        le=256,
        description="of JSON and npz: maps of more rows or columns are answered as the largest value (by its size) of "
        "each block, at most so many a side",
    )
    digits: int = Field(5, ge=1, le=9, description="decimals of a number in JSON")
    encoding: Literal["list", "base64"] = Field(
        "list", description="of values in JSON: lists, or base64 of the bytes of an array, little-endian, row by row"
    )
    dtype: Literal["float32", "uint8"] = Field(
        "float32", description="of npz and base64; uint8 with a scale, and an offset, a map"
    )
    width: int | None = Field(
        None,
        ge=64,
        le=4096,
        description="of png: pixels of the whole picture; by default that of the image, or what its texts need",
    )
    colormap: Literal["viridis", "magma", "inferno", "turbo", "gray"] = Field("viridis", description="of png")
    opacity: Number = Field(0.6, ge=0, le=1, description="of a png's heat over the image, where it is hottest")


O = TypeVar("O", bound=Options)  # noqa: E741 # the letter of Options


def parse(kind: type[O], given: Mapping[str, object], *, strings: bool, beside: Iterable[str] = ()) -> O:
    """Return options from JSON values, or from the `strings` of a query or form.

    `beside` are the names of options outside `kind`, for the message. Raises Unacceptable with every fault, or at once
    if there is more than options ever hold: a fault takes much longer to describe than to send.
    """
    if len(given) > MOST_OPTIONS:
        raise Unacceptable(f"options: at most {MOST_OPTIONS}, given {len(given)}")
    for value in given.values():
        items = value if isinstance(value, list) else [value]
        if (length := sum(len(item) for item in items if isinstance(item, str))) > MOST_OPTION_CHARACTERS:
            raise Unacceptable(f"options: at most {MOST_OPTION_CHARACTERS} characters each, given {length}")
    try:
        return kind.model_validate_strings(given) if strings else kind.model_validate(given)
    except ValidationError as error:
        found = faults(kind, error, beside)
        raise Unacceptable("{loc}: {msg}".format(**found[0]), found) from error


def faults(kind: type[BaseModel], error: ValidationError, beside: Iterable[str] = ()) -> list[dict[str, str]]:
    """Return the place and message of each fault. They hold numbers that the client sent, but never its text."""
    listed = []
    for fault in error.errors(include_url=False)[:20]:
        if fault["type"] == "extra_forbidden":
            known = sorted({*kind.model_fields, *beside})
            meant = suggestion(str(fault["loc"][0]), known)
            unknown = {"loc": "options", "msg": f"unknown option{meant}; known are {', '.join(known)}"}
            listed += [unknown] if unknown not in listed else []  # it is said once of all
            continue
        given = fault["input"]
        is_number = type(given) in (int, float) or (isinstance(given, str) and SHORT_NUMBER.fullmatch(given))
        quote = '"' if isinstance(given, str) and fault["type"].endswith("_type") else ""  # a string in JSON
        said = f", given {quote}{given}{quote}" if is_number else ""
        listed.append({"loc": str(fault["loc"][0]), "msg": fault["msg"] + said})
    return listed
