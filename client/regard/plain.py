"""Values as JSON has them."""

from collections.abc import Mapping, Sequence
from typing import Any

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
