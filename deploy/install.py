"""Install the project with extras, and its client: `.venv/bin/python -m deploy.install cpu export`.

It installs into the environment that runs it, editable: what runs is the checkout.

What the images have too is installed as their locks pin it: what is tested is what they ship, and the release of
another package changes nothing until `make lock` takes it.

uv installs in seconds what takes pip half a minute. If there is none, pip installs it into a folder beside the
environment. uv reads no configuration of pip, so it is given pip's indexes and constraints; if it fails all the same,
pip installs. PyTorch comes first and by itself: its CPU build where there is no GPU and an index has one, since the
build that an index has by default for Linux brings several gigabytes of CUDA.

On a terminal the progress of pip and uv is seen; elsewhere a line says what each step installs.

Arguments for pip (`PIP_ARGS`) are understood by pip alone, so then pip installs everything.
"""

import contextlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV_FOLDER = ROOT / ".venv-uv"
PINS = ROOT / "build/pins.txt"
PIN = re.compile(r"^(\S+==.+?) \\$", re.MULTILINE)
OF_TORCH = re.compile(r"nvidia-(?!ml-py)")
"""Packages that PyTorch's build for GPUs requires in versions of its own."""
FORMER_NAME = "regard"
RUNTIMES = {"cpu": "onnxruntime", "gpu": "onnxruntime-gpu", "openvino": "onnxruntime-openvino"}
"""The distribution of onnxruntime that each extra installs."""
PIP = [sys.executable, "-m", "pip"]
UV_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
    "constraint": "--constraint",
}
"""uv's names of pip's settings."""
OLDEST_UV = (0, 13)
INSTALLING_UV = ["--target", str(UV_FOLDER), "uv>=0.13"]


def install(extras: list[str]) -> int:
    """Install the project, editable, with the extras; return the exit status."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if unknown := [extra for extra in extras if extra not in known]:
        print(f"EXTRA: must be one of {', '.join(RUNTIMES)}, given {' '.join(unknown)}", file=sys.stderr)  # noqa: T201 # for a person
        return 2
    pip_arguments = shlex.split(os.environ.get("PIP_ARGS", ""))
    uv = None if pip_arguments else find_uv()
    remove_other_runtimes(extras)
    torch = missing_torch(extras)
    if torch and (status := install_torch(torch, uv, pip_arguments, has_gpu="gpu" in extras)):
        return status
    # by paths, since a finder would come after a folder of the name `regard` where Python is started
    projects = ["--config-settings", "editable_mode=compat", "--editable", f".[{','.join(extras)}]"]
    projects += ["--editable", "./client", *pins(extras)]
    print(f"installing what {' '.join(extras)} needs", flush=True)  # noqa: T201 # for a person
    status = run([*uv, *quiet(), *projects], quiet=bool(quiet())) if uv else 1
    if status:
        status = run([*PIP, "install", *quiet(), *pip_arguments, *projects])
    if not status and is_installed_by_its_former_name():
        run([*PIP, "uninstall", "--quiet", "--yes", FORMER_NAME])
    return status


def pins(extras: list[str]) -> list[str]:
    """Write what the images of these extras have to `PINS`; return the option of pip and uv that keeps to it.

    Without hashes, which pip would then want of every package. Beside PyTorch, NVIDIA's libraries are those that it
    requires.
    """
    locks = ["gpu" if "gpu" in extras else "cpu", *(["export"] if "export" in extras else [])]
    text = "".join((ROOT / f"requirements/{lock}.lock").read_text() for lock in locks)
    lines = dict.fromkeys(PIN.findall(text))
    kept = [line for line in lines if not {"export", "train"} & set(extras) or not OF_TORCH.match(line)]
    PINS.parent.mkdir(exist_ok=True)
    PINS.write_text("".join(f"{line}\n" for line in kept))
    return ["--constraint", str(PINS)]


def remove_other_runtimes(extras: list[str]) -> None:
    """Remove the distributions of onnxruntime that the extras do not name, and what they wrote over of the one that is.

    All are one package to Python, so the last one that was installed would run, whichever is asked for.
    """
    wanted = next((extra for extra in extras if extra in RUNTIMES), None)
    others = [one for extra, one in RUNTIMES.items() if extra != wanted and is_installed(one)]
    if wanted and others:
        run([*PIP, "uninstall", "--quiet", "--yes", *others, RUNTIMES[wanted]])
        for extra in RUNTIMES.keys() - {wanted}:
            for stamp in (ROOT / ".venv").glob(f".*-{extra}"):  # of make, which would take it for installed
                stamp.unlink()


def is_installed(distribution: str) -> bool:
    """Return whether a distribution is installed."""
    return any(importlib.metadata.distributions(name=distribution))


def quiet() -> list[str]:
    """Return the option of pip and uv that hides their progress where nobody watches it."""
    return [] if sys.stdout.isatty() else ["--quiet"]


def is_installed_by_its_former_name() -> bool:
    """Return whether the project is installed as it was once called too. Another project's package is not editable."""
    found = importlib.metadata.distributions(name=FORMER_NAME)
    origins = (json.loads(one.read_text("direct_url.json") or "{}") for one in found)
    return any(origin.get("dir_info", {}).get("editable") for origin in origins)


def find_uv(interpreter: str = sys.executable) -> list[str] | None:
    """Return uv's command that installs for an interpreter, or None if uv can neither be found nor installed."""
    places = (None, UV_FOLDER / "bin")
    found = next((uv for path in places if (uv := shutil.which("uv", path=path)) and is_new(uv)), None)
    if not found and run([*PIP, "install", *quiet(), *INSTALLING_UV], quiet=True) == 0:
        found = shutil.which("uv", path=UV_FOLDER / "bin")
    return [found, "pip", "install", "--python", interpreter, *index_options()] if found else None


def is_new(uv: str) -> bool:
    """Return whether a uv knows all that is asked of it here."""
    said = subprocess.run([uv, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    version = re.search(r"(\d+)\.(\d+)", said)
    return version is not None and tuple(map(int, version.groups())) >= OLDEST_UV


def index_options() -> list[str]:
    """Return the options of uv that say what pip is configured with: where to look, and what versions to keep to."""
    options = ["--index-strategy", "unsafe-best-match"]  # as pip does: the newest version of all indexes
    for name, option in UV_OPTIONS.items():
        options += [part for value in (pip_setting(name) or "").split() for part in (option, value)]
    return options


def pip_setting(name: str) -> str | None:
    """Return what pip takes for an option when it installs: of the environment, else of its files.

    `pip config` does not tell which of several files holds, so pip's own reader is asked, which is private to pip. If
    it changes, nothing is handed to uv, and pip installs where uv fails.
    """
    try:
        from pip._internal.configuration import Configuration
        from pip._internal.exceptions import ConfigurationError

        configuration = Configuration(isolated=False)
        configuration.load()
    except Exception:  # whatever another version of pip may do
        return None
    for section in (":env:", "install", "global"):
        with contextlib.suppress(ConfigurationError):
            return str(configuration.get_value(f"{section}.{name}"))
    return None


def missing_torch(extras: list[str]) -> str | None:
    """Return the requirement of torch that the extras have, if what is installed does not satisfy it."""
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pinned = next((line for extra in extras for line in optional[extra] if line.startswith("torch==")), None)
    try:
        installed = importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        installed = None
    return None if pinned is None or pinned == f"torch=={installed}" else pinned


def install_torch(torch: str, uv: list[str] | None, pip_arguments: list[str], *, has_gpu: bool) -> int:
    """Install torch, its CPU build if there is no GPU and one can be had; return the exit status."""
    pip = [*PIP, "install", *pip_arguments]
    if not has_gpu:
        print(f"installing PyTorch ({torch}): about 0.2 GB to download, 0.8 GB in all", flush=True)  # noqa: T201
        if run([*pip, f"{torch}+cpu"], quiet=True) == 0:  # of an index that pip is configured with
            return 0
        if uv and run([*uv, "--torch-backend", "cpu", torch]) == 0:  # of PyTorch's own index
            return 0
        if sys.platform == "linux":
            print("  no index has a CPU build of it; the build with CUDA has several gigabytes", flush=True)  # noqa: T201
    return run([*pip, torch])


def run(command: list[str], *, quiet: bool = False) -> int:
    """Run a command in the repository; return its exit status. What a quiet one says of its failure is dropped."""
    environment = {**os.environ, "UV_HTTP_RETRIES": "1"}  # if an index cannot be reached, that is soon known
    errors = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, cwd=ROOT, env=environment, stderr=errors, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(install(sys.argv[1:]))
