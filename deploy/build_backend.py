"""Builds the project for its own checkout alone: editable, but no wheel and no source distribution (PEP 517, 660).

Its packages are called `service`, `model` and `export`: in an environment of other people they would be in the way.
"""

from collections.abc import Mapping
from typing import Never

from setuptools.build_meta import build_editable, get_requires_for_build_editable, prepare_metadata_for_build_editable

__all__ = [
    "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable",
    "get_requires_for_build_sdist", "get_requires_for_build_wheel", "prepare_metadata_for_build_editable",
]  # fmt: skip

REFUSAL = (
    "regard-service: is not built as a package, since it runs from its checkout (`make serve`) or as a container "
    "(`docker build --target cpu .`); to ask a service from Python, install its client, regard-client, from the folder "
    "client/"
)


def get_requires_for_build_wheel(config_settings: Mapping[str, object] | None = None) -> Never:
    """Refuse before anything is fetched or made. SystemExit, because an installer shows its words without a trace."""
    raise SystemExit(REFUSAL)


get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(folder: str, config_settings: object = None, metadata_directory: str | None = None) -> Never:
    """Refuse."""
    raise SystemExit(REFUSAL)


def build_sdist(folder: str, config_settings: object = None) -> Never:
    """Refuse."""
    raise SystemExit(REFUSAL)
