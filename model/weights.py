"""Load and save weights as safetensors. Pickles are not supported, because reading one can run code."""

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn


class WeightsError(ValueError):
    """A weights file cannot be used; the message lists every reason."""


DEFINITION = "definition"
"""Key of a file's metadata: the model its weights are of. Variants may have the same tensors and compute otherwise."""


def load_weights(module: nn.Module, file: Path, definition: str | None = None) -> None:
    """Fill a module from a safetensors file; every tensor of either must be in the other.

    Raises WeightsError if the file is absent, unreadable or no safetensors file, if it says that it is of another
    `definition`, or if tensors are missing, left over or of another shape than the module's.
    """
    if file.suffix != ".safetensors":
        raise WeightsError(f"{file.name}: weights must be a .safetensors file, given {file.suffix or 'no suffix'}")
    try:
        given = load_file(file)
        with safe_open(file, "pt") as opened:
            said = (opened.metadata() or {}).get(DEFINITION)
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{file.name}: cannot be read as safetensors: {error}") from error
    if definition and said not in (None, definition):
        raise WeightsError(f"{file.name}: weights must be of {definition}, given those of {said}")
    wanted = _tensors(module)
    faults = [
        *(f"missing {name}" for name in sorted(wanted.keys() - given.keys())),
        *(f"left over {name}" for name in sorted(given.keys() - wanted.keys())),
        *(
            f"{name} must be {list(wanted[name].shape)}, given {list(given[name].shape)}"
            for name in sorted(wanted.keys() & given.keys())
            if wanted[name].shape != given[name].shape
        ),
        *(
            f"{name} must hold floating-point numbers, given {str(given[name].dtype).removeprefix('torch.')}"
            for name in sorted(wanted.keys() & given.keys())
            if wanted[name].is_floating_point() and not given[name].is_floating_point()
        ),
    ]
    if faults:
        raise WeightsError(f"{file.name}: " + "; ".join(faults))
    for name, tensor in wanted.items():
        tensor.data.copy_(given[name])


def save_weights(module: nn.Module, file: Path, definition: str | None = None) -> None:
    """Write every parameter and persistent buffer once; a shared one under its first name."""
    tensors = {name: tensor.detach().contiguous() for name, tensor in _tensors(module).items()}
    save_file(tensors, file, {DEFINITION: definition} if definition else None)
    file.chmod(0o644)  # the library makes it private, and weights are to be read


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers by name; a shared tensor under its first name."""
    kept = module.state_dict().keys()
    return {**dict(module.named_parameters()), **{name: one for name, one in module.named_buffers() if name in kept}}
