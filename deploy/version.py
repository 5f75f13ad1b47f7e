"""The version of the project: writes it everywhere that it stands.

python -m deploy.version 0.2.0    # or without an argument: say it

`service.VERSION` is the one that counts; `make test` holds the others equal to it. `make chart` writes it into the
chart.
"""

import re
import sys
from pathlib import Path

from service import VERSION

ROOT = Path(__file__).parents[1]
NUMBER = r"\d+\.\d+\.\d+"
PLACES = {
    "service/__init__.py": r'^VERSION = "(#)"',
    "pyproject.toml": r'^version = "(#)"',
    "client/pyproject.toml": r'^version = "(#)"',
    "CITATION.cff": r"^version: (#)",
    "Dockerfile": r"regard:(#)-|VERSION=(#)",
    "docker-compose.yml": r"VERSION: (#)|regard(?:-export)?:(#)",
    "docs/operations.md": r"regard(?:-artifacts)?:(#)",
    "docs/kubernetes.md": r"regard(?:-export)?:(#)|VERSION=(#)|they say (#) and",
    "k8s/overlays/cpu/kustomization.yaml": r"newTag: (#)",
    "k8s/overlays/gpu/kustomization.yaml": r"newTag: (#)",
    "k8s/components/models-init/kustomization.yaml": r"newTag: (#)",
    "k8s/components/models-image/deployment.yaml": r"regard-artifacts:(#)",
    "k8s/kserve/servingruntime.yaml": r"regard:(#)",
    "k8s/kserve-variants/gpu/servingruntime.yaml": r"regard:(#)",
    "k8s/kserve/inferenceservice.yaml": r"regard-artifacts-init:(#)",
}
"""The files that say the version, and where in them; `#` stands for a version."""


def found() -> dict[str, set[str]]:
    """Return the versions that each file says."""
    return {
        name: {one for groups in _pattern(name).findall((ROOT / name).read_text()) for one in _parts(groups) if one}
        for name in PLACES
    }


def write(version: str) -> None:
    """Write a version everywhere. Raises ValueError if it is not one."""
    if not re.fullmatch(NUMBER, version):
        raise ValueError("version: must be three numbers such as 0.2.0, given another")
    for name in PLACES:
        file = ROOT / name
        file.write_text(_pattern(name).sub(lambda place: re.sub(NUMBER, version, place[0]), file.read_text()))


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(PLACES[name].replace("#", NUMBER), re.MULTILINE)


def _parts(groups: str | tuple[str, ...]) -> tuple[str, ...]:
    return (groups,) if isinstance(groups, str) else groups


if __name__ == "__main__":
    try:
        write(*sys.argv[1:]) if sys.argv[1:] else print(VERSION)  # noqa: T201 # a command
    except ValueError as refusal:
        sys.exit(str(refusal))
