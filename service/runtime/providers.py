"""The execution providers of onnxruntime: their names, the artifacts that each can run, and their options."""

import functools
import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path

from contract.manifest import Manifest, Role
from service.runtime.runtime_errors import PrecisionError
from service.settings import Settings

PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
INSTALL_EXTRAS: Mapping[str, str] = {"cuda": "gpu", "openvino": "openvino", "tensorrt": "gpu and the package tensorrt"}
PRECISIONS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("fp32", "fp16", "int8", "calibrated int8", "int4"),
    "cuda": ("fp32", "fp16", "bf16"),
    "openvino": ("fp32", "calibrated int8"),
    "tensorrt": ("fp32", "fp16", "bf16"),
}
"""The precisions that each device runs, by `precision_of`. A GPU has no kernels for our int8 graphs, and a CPU has none
for bfloat16: a graph would be split into many small parts. OpenVINO has kernels for
scales that are fixed. Graphs in int4 were tried on a CPU alone."""
CPU_FACTS = Path("/proc/cpuinfo")


def precision_of(manifest: Manifest) -> str:
    """Return the precision of an artifact, as PRECISIONS names it."""
    return f"calibrated {manifest.precision}" if manifest.scales == "fixed" else manifest.precision


@functools.cache
def products_saturate() -> bool:
    """Return whether the processor adds products of 8-bit numbers in 16 bits, where they saturate: x86 without VNNI.

    Also True on x86 if Linux does not tell.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        flags = CPU_FACTS.read_text()
    except OSError:
        return True
    return "avx512_vnni" not in flags and "avx_vnni" not in flags


def check_precision(name: str, device: str, manifest: Manifest) -> None:
    """Raise PrecisionError for an artifact whose precision a device does not run, or not exactly on this processor."""
    if (precision := precision_of(manifest)) not in PRECISIONS[device]:
        *others, last = PRECISIONS[device]
        runs = f"{', '.join(others)} or {last}" if others else last
        raise PrecisionError(f"{name}: {device} runs artifacts in {runs}, given {precision}")
    if device == "openvino" and manifest.precision == "int8" and products_saturate():
        raise PrecisionError(
            f"{name}: sums of 8-bit products saturate in openvino on this processor, which has no VNNI; set "
            "REGARD_DEVICE=cpu, which is exact and no slower here"
        )


def device_of(wanted: str, role: Role, manifest: Manifest) -> str:
    """Return the device that a role runs on.

    OpenVINO runs predictions; attention is computed on the CPU in full precision. TensorRT runs predictions for images,
    whose sizes are known when its engines are built; CUDA runs everything else.
    """
    if wanted == "openvino" and role != "predict":
        return "cpu"
    if wanted == "tensorrt" and (role != "predict" or not has_fixed_sizes(manifest)):
        return "cuda"
    return wanted


def in_gpu_memory(provider: str) -> bool:
    """Return whether sessions of a provider read and write the memory of a GPU."""
    return provider in (PROVIDERS["cuda"], PROVIDERS["tensorrt"])


def uses_cuda_graphs(device: str, role: Role, manifest: Manifest, settings: Settings) -> bool:
    """Return whether CUDA graphs are recorded: only for predictions of images, where only the batch size varies."""
    return settings.cuda_graphs and device == "cuda" and role == "predict" and has_fixed_sizes(manifest)


def has_fixed_sizes(manifest: Manifest) -> bool:
    """Return whether only the batch size of predictions varies."""
    return not any(rule.most_tokens for rule in manifest.inputs)


def largest_batch(manifest: Manifest, settings: Settings) -> int:
    """Return the largest number of images in one batch of predictions."""
    kind = manifest.attention[0]
    return max(settings.batch_tokens // kind.length, 1)


def options(
    device: str, role: Role, manifest: Manifest, settings: Settings, threads: int
) -> list[tuple[str, dict[str, str]]]:
    """Return the providers of a session and their options. The first provider must be available."""
    if device == "cpu":
        return [(PROVIDERS[device], {})]
    if device == "openvino":  # it computes floats in bfloat16 if the processor can
        hints = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads}
        return [(PROVIDERS[device], {"device_type": "CPU", "load_config": json.dumps({"CPU": hints})})]
    cuda = {
        "arena_extend_strategy": "kSameAsRequested",  # grow by what is needed, not to the next power of two
        "cudnn_conv_algo_search": "HEURISTIC",  # the default measures again for every batch size
        "use_tf32": "0",  # TF32 would round fp32
    }
    if settings.device_memory_bytes:
        cuda["gpu_mem_limit"] = str(settings.device_memory_bytes)
    if uses_cuda_graphs(device, role, manifest, settings):
        cuda["enable_cuda_graph"] = "1"
    found = [(PROVIDERS["cuda"], cuda)]
    return found if device == "cuda" else [(PROVIDERS[device], _tensorrt(role, manifest, settings)), *found]


def _tensorrt(role: Role, manifest: Manifest, settings: Settings) -> dict[str, str]:
    """Return the options of TensorRT: one engine for all batch sizes from 1 to the largest."""
    (pixels,) = manifest.graphs[role].inputs
    largest = largest_batch(manifest, settings)

    def shape(batch: int) -> str:
        return f"{pixels.name}:" + "x".join(str(batch if isinstance(axis, str) else axis) for axis in pixels.axes)

    options = {
        "trt_profile_min_shapes": shape(1),
        "trt_profile_opt_shapes": shape(largest),
        "trt_profile_max_shapes": shape(largest),
    }
    if manifest.precision in ("fp16", "bf16"):
        options[f"trt_{manifest.precision}_enable"] = "1"
    if settings.device_memory_bytes:
        options["trt_max_workspace_size"] = str(settings.device_memory_bytes)
    if settings.engine_cache:
        # TensorRT names an engine's file after the graph alone, but it holds weights: other weights need another folder
        digest = hashlib.sha256("".join(file.sha256 for file in manifest.all_files()).encode()).hexdigest()
        folder = settings.engine_cache / f"{manifest.name}-{digest[:16]}"
        folder.mkdir(parents=True, exist_ok=True)
        options |= {"trt_engine_cache_enable": "1", "trt_engine_cache_path": str(folder)}
        options |= {"trt_timing_cache_enable": "1", "trt_timing_cache_path": str(folder)}
    return options
