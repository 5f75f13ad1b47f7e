"""What models answer as tensors."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Datatype: TypeAlias = Literal["FP32", "BYTES"]

Row: TypeAlias = dict[str, npt.NDArray[np.float32] | bytes]
"""What is shown of one input, by the names of outputs."""


@dataclass(frozen=True)
class Output:
    """An output as metadata describe it; -1 is a size that varies, and the first is the number of inputs."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
