"""The families of checkpoints, by the `model_type` of their configuration. A file is loaded when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from export.checkpoints.building.family import Family

FILES = {
    **{name: name for name in ("vit", "deit", "dinov2", "swin", "swinv2")},
    "dinov2_with_registers": "dinov2",
    "detr": "detr",
    "table-transformer": "table_transformer",
    **{name: name for name in ("conditional_detr", "yolos", "bert", "roberta")},
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    **{name: name for name in ("distilbert", "mpnet", "gpt2", "marian", "bart", "mbart", "pegasus", "m2m_100")},
}
"""`model_type` -> the file of its family. What a folder is can be said without PyTorch, which the files need."""


class _Families(Mapping[str, "Family[Any]"]):
    """The families by `model_type`."""

    def __getitem__(self, name: str) -> Family[Any]:
        """Return a family. Raises KeyError if there is none of that name."""
        module = importlib.import_module(f"{__name__}.{FILES[name]}")
        return next(one for one in vars(module).values() if getattr(one, "model_type", None) == name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a family of that name, which is not loaded."""
        return name in FILES

    def __iter__(self) -> Iterator[str]:
        """Yield the names, in the order of lists."""
        return iter(FILES)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(FILES)


FAMILIES: Mapping[str, Family[Any]] = _Families()
