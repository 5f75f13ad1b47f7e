"""What all options have in common: how they are parsed, and what is said of faults."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from contract.names import suggestion
from service.errors import Unacceptable

SHORT_NUMBER = re.compile(r"[-+]?\d{1,16}(\.\d{1,16})?")

MOST_OPTIONS = 64  # of one request; no endpoint has as many

MOST_OPTION_CHARACTERS = 1 << 16
"""Of one option, or of the items of one that is a list."""

MOST_EXACT = 2**53
"""A number of JSON beyond it, written as a decimal, need not be the integer that was meant (RFC 8259, section 6)."""

Overlap: TypeAlias = tuple[int | None, int | None]
"""Of windows: the tokens that each has in common with the one before, and how many it has at most."""

Number = Annotated[float, Field(allow_inf_nan=False)]

SHARED: dict[str, JsonValue] = {"shared": True}
"""Of an option that many requests have: OpenAPI defines it once, as a component."""


def whole(number: float) -> float:
    """Return a number of JSON as an integer where it is one: JSON has one sort of numbers, and 2.0 is 2."""
    return int(number) if number.is_integer() and abs(number) <= MOST_EXACT else number


def among(value: object, values: Iterable[object]) -> bool:
    """Return whether a value is one of others, where true is not 1."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)


class Options(BaseModel):
    """Base of all options: unknown names are refused, values are not converted, and NaN is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    unserved: ClassVar[Mapping[str, str]] = {}
    """Options that other servers have, by name, and why there are none here."""


class RequestOptions(Options):
    """Options of any request."""

    priority: Literal["interactive", "batch"] = Field(
        "interactive",
        description="batch lets others go first, is served a tenth as much, and may fill half a queue",
        json_schema_extra=SHARED,
    )

    @property
    def windows(self) -> Overlap | None:
        """The windows in which texts that are too long are read; None where they are not. Raises Unacceptable."""
        return None

    def check_answer(self, lengths: Sequence[Mapping[str, int]], limit: int) -> None:
        """Raise TooLarge if what is answered of inputs with these axis lengths may exceed a limit in bytes."""


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


def faults(kind: type[Options], error: ValidationError, beside: Iterable[str] = ()) -> list[dict[str, str]]:
    """Return the place and message of each fault. They hold numbers that the client sent, but never its text."""
    listed = []
    for fault in error.errors(include_url=False)[:20]:
        name = str(fault["loc"][0])
        if fault["type"] == "extra_forbidden" and name in kind.unserved:
            listed.append({"loc": name, "msg": f"is not served; {kind.unserved[name]}"})
            continue
        if fault["type"] == "extra_forbidden":
            known = sorted({*kind.model_fields, *beside})
            meant = suggestion(name, known)
            unknown = {"loc": "options", "msg": f"unknown option{meant}; known are {', '.join(known)}"}
            listed += [unknown] if unknown not in listed else []  # it is said once of all
            continue
        given = fault["input"]
        is_number = type(given) in (int, float) or (isinstance(given, str) and SHORT_NUMBER.fullmatch(given))
        quote = '"' if isinstance(given, str) and fault["type"].endswith("_type") else ""  # a string in JSON
        said = f", given {quote}{given}{quote}" if is_number else ""
        listed.append({"loc": name, "msg": fault["msg"] + said})
    return listed
