"""The packages that a machine with a GPU lacks: their wheels, and onnxruntime-gpu with the code of one GPU alone."""

import collections
import re
import struct
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.peers import ROOT

PRESENT = ("torch", "numpy", "onnx", "pytest")
"""What a machine for machine learning has, with what these need."""
NEEDED = ("regard-service", "httpx", "filelock", "pytest-timeout", "pytest-xdist", "hypothesis",
          "onnxscript", "safetensors", "sentencepiece")  # fmt: skip
"""What the service and its tests need beside that."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
DOWNLOAD = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
CUDA_LIBRARY = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
UNUSED = ("libonnxruntime.so", "libonnxruntime_providers_tensorrt.so", "ThirdPartyNotices.txt")
"""Of onnxruntime-gpu: what Python does not load."""
FAT_BINARY, MACHINE_CODE = 0xBA55ED50, 2
"""How an entry of CUDA code begins, and the kind of an entry that a GPU runs as it is."""


def closure(names: tuple[str, ...], extras: tuple[str, ...] = ("",)) -> set[str]:
    """Return distributions that are installed here, and all that they need."""
    found: set[str] = set()
    todo = [canonicalize_name(name) for name in names]
    while todo:
        name = todo.pop()
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue  # for another platform, or another Python
        if name in found:
            continue
        found.add(name)
        wanted = (Requirement(line) for line in lines)
        todo += [
            canonicalize_name(one.name)
            for one in wanted
            if not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return found


def lacking() -> list[str]:
    """Return the packages that are carried, at the versions that the tests ran with, as `name==version`."""
    runtimes = {name for name in closure(("regard-service",)) if name.startswith("onnxruntime")}
    names = closure(NEEDED) - closure(PRESENT) - runtimes - {"regard-service"}
    return [f"{name}=={version(name).partition('+')[0]}" for name in sorted(names)]


def download(packages: list[str], python: str, to: Path) -> None:
    """Write the wheels of packages for a Python on Linux (x86-64)."""
    target = ["--implementation", "cp", "--python-version", python, *(f"--platform={name}" for name in PLATFORMS)]
    subprocess.run([*DOWNLOAD, *target, "--dest", to, *packages], check=True)


def runtime_version() -> str:
    """Return the version of onnxruntime-gpu that the images have."""
    locked = re.search(r"^onnxruntime-gpu==([\d.]+)", (ROOT / "requirements/gpu.lock").read_text(), re.MULTILINE)
    if locked is None:
        raise SystemExit("requirements/gpu.lock: must name onnxruntime-gpu")
    return locked[1]


def thinned_runtime(python: str, capability: int, to: Path) -> None:
    """Write onnxruntime-gpu as files, with the machine code of one compute capability alone: a fifth of the whole."""
    to.mkdir(parents=True)
    download([f"onnxruntime-gpu=={runtime_version()}"], python, to)
    (wheel,) = to.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(to, [name for name in archive.namelist() if not Path(name).name.startswith(UNUSED)])
    wheel.unlink()
    library = to / CUDA_LIBRARY
    library.write_bytes(thinned(library.read_bytes(), capability))


def thinned(library: bytes, capability: int) -> bytes:
    """Return a CUDA library in which the code for other GPUs is zeros, which compress to nothing.

    Raises SystemExit if it has no code for that capability.
    """
    blob = bytearray(library)
    start, size = _section(library, ".nv_fatbin")
    kept: collections.Counter[int] = collections.Counter()
    place = start
    while place < start + size:
        if struct.unpack_from("<I", blob, place)[0] != FAT_BINARY:
            place += 8
            continue
        header, length = struct.unpack_from("<HQ", blob, place + 6)
        entry, place = place + header, place + header + length
        while entry < place:
            kind, _, entry_header, payload = struct.unpack_from("<HHIQ", blob, entry)
            if kind == MACHINE_CODE and struct.unpack_from("<I", blob, entry + 28)[0] == capability:
                kept[capability] += payload
            else:
                blob[entry + entry_header : entry + entry_header + payload] = bytes(payload)
            entry += entry_header + payload
    if not kept[capability]:
        raise SystemExit(f"onnxruntime-gpu: has no code for compute capability {capability / 10}")
    return bytes(blob)


def _section(elf: bytes, wanted: str) -> tuple[int, int]:
    """Return where a section of a little-endian ELF file of 64 bits begins, and its size (ELF-64, section header)."""
    table = struct.unpack_from("<Q", elf, 0x28)[0]
    entry_size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + index * entry_size) for index in range(count)]
    names = headers[names_index][4]
    for name, _, _, _, offset, size in headers:
        if elf[names + name : elf.index(b"\0", names + name)] == wanted.encode():
            return offset, size
    raise SystemExit(f"onnxruntime-gpu: its CUDA library has no section {wanted}")


def runtime_of_cpu() -> str:
    """Return onnxruntime for a CPU at the version that is installed here."""
    return f"onnxruntime=={version('onnxruntime')}"
