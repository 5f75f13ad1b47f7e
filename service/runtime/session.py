"""Devices and sessions: providers, threads, runs, warm-up. With `binding.py` all that knows onnxruntime."""

import contextlib
import copy
import importlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import structlog

from contract.artifact import Artifact
from contract.manifest import Graph, Role
from service.arrays import Array
from service.errors import DeviceFull
from service.runtime.io_binding import Binding, Captured, run_bits, storage
from service.runtime.providers import EXTRAS, PROVIDERS, RUNS, captured, device_of, largest_batch, options
from service.runtime.runtime_errors import DeviceLost, ProviderError, SessionError
from service.runtime.threads import share_of_cores
from service.settings import Settings

log = structlog.get_logger()

LIGHT = 16 << 20
"""Bytes of weights."""


LOST = re.compile(r"CU(DA|DNN)\w* (failure|error) (46|214|70\d|71\d|72\d|999)\b|device.*(lost|unavailable)", re.I)
"""What onnxruntime says when every later call will fail too: an illegal address, a failed launch, a broken memory."""
NO_MEMORY = re.compile(
    r"failed to allocate memory|available memory of|out of memory|CUBLAS_STATUS_ALLOC_FAILED|bad_?alloc", re.I
)
"""What it says, and CUDA below it, where there is no room: it has no exception of its own for that."""


def choose_device(wished: str) -> str:
    """Return `cpu`, `cuda`, `openvino` or `tensorrt`. Raises ProviderError for what this onnxruntime does not have."""
    available = ort.get_available_providers()
    if hasattr(ort, "preload_dlls") and PROVIDERS["cuda"] in available:
        ort.preload_dlls()  # finds CUDA and cuDNN where pip installed them
    if wished == "tensorrt":
        with contextlib.suppress(ImportError):
            importlib.import_module("tensorrt")  # loads its libraries, where pip installed them
    if wished == "auto":
        return "cuda" if PROVIDERS["cuda"] in available and Path("/proc/driver/nvidia/version").exists() else "cpu"
    if PROVIDERS[wished] not in available:
        raise ProviderError(
            f"device: {wished} needs onnxruntime with {PROVIDERS[wished]}, this one has {', '.join(available)}; "
            f"install the extra {EXTRAS[wished]} or set REGARD_DEVICE=auto"
        )
    return wished


def device_memory() -> dict[str, int]:
    """Return the bytes in use of each GPU's memory, whoever uses them; nothing where there is none to ask."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        devices = range(nvml.nvmlDeviceGetCount())
        return {str(one): nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(one)).used for one in devices}
    except Exception:  # no module, no driver, no device; its exceptions are its own
        return {}


def open_sessions(artifact: Artifact, roles: Sequence[Role], device: str, settings: Settings) -> dict[Role, "Session"]:
    """Load a graph a role, with the weights in memory once.

    A session packs its weights for the processor, in a copy of its own. On a CPU predictions therefore run on the graph
    of attention, asked for nothing, which costs a tenth of a millisecond; where texts are generated it is the decoder's
    weights that are packed. What else is loaded reads the artifact's file where it is mapped into memory, at some cost
    in time. Of a LIGHT model a second copy is nothing, and a tenth of a millisecond is not.
    """
    graphs = artifact.manifest.graphs
    merged = device == "cpu" and {"predict", "attention"} <= set(roles) and not light(artifact)
    packed = set(roles) if light(artifact) else {"attention"} if merged else {"predict", "encode", "decode"}
    sessions = {
        role: Session(artifact, role, device, settings, packed=role in packed)
        for role in roles
        if not (merged and role == "predict")
    }
    if merged:
        sessions["predict"] = sessions["attention"].asked_nothing(graphs["predict"])
    return {role: sessions[role] for role in roles}


def light(artifact: Artifact) -> bool:
    """Return whether a model's weights are few, so that a run takes about a millisecond."""
    return sum(artifact.path(file.file).stat().st_size for file in artifact.manifest.files) < LIGHT


class Session:
    """One graph of an artifact, loaded. Only one inference may run at a time on a device; the caller sees to that.

    Weights that are not `packed` for the processor stay where the artifact's file is mapped into memory.
    """

    def __init__(self, artifact: Artifact, role: Role, device: str, settings: Settings, *, packed: bool = True) -> None:
        self.graph: Graph = artifact.manifest.graphs[role]
        self.name = f"{artifact.manifest.name}/{role}"
        self._fixed: dict[str, Array] = {}
        self._captured: Captured | None = None
        manifest, device = artifact.manifest, device_of(device, role, artifact.manifest)
        if manifest.precision not in RUNS[device]:
            *others, last = RUNS[device]
            runs = f"{', '.join(others)} or {last}" if others else last
            raise ProviderError(f"{self.name}: {device} runs artifacts in {runs}, given {manifest.precision}")
        given = ort.SessionOptions()
        # what a light model multiplies is too small to share: waking a second thread takes longer
        given.intra_op_num_threads = settings.threads or (1 if light(artifact) else share_of_cores(settings))
        given.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        given.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # as soon as it can: what is read frees what it reads
        # the server needs the cores too; but a step is many small products, and waking a thread for each takes as long
        given.add_session_config_entry("session.intra_op.allow_spinning", "1" if role == "decode" else "0")
        given.add_session_config_entry("session.force_spinning_stop", "1")
        given.add_session_config_entry("session.disable_prepacking", "0" if packed else "1")
        given.log_severity_level = 4  # what fails is raised, and logged as one line of ours
        if device == "openvino":
            given.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it does its own
            given.add_session_config_entry("session.disable_cpu_ep_fallback", "1")  # all of a graph, or an error
        providers = options(device, role, manifest, settings, given.intra_op_num_threads)
        start = time.monotonic()
        if device == "tensorrt":
            log.info("building engines, which takes minutes where they are not kept", model=self.name)
        try:
            self._session: Any = ort.InferenceSession(artifact.path(self.graph.file), given, providers)
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            raise SessionError(f"{self.name}: cannot be loaded: {error}") from error
        self.provider: str = self._session.get_providers()[0]
        if self.provider != PROVIDERS[device]:
            raise ProviderError(
                f"{self.name}: must run on {PROVIDERS[device]}, onnxruntime fell back to {self.provider}"
            )
        if device == "tensorrt":
            log.info("engines are built", model=self.name, seconds=round(time.monotonic() - start, 1))
        if captured(device, role, manifest, settings):
            self._captured = Captured(self._session, self.graph, device, largest_batch(manifest, settings))
        self._outputs = [port.name for port in self.graph.outputs]
        self._running: ort.RunOptions | None = None

    def asked_nothing(self, graph: Graph) -> "Session":
        """Return a session of less on the same weights: its other inputs are 0, or empty, and its outputs not made."""
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

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run the graph: arrays by input name -> arrays by output name.

        Raises SessionError, also when stopped, and DeviceFull.
        """
        given = {**feed, **self._fixed}
        with self._stoppable() as options:
            if self._captured:
                return self._captured.run(given)
            if any(port.dtype == "bfloat16" for port in (*self.graph.inputs, *self.graph.outputs)):
                return run_bits(self._session, self.graph, given, options)
            return dict(zip(self._outputs, self._session.run(self._outputs, given, options), strict=True))

    def stop(self) -> None:
        """End what runs, before its next node; from any thread."""
        if running := self._running:
            running.terminate = True

    def close(self) -> None:
        """Give back the memory of the graph, which cannot be run any more."""
        self._session = self._captured = None

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[ort.RunOptions]:
        self._running = options = ort.RunOptions()
        try:
            yield options
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            if NO_MEMORY.search(str(error)):
                raise DeviceFull(f"{self.name}: the memory of the device has no room for this batch", 1) from error
            kind = DeviceLost if LOST.search(str(error)) else SessionError
            raise kind(f"{self.name}: cannot be run: {error}") from error
        finally:
            self._running = None

    def bind(self, held: Mapping[str, Array], same: Mapping[str, str], wanted: Sequence[str]) -> Binding:
        """Return runs on arrays that are held: inputs by name, and outputs in the memory of inputs (`same`)."""
        return Binding(self._session, self._stoppable, held, same, wanted)

    def warm_up(self, lengths: Mapping[str, int] | None = None) -> None:
        """Run once on visible zeros, named axes of these lengths, or 1, or at every batch size that is captured.

        Raises SessionError if an output is not finite, or a batch has no room on the device.
        """
        for size in self._captured.sizes if self._captured else (1,):
            sizes = {**(lengths or {}), "batch": size}
            feed = {
                port.name: np.full(
                    [axis if isinstance(axis, int) else sizes.get(axis, 1) for axis in port.axes],
                    port.dtype == "bool",
                    storage(port.dtype),
                )
                for port in self.graph.inputs
            }
            try:
                out = self.run(feed)
            except DeviceFull as error:
                raise SessionError(
                    f"{self.name}: a batch of {size} has no room in the memory of the device; raise "
                    "REGARD_DEVICE_MEMORY_BYTES or lower REGARD_BATCH_TOKENS"
                ) from error
            for port in self.graph.outputs:
                if port.dtype != "bfloat16" and not np.isfinite(out[port.name]).all():
                    raise SessionError(f"{self.name}: {port.name} is not finite on an input of zeros")
