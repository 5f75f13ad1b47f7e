"""Sessions of onnxruntime: the choice of a device, loading, runs and warm-up."""

import contextlib
import copy
import functools
import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import structlog

from contract.artifact import Artifact
from contract.manifest import LIGHT_BYTES, WEIGHTS, Graph, Port, Role
from service.arrays import Array
from service.errors import DeviceFull
from service.runtime import gpu
from service.runtime.device import this_turn
from service.runtime.io_binding import Binding, Captured, Place, run_bits, storage
from service.runtime.providers import (
    INSTALL_EXTRAS,
    PROVIDERS,
    check_precision,
    device_of,
    largest_batch,
    options,
    products_saturate,
    uses_cuda_graphs,
)
from service.runtime.runtime_errors import DeviceLost, ProviderError, SessionError, device_lost, no_memory
from service.runtime.threads import default_threads
from service.settings import Settings

log = structlog.get_logger()

ONNX_TYPES = {"float32": "float"}
"""The names of types in ONNX that differ from those of a manifest."""
LONG_SECONDS = 0.02
"""What a first run on a CPU prepares is little beside a run of so long."""
NEXT_POWER_OF_TWO = 0
"""How the arena grows: by what is requested alone, it would fall into more and smaller pieces."""


def choose_device(wanted: str) -> str:
    """Return `cpu`, `cuda`, `openvino` or `tensorrt`.

    `auto` is a GPU that can run it, else the CPU. Raises ProviderError if this onnxruntime lacks the provider of what
    is wanted, or if the GPU or its driver cannot run it.
    """
    available = ort.get_available_providers()
    if wanted == "auto":
        if PROVIDERS["cuda"] not in available or not Path("/proc/driver/nvidia/version").exists():
            return "cpu"
        if reason := gpu.why_not():
            log.warning("the GPU cannot be used, so all run on the CPU", reason=f"the GPU {reason}")
            return "cpu"
        wanted = "cuda"
    if PROVIDERS[wanted] not in available:
        raise ProviderError(
            f"device: {wanted} needs onnxruntime with {PROVIDERS[wanted]}, this one has {', '.join(available)}; "
            f"install the extra {INSTALL_EXTRAS[wanted]} or set REGARD_DEVICE=auto"
        )
    if wanted in ("cuda", "tensorrt"):
        if reason := gpu.why_not():
            raise ProviderError(f"device: the GPU {reason}")
        ort.preload_dlls()  # loads CUDA and cuDNN from where pip installed them
    if wanted == "tensorrt":
        with contextlib.suppress(ImportError):
            importlib.import_module("tensorrt")  # loads its libraries from where pip installed them
    return wanted


def device_memory() -> dict[str, int]:
    """Return the bytes in use of each GPU's memory, by all processes; {} if there is no GPU or no NVML."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        devices = range(nvml.nvmlDeviceGetCount())
        return {str(one): nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(one)).used for one in devices}
    except Exception:  # no module, no driver, no device; its exceptions share no base
        return {}


@functools.cache
def share_arena() -> None:
    """Make the arena from which all sessions on a CPU take the memory of their runs. It lives as long as the process.

    The arena grows to what the largest runs beside one another need, and not to the sum over all models and graphs.
    onnxruntime gives none of it back by itself; `Session.shrink_arena` does.
    """
    place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(place, ort.OrtArenaCfg(0, NEXT_POWER_OF_TWO, -1, -1))


def open_sessions(artifact: Artifact, roles: Sequence[Role], device: str, settings: Settings) -> dict[Role, "Session"]:
    """Load the graph of each role, with one copy of the weights in memory where possible.

    Each session holds its own packed copy of the weights. On a CPU predictions therefore run on the attention graph
    with all controls off, which costs a tenth of a millisecond; in a model that generates text, the weights of the
    decoder are packed. The other sessions read the weights from the memory-mapped file, which is somewhat slower. A
    light model (`is_light`) has a packed session for each role: a second copy costs little memory, and a tenth of a
    millisecond would be a large part of a run. So has one in 4 bits: of matrices that are not packed, every
    run would make floats.
    """
    graphs = artifact.manifest.graphs
    merged = device == "cpu" and {"predict", "attention"} <= set(roles) and not is_light(artifact)
    each = is_light(artifact) or artifact.manifest.precision == "int4"
    packed = set(roles) if each else {"attention"} if merged else {"predict", "encode", "decode"}
    sessions = {
        role: Session(artifact, role, device, settings, packed=role in packed)
        for role in roles
        if not (merged and role == "predict")
    }
    if merged:
        sessions["predict"] = sessions["attention"].with_controls_off(graphs["predict"])
    return {role: sessions[role] for role in roles}


def is_light(artifact: Artifact) -> bool:
    """Return whether a model has so few weights that one run takes about a millisecond."""
    return sum(file.bytes for file in artifact.manifest.files if file.file == WEIGHTS) < LIGHT_BYTES


class Session:
    """One loaded graph of an artifact. A run of it takes `cores` cores of the device.

    If `packed`, it holds a copy of the weights that is packed for the processor; otherwise it reads them from the
    memory-mapped file.
    """

    def __init__(self, artifact: Artifact, role: Role, device: str, settings: Settings, *, packed: bool = True) -> None:
        self.graph: Graph = artifact.manifest.graphs[role]
        self.name = f"{artifact.manifest.name}/{role}"
        self._fixed: dict[str, Array] = {}
        self._captured: Captured | None = None
        manifest, device = artifact.manifest, device_of(device, role, artifact.manifest)
        check_precision(self.name, device, manifest)
        given = ort.SessionOptions()
        # the matrices of a light model are so small that waking a second thread takes longer than the product
        self.cores = settings.threads or (1 if is_light(artifact) else default_threads(settings))
        given.intra_op_num_threads = self.cores
        given.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        # each node runs as soon as it can, so that its inputs are freed early
        given.execution_order = ort.ExecutionOrder.PRIORITY_BASED
        # spinning takes cores from the server; but a decode step is many small products, and waking a thread for each
        # would take as long as the product
        given.add_session_config_entry("session.intra_op.allow_spinning", "1" if role == "decode" else "0")
        given.add_session_config_entry("session.force_spinning_stop", "1")
        given.add_session_config_entry("session.disable_prepacking", "0" if packed else "1")
        if device == "cpu":
            if products_saturate():  # unsigned weights avoid that, at half the speed
                given.add_session_config_entry("session.x64quantprecision", "1")
            share_arena()
            given.add_session_config_entry("session.use_env_allocators", "1")
            if not packed:
                # constant folding would keep a transposed copy of an embedding that is also the output's matrix
                given.add_session_config_entry("optimization.disable_specified_optimizers", "ConstantFolding")
            # weights must not pin the arena's regions, and go when the session does
            given.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
            # a pattern takes all memory of a run as one block, for which the pieces of other shapes are of no use;
            # small runs are quicker with one
            given.enable_mem_pattern = role in ("predict", "encode", "decode")
        given.log_severity_level = 4  # errors are raised, and we log them as one line
        if device == "openvino":
            given.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # OpenVINO optimizes itself
            # OpenVINO runs the whole graph, or it is an error
            given.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        providers = options(device, role, manifest, settings, self.cores)
        start = time.monotonic()
        if device == "tensorrt":
            log.info("building engines, which takes minutes where they are not kept", model=self.name)
        try:
            self._session: Any = ort.InferenceSession(artifact.to_load(self.graph.file), given, providers)
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            raise SessionError(f"{self.name}: cannot be loaded: {error}") from error
        self.provider: str = self._session.get_providers()[0]
        if self.provider != PROVIDERS[device]:
            raise ProviderError(
                f"{self.name}: must run on {PROVIDERS[device]}, onnxruntime fell back to {self.provider}"
            )
        if device == "tensorrt":
            log.info("engines are built", model=self.name, seconds=round(time.monotonic() - start, 1))
        if uses_cuda_graphs(device, role, manifest, settings):
            self._captured = Captured(self._session, self.graph, device, largest_batch(manifest, settings))
        self._outputs = [port.name for port in self.graph.outputs]

    def with_controls_off(self, graph: Graph) -> "Session":
        """Return a session on the same weights with the ports of `graph` only.

        The other inputs are 0 or empty, and the other outputs are not computed.
        """
        session = copy.copy(self)
        session.graph = graph
        session.name = f"{self.name.partition('/')[0]}/predict"
        session._outputs = [port.name for port in graph.outputs]
        session._fixed = {
            port.name: np.zeros([axis if isinstance(axis, int) else 0 for axis in port.axes], storage(port.dtype))
            for port in self.graph.inputs
            if port not in graph.inputs
        }
        return session

    def has_port(self, port: Port) -> bool:
        """Return whether the graph has such an input or output: of the same name, type, rank and fixed sizes."""
        for own in (*self._session.get_inputs(), *self._session.get_outputs()):
            if own.name == port.name:
                return (
                    own.type == f"tensor({ONNX_TYPES.get(port.dtype, port.dtype)})"
                    and len(own.shape) == len(port.axes)
                    and all(size == axis for size, axis in zip(own.shape, port.axes, strict=True) if type(size) is int)
                )
        return False

    def run(self, feed: Mapping[str, Array], *, shrink: bool = False) -> dict[str, Array]:
        """Run the graph: arrays by input name -> arrays by output name.

        With `shrink` the arena of runs on a CPU then gives back what nothing uses, which costs the next large run the
        time that the kernel takes to clear memory. Raises SessionError, also if the turn was stopped, and DeviceFull.
        """
        given = {**feed, **self._fixed}
        with self._stoppable() as options:
            if shrink:
                options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
            if self._captured:
                return self._captured.run(given, options)
            if any(port.dtype == "bfloat16" for port in (*self.graph.inputs, *self.graph.outputs)):
                return run_bits(self._session, self.graph, given, options)
            return dict(zip(self._outputs, self._session.run(self._outputs, given, options), strict=True))

    def close(self) -> None:
        """Free the memory of the graph. It cannot be run any more."""
        self._session = self._captured = None

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[ort.RunOptions]:
        options = ort.RunOptions()
        turn = this_turn()
        try:
            with turn.running(options) if turn else contextlib.nullcontext():
                yield options
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            if no_memory(error):
                raise DeviceFull(f"{self.name}: the memory of the device has no room for this batch", 1) from error
            kind = DeviceLost if device_lost(error) else SessionError
            raise kind(f"{self.name}: cannot be run: {error}") from error

    def bind(self, held: Mapping[str, Place], same: Mapping[str, str], into: Mapping[str, Place]) -> Binding:
        """Return a Binding: runs with the inputs `held` in place, and outputs in the memory of inputs or at places."""
        return Binding(self._session, self._stoppable, held, same, [], into)

    def shrink_arena(self) -> None:
        """Give back the memory of earlier runs of all sessions on the CPU, by the smallest run of this one there."""
        self.run(self._zeros({"batch": 1}), shrink=True)

    def warm_up(self, lengths: Mapping[str, int] | None = None) -> float:
        """Run once on zeros that are all visible, or once for each batch size that CUDA graphs are recorded for.

        Return the seconds of a run of one input: of another one if the first was short, or not on a CPU, since what a
        first run prepares takes a while. `lengths` gives the lengths of named axes; the others have length 1. Raises
        SessionError if an output is not finite, or if the device has no memory for a batch.
        """
        begun = time.monotonic()
        for size in self._captured.sizes if self._captured else (1,):
            try:
                out = self.run(self._zeros({**(lengths or {}), "batch": size}))
            except DeviceFull as error:
                raise SessionError(
                    f"{self.name}: a batch of {size} has no room in the memory of the device; raise "
                    "REGARD_DEVICE_MEMORY_BYTES or lower REGARD_BATCH_TOKENS"
                ) from error
            for port in self.graph.outputs:
                if port.dtype != "bfloat16" and not np.isfinite(out[port.name]).all():
                    raise SessionError(f"{self.name}: {port.name} is not finite on an input of zeros")
        if time.monotonic() - begun < LONG_SECONDS or self.provider != PROVIDERS["cpu"]:
            begun = time.monotonic()
            self.run(self._zeros({**(lengths or {}), "batch": 1}))
        return time.monotonic() - begun

    def _zeros(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Return inputs of zeros that are all visible; axes that are not in `sizes` have length 1."""
        return {
            port.name: np.full(
                [axis if isinstance(axis, int) else sizes.get(axis, 1) for axis in port.axes],
                port.dtype == "bool",
                storage(port.dtype),
            )
            for port in self.graph.inputs
        }
