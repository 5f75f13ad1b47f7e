"""The images of the Dockerfile and of what stands beside the service, built from Debian's packages.

No registry is asked: the bases are made by debootstrap, and kept as images and as archives in .containers/.
"""

import os
import shutil
from pathlib import Path

from service import VERSION
from tests.containers.podman import FOLDER, PodmanError, exists, run

SUITES = {"trixie": "3.13", "bookworm": "3.11"}
"""Releases of Debian that are used, with their Python."""
RUNS = "python3,ca-certificates"
BUILDS = "python3-venv python3-pip"
"""Packages of Debian that run an image, and those that build it beside them."""
CPU = f"localhost/regard:{VERSION}-cpu"
OTHERS = {
    "haproxy": 'ENTRYPOINT ["/usr/sbin/haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]\n'
    "USER haproxy",
    # valkey is redis by another name, and Debian 13 has redis
    "redis-server": "RUN ln -s redis-server /usr/bin/valkey-server\nUSER redis",
    "prometheus": 'ENTRYPOINT ["/usr/bin/prometheus", "--config.file=/etc/prometheus/prometheus.yml", '
    '"--storage.tsdb.path=/prometheus"]\nRUN install --directory --owner 65534 /prometheus\nUSER 65534',
}
"""Packages that stand in for images of others, and what makes each behave as that image does."""


def base(kind: str, suite: str = "trixie") -> str:
    """Return the name of an image of Debian that runs (without pip) or builds (with pip)."""
    name = f"localhost/regard-{kind}-{suite}"
    if exists(name):
        return name
    if kind == "build":
        return _installed(name, base("run", suite), BUILDS)
    archive = FOLDER / f"{kind}-{suite}.tar"
    if not archive.exists():
        _bootstrap(archive, suite)
    run("podman", "import", archive, name)
    return name


def _bootstrap(archive: Path, suite: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    root = archive.with_suffix("")
    shutil.rmtree(root, ignore_errors=True)
    run("debootstrap", "--variant=minbase", f"--include={RUNS}", suite, root)
    for cache in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(root / cache)
        (root / cache / "partial").mkdir(parents=True)
    half = archive.with_suffix(".half")
    run("tar", "-C", root, "--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*", "-cf", half, ".")
    half.rename(archive)
    shutil.rmtree(root)


def _installed(name: str, base: str, packages: str, more: str = "") -> str:
    """Build an image with packages of Debian, and further lines of a Dockerfile; return its name."""
    folder = FOLDER / name.rpartition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Dockerfile").write_text(
        f"FROM {base}\nRUN apt-get update && apt-get install --yes --no-install-recommends {packages} "
        f"&& apt-get clean && rm -rf /var/lib/apt/lists\n{more}\n"
    )
    _bud(f"--tag={name}", folder)
    return name


def build(target: str, tag: str, *options: object, suite: str = "trixie") -> str:
    """Build a target of the Dockerfile; return its tag."""
    bases = (f"--build-arg=BASE_IMAGE={base('run', suite)}", f"--build-arg=BUILD_IMAGE={base('build', suite)}")
    revision = run("git", "rev-parse", "HEAD").strip()
    said = (f"--build-arg=VERSION={VERSION}", f"--build-arg=VCS_REF={revision}")
    _bud(f"--target={target}", *bases, *said, *options, f"--tag={tag}", ".")
    return tag


def cpu() -> str:
    """Build the image of the service as this folder has it now; what has not changed is not built again."""
    return build("cpu", CPU)


def other(package: str) -> str:
    """Return the name of an image of something that stands beside the service."""
    name = f"localhost/regard-{package}"
    return name if exists(name) else _installed(name, base("run"), package, OTHERS[package])


def torch_wheels() -> tuple[Path, str] | None:
    """Return the folder that TORCH_WHEELS names and the release of Debian whose Python its wheel is for."""
    folder = Path(os.environ.get("TORCH_WHEELS", "/nowhere"))
    for suite, python in SUITES.items():
        if list(folder.glob(f"torch-*-cp{python.replace('.', '')}-*.whl")):
            return folder, suite
    return None


def _bud(*words: object) -> None:
    """Build. What this machine needs to reach a package index is lent to the build, and is in no image."""
    lent = [Path("/etc/pip.conf"), Path("/etc/ssl/certs/ca-certificates.crt")]
    volumes = [f"--volume={path}:{path}:ro" for path in lent if path.exists()]
    common = ("--isolation=chroot", "--format=docker", "--layers", "--pull-never")
    try:
        run("buildah", "bud", *common, *volumes, *words)
    except PodmanError as error:
        raise PodmanError(f"{error}\n(an image of Debian is built by chroot: root is needed)") from None
