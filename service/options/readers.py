"""How values are read that have several forms: indices, targets, inputs to compare with, steps."""

import contextlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

from service.options.base import whole

Indices: TypeAlias = tuple[int, ...] | slice | Literal["all"]
"""Some indices, a range of them, or all. Negative indices count from the end."""

MOST_INDICES = 4096
"""A longer list of indices is refused before it is read."""

MOST_TARGETS = 256

MOST_STEPS = 256  # of integrated gradients


def read_indices(*words: str) -> PlainValidator:
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


def read_targets() -> PlainValidator:
    """Accept indices, labels, entities and parts of answers, alone or as a list; in a query, the last two as JSON.

    Digits are an index; for other strings the labels decide.
    """

    def parse(value: object) -> tuple[Named, ...]:
        if isinstance(value, str) and value.startswith(("{", "[{")):
            with contextlib.suppress(RecursionError, ValueError):  # a label may begin so, too
                value = json.loads(value)
        found = [_target(one) for one in (value if isinstance(value, list) else [value])]
        targets = tuple(one for one in found if one is not None)
        if 0 < len(found) <= MOST_TARGETS and len(targets) == len(found):
            return targets
        raise PydanticCustomError(
            "targets", "must be 1 to {most} indices or labels, such as 3 or 3,5", {"most": MOST_TARGETS}
        )

    return PlainValidator(
        parse, json_schema_input_type=int | str | dict[str, int | str] | list[int | str | dict[str, int]]
    )


@dataclass(frozen=True)
class EntityNumber:
    """A target that is an entity, by its number in an answer."""

    number: int


@dataclass(frozen=True)
class AnswerPart:
    """A target that is an answer, by its number, or an end of it."""

    number: int
    part: Literal["start", "end"] | None = None


Named: TypeAlias = int | str | EntityNumber | AnswerPart


def _target(value: object) -> Named | None:
    """Return a target; None for what is none."""
    if not isinstance(value, dict):
        return value if type(value) in (int, str) else None  # type: ignore[return-value] # it is one of them
    number, part = value.get("entity", value.get("answer")), value.get("part")
    if type(number) is not int or not 0 <= number < 10**6:
        return None
    if value.keys() == {"entity"}:
        return EntityNumber(number)
    return AnswerPart(number, part) if value.keys() <= {"answer", "part"} and part in (None, "start", "end") else None


@dataclass(frozen=True)
class Against:
    """What a target is explained against: exactly one of a class, a token, or another input, or two of these."""

    name: Literal["label", "index", "token", "text", "image", "id"]
    """`image` is base64; `id` is that of an earlier input."""
    value: str | int
    than: "Against | None" = None
    """Of two inputs the second: what makes an embedding like the first rather than like this one."""


_AGAINST: dict[str, tuple[type, str]] = {
    "label": (str, "of a class"),
    "index": (int, "of a class"),
    "token": (int, "its number, for fill-mask and generated tokens"),
    "text": (str, "of one token; for embeddings, another text"),
    "image": (str, "for embeddings: another image in base64"),
    "id": (str, "for embeddings: that of an earlier input to this model"),
}
"""The type and the description of each name that `against` may hold."""

MOST_BAD_WORDS, MOST_WORD_CHARACTERS, MOST_WORD_TOKENS = 64, 256, 64


def read_bad_words() -> PlainValidator:
    """Accept a word, or a list of words and of lists of tokens."""
    rule = (
        f"must be 1 to {MOST_BAD_WORDS} words of at most {MOST_WORD_CHARACTERS} characters, "
        f"or lists of at most {MOST_WORD_TOKENS} tokens"
    )

    def parse(value: object) -> tuple[str | tuple[int, ...], ...]:
        words: Any = value if isinstance(value, list | tuple) else [value]
        if not 0 < len(words) <= MOST_BAD_WORDS or not all(map(_is_word, words)):
            raise PydanticCustomError("bad_words", "{rule}", {"rule": rule})
        return tuple(word if isinstance(word, str) else tuple(word) for word in words)

    return PlainValidator(parse, json_schema_input_type=str | list[str | list[int]])


def _is_word(given: object) -> bool:
    if isinstance(given, str):
        return bool(given.strip()) and len(given) <= MOST_WORD_CHARACTERS
    if not isinstance(given, list | tuple) or not 0 < len(given) <= MOST_WORD_TOKENS:
        return False
    return all(type(token) is int and 0 <= token < 10**9 for token in given)


MOST_STOPS = 4


def read_stops() -> PlainValidator:
    """Accept a word or a list of words; an empty one of either asks for nothing."""
    rule = f"must be a string of 1 to {MOST_WORD_CHARACTERS} characters, or up to {MOST_STOPS} of them"

    def parse(value: object) -> tuple[str, ...]:
        words: Any = value if isinstance(value, list | tuple) else [value] if value != "" else []
        if len(words) > MOST_STOPS or not all(
            isinstance(word, str) and 0 < len(word) <= MOST_WORD_CHARACTERS for word in words
        ):
            raise PydanticCustomError("stop", "{rule}", {"rule": rule})
        return tuple(words)

    return PlainValidator(parse, json_schema_input_type=str | list[str])


MOST_AGAINST = 2
_ONE_AGAINST = {
    "type": "object",
    "properties": {
        name: {"type": "string" if type_ is str else "integer", "description": what}
        for name, (type_, what) in _AGAINST.items()
    },
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
AGAINST_SCHEMA = {
    "anyOf": [
        _ONE_AGAINST,
        {"type": "array", "items": {"type": "object"}, "minItems": MOST_AGAINST, "maxItems": MOST_AGAINST},
    ]
}


def read_against() -> PlainValidator:
    """Accept null, an object with one name and value, or the text of one in JSON, as a query has it."""
    rule = f'must be an object with one of {", ".join(_AGAINST)}, such as {{"label": "7"}}, or a list of two'

    def parse(value: object) -> Against | None:
        if value is None:
            return None
        if isinstance(value, str):
            try:
                value = json.loads(
                    value, object_pairs_hook=tuple, parse_float=_number
                )  # pairs, since a key may be given twice
            except (RecursionError, ValueError) as error:
                raise PydanticCustomError("against", "{rule}", {"rule": rule}) from error
        if isinstance(value, list) and len(value) == MOST_AGAINST:
            first, second = map(_one_against, value)
            found = first and second and replace(first, than=second)
        else:
            found = _one_against(value)
        if found is None:
            raise PydanticCustomError("against", "{rule}", {"rule": rule})
        return found

    return PlainValidator(parse)


def _number(text: str) -> float:
    return whole(float(text))


def _one_against(value: object) -> Against | None:
    """Return what an object, or its pairs, says; None for anything else."""
    pairs = tuple(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, tuple) or len(pairs) != 1:
        return None
    ((name, given),) = pairs
    known: Any = _AGAINST.get(name, (None, ""))[0]
    fits = type(given) is known and (known is str or 0 <= given < 10**9)
    return Against(name, given) if fits else None


def read_steps() -> PlainValidator:
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


def read_words(*words: str) -> PlainValidator:
    """Accept some of the words, as a list or as a string separated by commas."""

    def parse(value: object) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if isinstance(parts, list) and parts and all(part in words for part in parts) and len(set(parts)) == len(parts):
            return tuple(parts)
        raise PydanticCustomError("listed", "must be some of {known}", {"known": ", ".join(words)})

    return PlainValidator(parse, json_schema_input_type=str | list[str])
