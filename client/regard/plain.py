"""Values as JSON has them, and options that were given."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, get_args

import numpy as np


def plain(value: object) -> Any:  # noqa: ANN401 # what JSON has
    """Return a value as JSON has it: of ranges and numpy's numbers too."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    return value


def kept(options: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a method was given of the options of a TypedDict: neither `...`, nor None where that is no value."""
    found = {name: given[name] for name in options.__annotations__ if given.get(name, ...) is not ...}
    takes_none = {name for name, type_ in options.__annotations__.items() if NoneType in get_args(type_)}
    return {name: value for name, value in found.items() if value is not None or name in takes_none}
