"""A bound on what the sizes of a configuration make, by what the weights hold."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from export.checkpoints.reading.checkpoint import CONFIG
from export.errors import CheckpointError

TIMES_WEIGHTS = 12
"""A definition's parameters, and what is computed as tensors are checked, cut and copied into them."""

FREE_NUMBERS = 32 << 20
"""Numbers that a definition may hold whatever its weights: masks, sinusoids, positions of a larger image."""


class SizeLimit(TorchDispatchMode):  # type: ignore[no-untyped-call] # PyTorch's classes of modes have no types
    """While it is entered, each tensor is measured before it is made.

    Raises CheckpointError once more numbers are made than sizes that fit `numbers` of weights can need: a size of a
    configuration, which nobody else checks against the weights, must not take the memory of a machine.
    """

    def __init__(self, numbers: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._weights = numbers
        self._left = TIMES_WEIGHTS * numbers + FREE_NUMBERS

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:  # noqa: ANN401 # whatever an operator returns
        """Measure what an operator makes, then call it."""
        kwargs = kwargs or {}
        made = 0 if any(one.alias_info for one in func._schema.returns) else _numbers(func, args, kwargs)
        if made > self._left:
            raise CheckpointError(
                f"{CONFIG}: its sizes, and --image-size, must fit the weights, which hold {self._weights} numbers, "
                "given far larger ones"
            )
        self._left -= made
        return func(*args, **kwargs)


def _numbers(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return how many numbers the result of an operator holds, without making it; 0 if that depends on values."""
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len({tensor.shape for tensor in tensors}) == 1 and not any(type(leaf) is int for leaf in leaves):
        return tensors[0].numel()  # at most: nothing says of a larger size
    args, kwargs = tree_map_only(torch.Tensor, lambda one: one.to("meta"), (args, kwargs))
    try:
        made = func(*args, **({**kwargs, "device": torch.device("meta")} if "device" in kwargs else kwargs))
    except (NotImplementedError, RuntimeError):
        return 0
    return sum(math.prod(leaf.shape) for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor))
