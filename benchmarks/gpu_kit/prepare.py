"""Write what is carried to a machine with a GPU: `python -m benchmarks.gpu_kit.prepare --to kit`.

The folder holds packs, `kit/1`, `kit/2`, ..., each of at most `--limit` MiB, carried one by one or together. There:

    python3 kit/1/unpack.py kit/* --to there     # once all packs are there; or once for each, as it arrives
    python3 there/measure.py                     # at most nine minutes; there/result.json grows after every figure

Exports of models take most of the ten minutes that this takes on two cores. `--small` writes a kit that shows on a CPU
that all of it runs.
"""

import argparse
import contextlib
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import get_args

from benchmarks.gpu_kit import weights, wheels
from benchmarks.peers import ROOT, log

HERE = Path(__file__).parent
CODE = ("service", "contract", "export", "model", "train", "benchmarks", "tests", "client", "deploy", "pyproject.toml")
WITHOUT = ("model/bundled/", "model/artifacts/", "benchmarks/plots/", "client/regard/static/", "tests/data/scenes/")
"""Large files of the repository that nothing there reads."""
SCRIPTS = ("unpack.py", "measure.py")
LIST = "kit.json"
PRECISIONS = ("fp16", "bf16")


def code(to: Path) -> None:
    """Write the committed code."""
    listed = subprocess.run(["git", "ls-files", *CODE], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if not name.startswith(WITHOUT):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def models(to: Path, *, small: bool) -> None:
    """Write the models: two bundled ones whole, in each precision, and the timed ones without their large weights."""
    from benchmarks import gpu
    from contract.manifest import GradientMethod

    shutil.copytree(ROOT / "model/artifacts", to / "bundled/fp32")
    for precision in () if small else PRECISIONS:
        given = ["--precision", precision, "--opset", "24", "--to", to / "bundled" / precision]
        command = [sys.executable, "-m", "export", "digits", "dates", *given]
        subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    sizes = gpu.Sizes(argparse.Namespace(quick=small, device="cpu" if small else "cuda"))
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(sys.stderr):
        folder = Path(temporary)
        made = [gpu.exported(sizes, folder, "fp16", get_args(GradientMethod))]
        if small:
            made += [ROOT / "model/artifacts" / name / "1" for name in ("digits", "dates")]
        else:
            made += [deit_s(folder), gpu.translator(sizes, folder, sizes.generated)]
        for artifact in made:
            weights.strip(artifact, to / "timed" / artifact.parent.name)


def deit_s(folder: Path) -> Path:
    """Export a DeiT-S with libra, with random weights; return its folder."""
    from benchmarks.attention import drawn
    from contract.input_rules import ImageRule
    from export.pipeline import export
    from export.tasks.image import image_model
    from model.architectures.vit import VIT_SIZES

    config = replace(VIT_SIZES["vit_b_16"], width=384, heads=6, hidden=1536)
    height, width = config.image
    rule = ImageRule(height=height, width=width, channels=3, locate="middle", mean=(0.5,) * 3, std=(0.5,) * 3)
    source = image_model(
        "deit-s", drawn(config), config, family="vit", task="image-classification", rule=rule, made_by={},
        labels=tuple(f"class {index}" for index in range(config.classes)),
    )  # fmt: skip
    return export(replace(source, verified_longest=None), "1", folder, "fp16", 24, without=("relevance", "integrated"))


def archive(folder: Path, to: Path) -> None:
    """Write a folder as one file, compressed unless its files are."""
    with tarfile.open(to, "w") if to.suffix == ".tar" else tarfile.open(to, "w:xz", preset=6) as packed:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                entry = packed.gettarinfo(file, str(file.relative_to(folder)))
                entry.mtime = 0
                packed.addfile(entry, io.BytesIO(file.read_bytes()))


def packed(archives: list[Path], to: Path, limit: int) -> None:
    """Move archives to packs of at most `limit` bytes, each with the scripts and the list of all files.

    Raises SystemExit for an archive that fits no pack.
    """
    common = sum((HERE / name).stat().st_size for name in SCRIPTS) + (64 << 10)
    listed = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in archives}
    room: list[int] = []
    for file in sorted(archives, key=lambda one: -one.stat().st_size):
        size = file.stat().st_size
        if size + common > limit:
            raise SystemExit(f"{file.name}: at most {limit >> 20} MiB a pack, given {size / 2**20:.1f} MiB")
        number = next((index for index, left in enumerate(room) if left >= size), len(room))
        if number == len(room):
            room.append(limit - common)
        room[number] -= size
        pack = to / str(number + 1)
        pack.mkdir(parents=True, exist_ok=True)
        shutil.move(file, pack / file.name)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    for pack in to.iterdir():
        (pack / LIST).write_text(json.dumps({"commit": commit, "files": listed}, indent=1))
        for name in SCRIPTS:
            shutil.copy(HERE / name, pack / name)


def main() -> None:
    """Write the packs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="the folder to write")
    parser.add_argument("--limit", type=int, default=60, help="MiB of a pack (default: 60)")
    parser.add_argument("--python", default="3.12", help="the version of Python there (default: 3.12)")
    parser.add_argument("--capability", type=int, default=90, help="of the GPU, times ten (default: 90, of an H100)")
    parser.add_argument("--small", action="store_true", help="models of a few layers, and onnxruntime for a CPU")
    arguments = parser.parse_args()
    if arguments.to.exists():
        raise SystemExit(f"{arguments.to}: must be a new folder")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        parts = {
            "code": work / "code",
            "models": work / "models",
            "wheels": work / "wheels",
            "runtime": work / "runtime",
        }
        for part in parts.values():
            part.mkdir()
        log("code")
        code(parts["code"])
        log("wheels")
        wheels.download(wheels.lacking(), arguments.python, parts["wheels"])
        if arguments.small:
            wheels.download([wheels.runtime_of_cpu()], arguments.python, parts["wheels"])
        else:
            log("onnxruntime-gpu")
            wheels.thinned_runtime(arguments.python, arguments.capability, parts["runtime"] / "site")
        log("models")
        models(parts["models"], small=arguments.small)
        archives = []
        for name, folder in parts.items():
            if any(folder.iterdir()):
                log(f"packing {name}")
                archives.append(work / (f"{name}.tar" if name == "wheels" else f"{name}.tar.xz"))
                archive(folder, archives[-1])
        arguments.to.mkdir(parents=True)
        packed(archives, arguments.to, arguments.limit << 20)
    for pack in sorted(arguments.to.iterdir()):
        size = sum(file.stat().st_size for file in pack.iterdir())
        print(f"{pack}: {size / 2**20:.1f} MiB, {', '.join(sorted(file.name for file in pack.iterdir()))}")


if __name__ == "__main__":
    main()
