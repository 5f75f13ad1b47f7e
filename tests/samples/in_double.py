"""Let a model of the reference library compute in float64 what it computes in single floats whatever its type.

Some softmaxes, norms and rotations are written so. Beside rounding, the least float64 is no single float, so that a row
of a mask that hides all keys makes a softmax NaN.
"""

import functools

import torch
from torch.overrides import TorchFunctionMode

SOFTMAXES = {torch.softmax, torch.nn.functional.softmax, torch.Tensor.softmax}


class Double(TorchFunctionMode):
    """A context in which no float64 becomes a single float."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.float:
            return args[0].double()
        if func in SOFTMAXES and kwargs.get("dtype") == torch.float32:
            del kwargs["dtype"]
        if func is torch.Tensor.to and torch.float32 in args[1:]:
            args = [torch.float64 if one == torch.float32 else one for one in args]
        return func(*args, **kwargs)


def in_double(model):
    """Return a model whose forward pass computes so."""
    forward = model.forward

    @functools.wraps(forward)
    def run(*given, **options):
        with Double():
            return forward(*given, **options)

    model.forward = run
    return model
