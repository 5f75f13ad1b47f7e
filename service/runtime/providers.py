"""Execution providers: what each is called, which artifacts it runs, and with which options."""

import hashlib
import json
from collections.abc import Mapping

from contract.manifest import Manifest, Role
from service.settings import Settings

PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
EXTRAS: Mapping[str, str] = {"cuda": "gpu", "openvino": "openvino", "tensorrt": "gpu and the package tensorrt"}
RUNS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("fp32", "fp16", "int8"),
    "cuda": ("fp32", "fp16", "bf16"),
    "openvino": ("fp32",),
    "tensorrt": ("fp32", "fp16", "bf16"),
}
"""Precisions by device. A GPU has no kernels for our 8 bits, a CPU none for bfloat16: a graph would fall apart."""


def device_of(wished: str, role: Role, manifest: Manifest) -> str:
    """Return where a role runs.

    OpenVINO predicts, and what is looked at is computed on the CPU in full precision. TensorRT predicts of images,
    whose sizes are known when its engines are built; all else is CUDA's.
    """
    if wished == "openvino" and role != "predict":
        return "cpu"
    if wished == "tensorrt" and (role != "predict" or manifest.image is None):
        return "cuda"
    return wished


def captured(device: str, role: Role, manifest: Manifest, settings: Settings) -> bool:
    """Return whether CUDA graphs are recorded: of predictions of images, where only the batch varies."""
    return settings.cuda_graphs and device == "cuda" and role == "predict" and manifest.image is not None


def largest_batch(manifest: Manifest, settings: Settings) -> int:
    """Return how many images one batch of predictions holds at most."""
    kind = manifest.attention[0]
    rows, columns = kind.grid or (1, 1)
    return max(settings.batch_tokens // (kind.prefix + rows * columns), 1)


def options(
    device: str, role: Role, manifest: Manifest, settings: Settings, threads: int
) -> list[tuple[str, dict[str, str]]]:
    """Return the providers of a session, the first of which must be had, and their options."""
    if device == "cpu":
        return [(PROVIDERS[device], {})]
    if device == "openvino":  # it computes in bfloat16, where the processor can
        hints = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads}
        return [(PROVIDERS[device], {"device_type": "CPU", "load_config": json.dumps({"CPU": hints})})]
    cuda = {
        "arena_extend_strategy": "kSameAsRequested",  # by what is needed, not by the next power of two
        "cudnn_conv_algo_search": "HEURISTIC",  # the default measures anew for every batch size
        "use_tf32": "0",  # fp32 is fp32
    }
    if settings.device_memory_bytes:
        cuda["gpu_mem_limit"] = str(settings.device_memory_bytes)
    if captured(device, role, manifest, settings):
        cuda["enable_cuda_graph"] = "1"
    found = [(PROVIDERS["cuda"], cuda)]
    return found if device == "cuda" else [(PROVIDERS[device], _tensorrt(role, manifest, settings)), *found]


def _tensorrt(role: Role, manifest: Manifest, settings: Settings) -> dict[str, str]:
    """Return the options of TensorRT: one engine for every batch from a single image to the largest."""
    (pixels,) = manifest.graphs[role].inputs
    most = largest_batch(manifest, settings)

    def shape(batch: int) -> str:
        return f"{pixels.name}:" + "x".join(str(batch if isinstance(axis, str) else axis) for axis in pixels.axes)

    given = {
        "trt_profile_min_shapes": shape(1),
        "trt_profile_opt_shapes": shape(most),
        "trt_profile_max_shapes": shape(most),
    }
    if manifest.precision in ("fp16", "bf16"):
        given[f"trt_{manifest.precision}_enable"] = "1"
    if settings.device_memory_bytes:
        given["trt_max_workspace_size"] = str(settings.device_memory_bytes)
    if settings.engine_cache:
        # an engine's file is named for the graph alone, and holds weights: other weights need another folder
        whole = hashlib.sha256("".join(file.sha256 for file in manifest.all_files()).encode()).hexdigest()
        folder = settings.engine_cache / f"{manifest.name}-{whole[:16]}"
        folder.mkdir(parents=True, exist_ok=True)
        given |= {"trt_engine_cache_enable": "1", "trt_engine_cache_path": str(folder)}
        given |= {"trt_timing_cache_enable": "1", "trt_timing_cache_path": str(folder)}
    return given
