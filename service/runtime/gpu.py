"""Why onnxruntime cannot use a GPU here. NVIDIA's driver is asked: onnxruntime says it on stderr, or not at all."""

import ctypes
from typing import Any

DRIVER = 580
"""The series of drivers that brought CUDA 13 (NVIDIA's release notes of the CUDA toolkit)."""
CUDA = 13
"""What onnxruntime-gpu of the lock is built for."""
CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (12, 0))
"""The compute capabilities that onnxruntime-gpu 1.31.1 has machine code for, as its wheel says (`.nv_fatbin` of its
library). It has no code that a driver could compile for others; code of a minor runs on later ones of its major."""
MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h."""
ELSE = "or set REGARD_DEVICE=cpu"


def why_not() -> str | None:
    """Return why the first GPU cannot run onnxruntime-gpu, and what to do; None if the driver tells no reason."""
    try:
        driver: Any = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return (
            f"must have a driver of {DRIVER} or newer, and there is no libcuda.so.1 here; give the container a GPU "
            "(docker run --gpus all, podman run --device nvidia.com/gpu=all, in Kubernetes a limit of nvidia.com/gpu "
            f"and, where NVIDIA's is not the default runtime, runtimeClassName: nvidia), {ELSE}"
        )
    known = _asked(driver.cuDriverGetVersion)
    if known // 1000 < CUDA:
        return (
            f"must have a driver that knows CUDA {CUDA} ({DRIVER} or newer), given one of CUDA "
            f"{known // 1000}.{known % 1000 // 10}; install a newer driver, {ELSE}"
        )
    if status := driver.cuInit(0):
        return f"must be seen by the driver, which finds none (error {status} of cuInit, see nvidia-smi)"
    card = _asked(driver.cuDeviceGet, 0)
    capability = _asked(driver.cuDeviceGetAttribute, MAJOR, card), _asked(driver.cuDeviceGetAttribute, MINOR, card)
    if not any(capability[0] == major and capability[1] >= minor for major, minor in CAPABILITIES):
        known_to = ", ".join(f"{major}.{minor}" for major, minor in CAPABILITIES)
        return (
            f"must be of compute capability {known_to}, which onnxruntime-gpu has code for, given "
            f"{capability[0]}.{capability[1]}; take another card, {ELSE}"
        )
    return None


def _asked(function: Any, *arguments: int) -> int:  # noqa: ANN401 # a function of ctypes
    """Return the number that a function of the driver writes to its first argument; 0 if it fails."""
    answer = ctypes.c_int()
    function(ctypes.byref(answer), *arguments)
    return answer.value
