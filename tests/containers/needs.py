"""What the container commands need, and whether a container can start here: `make container-check`.

The last line says what to install, in the order in which podman must find it.
"""

import os
import sys
import tarfile

from tests.containers.podman import FOLDER, PodmanError, found, run

NEEDS = {
    "runc": ("runc", "runs containers; crun, which podman takes else, refuses hybrid control groups"),
    "netavark": ("netavark", "connects containers"),
    "aardvark-dns": ("aardvark-dns", "lets containers find each other by name"),
    "catatonit": ("catatonit", "is the first process of a container (init: true)"),
    "iptables": ("iptables", "netavark's rules"),
    "debootstrap": ("debootstrap", "makes the base images"),
    "buildah": ("buildah", "builds images"),
    "podman": ("podman", "runs all of it; after netavark, since it keeps the network of its first use"),
}
"""Programs, the packages of Debian that bring them, and what for; in the order in which they are installed."""
COMPOSE = ("podman-compose", "starts docker-compose.yml; `make` brings it (Debian 12's 1.0.3 is too old)")


def lacking(*more: str) -> str:
    """Say what is not here and what to do about it; nothing if all is here."""
    packages = [package for program, (package, _) in NEEDS.items() if not found(program)]
    others = [program for program in more if not found(program)]
    if packages:
        return (
            f"{', '.join(packages)}: not installed; apt-get install --yes --no-install-recommends {' '.join(packages)}"
        )
    if others:
        return f"{', '.join(others)}: not installed; make lint"
    return "" if os.geteuid() == 0 else "debootstrap needs root"


def refusal() -> str:
    """Say why no container starts here; nothing if one does: catatonit alone, which needs no other file."""
    FOLDER.mkdir(exist_ok=True)
    archive, name = FOLDER / "probe.tar", "localhost/regard-probe"
    with tarfile.open(archive, "w") as tar:
        tar.add(found("catatonit") or "catatonit", "catatonit")
    try:
        run("podman", "import", archive, name)
        run("podman", "run", "--rm", "--network=none", name, "/catatonit", "--version", seconds=60)
    except PodmanError as error:
        return f"no container can start here: {str(error).strip().splitlines()[-1]}"
    finally:
        archive.unlink()
        run("podman", "rmi", "--force", name, check=False)
    return ""


def main() -> int:
    """Print what is here and what is not; return 1 if something is not."""
    rows = [(program, why) for program, (_, why) in NEEDS.items()]
    for program, why in (*rows, COMPOSE):
        print(f"{'here' if found(program) else 'MISSING':8} {program:15} {why}")
    reason = lacking() or refusal() or lacking(COMPOSE[0])
    print(reason or "a container starts: make container-smoke and make demo-cluster can run")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
