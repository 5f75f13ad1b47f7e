"""Modules with the weights that come with the repository, and what a manifest says of how they were made."""

import dataclasses
from typing import Any, TypeVar

from torch import nn

from contract.artifact import sha256
from export.checkpoints.building.family import flatten_sizes, library_versions
from model.catalogue import BUNDLED, bundled

M = TypeVar("M", bound=nn.Module)


def trained(name: str, sort: type[M]) -> M:
    """Return a bundled module, which is of a class."""
    module = bundled(name)
    assert isinstance(module, sort)  # noqa: S101 # for the type checker
    return module


def made_by(name: str, sizes: object) -> dict[str, Any]:
    """Return what a manifest says of how an artifact was made of a bundled model."""
    return {
        "definition": name,
        **flatten_sizes(dataclasses.asdict(sizes)),  # type: ignore[call-overload] # a dataclass
        "weights_sha256": sha256(BUNDLED / name / "model.safetensors"),
        **library_versions(),
    }
