"""List what images hold, as CycloneDX in build/sbom/: `python -m deploy.sbom [IMAGE]`.

Of each lock its Python packages; of an image that is built, by podman, those that it really has, and Debian's.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
LOCKS = {"cpu": "", "gpu": "", "export": "torch.txt"}
"""The lock of each image, and what is installed beside it."""
PYTHON = (
    "import importlib.metadata as m; print(*{f'{one.name}=={one.version}' for one in m.distributions()}, sep='\\n')"
)
DEBIAN = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\\n"]
OPTIONS = ["--pyproject", "pyproject.toml", "--mc-type", "application", "--output-reproducible", "--of", "JSON"]


def python_packages(requirements: Path, to: Path) -> None:
    """Write the list of a file of requirements. Raises CalledProcessError if cyclonedx-py fails."""
    command = [Path(sys.executable).parent / "cyclonedx-py", "requirements", requirements, *OPTIONS, "-o", to]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 # our own words


def debian_packages(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return components for lines of dpkg-query: name, version and architecture."""
    found = []
    for name, version, architecture in map(str.split, lines):
        purl = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={architecture}"
        found.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    return found


def in_image(image: str, *command: str) -> str:
    """Return what a command prints in an image. Raises CalledProcessError if podman cannot run it."""
    podman = ["podman", "run", "--rm", "--network=none", f"--entrypoint={command[0]}", image, *command[1:]]
    return subprocess.run(podman, capture_output=True, text=True, check=True).stdout  # noqa: S603 # our own words


def main(images: Sequence[str]) -> int:
    """List every lock, and the image that is named; return the exit status."""
    folder = ROOT / "build/sbom"
    folder.mkdir(parents=True, exist_ok=True)
    for lock, beside in LOCKS.items():
        files = [ROOT / "requirements" / name for name in (f"{lock}.lock", beside) if name]
        (folder / f"{lock}.lock").write_text("".join(file.read_text() for file in files))
        python_packages(folder / f"{lock}.lock", folder / f"{lock}.cdx.json")
    for image in images:
        try:
            (folder / "image.txt").write_text(in_image(image, "python", "-Ic", PYTHON))
            debian = debian_packages(in_image(image, *DEBIAN).splitlines())
        except subprocess.CalledProcessError as error:
            print(f"{image}: cannot be listed: {error.stderr.strip()}", file=sys.stderr)  # noqa: T201 # for a person
            return 1
        python_packages(folder / "image.txt", folder / "image.cdx.json")
        document = json.loads((folder / "image.cdx.json").read_text())
        document["components"] += debian
        (folder / "image.cdx.json").write_text(json.dumps(document, indent=2))
        print(f"{image}: {len(document['components'])} packages, {len(debian)} of them Debian's")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
