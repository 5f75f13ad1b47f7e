"""The only file that knows onnxruntime: providers, threads, sessions, warm-up."""

import contextlib
import copy
import importlib
import itertools
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import structlog

from contract.artifact import Artifact
from contract.manifest import Dtype, Graph, Role
from service.errors import DeviceFull
from service.providers import EXTRAS, PROVIDERS, RUNS, captured, device_of, largest_batch, options
from service.settings import Settings

Array: TypeAlias = npt.NDArray[Any]
log = structlog.get_logger()

LIGHT = 16 << 20
"""Bytes of weights."""

BFLOAT16 = 16
"""What ONNX calls it. Numpy has no such numbers: they are held as the bits of uint16, which no port has otherwise."""


class ProviderError(Exception):
    """The device asked for cannot be had."""


class SessionError(Exception):
    """A graph cannot be loaded or run: which, and why."""


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


def usable_cores() -> int:
    """Return the cores this process may use: its affinity, cut by the cgroup's quota, never less than one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for read in (_quota_v2, _quota_v1):
        try:
            quota = read()
        except (OSError, ValueError):
            continue
        if quota is not None:
            return max(1, min(cores, round(quota)))
    return cores


def _quota_v2() -> float | None:
    quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    return None if quota == "max" else int(quota) / int(period)


def _quota_v1() -> float | None:
    folder = Path("/sys/fs/cgroup/cpu")
    quota = int((folder / "cpu.cfs_quota_us").read_text())
    return None if quota < 0 else quota / int((folder / "cpu.cfs_period_us").read_text())


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
        given.intra_op_num_threads = settings.threads or (1 if light(artifact) else usable_cores())
        given.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        given.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # as soon as it can: what is read frees what it reads
        # the server needs the cores too; but a step is many small products, and waking a thread for each takes as long
        given.add_session_config_entry("session.intra_op.allow_spinning", "1" if role == "decode" else "0")
        given.add_session_config_entry("session.force_spinning_stop", "1")
        given.add_session_config_entry("session.disable_prepacking", "0" if packed else "1")
        given.log_severity_level = 3
        if device == "openvino":
            given.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it does its own
            given.add_session_config_entry("session.disable_cpu_ep_fallback", "1")  # all of a graph, or an error
        providers = options(device, role, manifest, settings, given.intra_op_num_threads)
        start = time.monotonic()
        if device == "tensorrt":
            log.info("building engines, which takes minutes where they are not kept", model=self.name)
        try:
            self._session = ort.InferenceSession(artifact.path(self.graph.file), given, providers)
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
        """Run the graph: arrays by input name -> arrays by output name. Raises DeviceFull."""
        given = {**feed, **self._fixed}
        try:
            if self._captured:
                return self._captured.run(given)
            if any(port.dtype == "bfloat16" for port in (*self.graph.inputs, *self.graph.outputs)):
                return run_bits(self._session, self.graph, given)
            return dict(zip(self._outputs, self._session.run(self._outputs, given), strict=True))
        except Exception as error:
            if any(words in str(error) for words in NO_MEMORY):
                raise DeviceFull(f"{self.name}: the memory of the device has no room for this batch", 1) from error
            raise

    def bind(self, held: Mapping[str, Array], same: Mapping[str, str], wanted: Sequence[str]) -> "Binding":
        """Return runs on arrays that are held: inputs by name, and outputs in the memory of inputs (`same`)."""
        return Binding(self._session, held, same, wanted)

    def warm_up(self) -> None:
        """Run once on visible zeros, named axes at size 1, or at every batch size that is captured.

        Raises SessionError if an output is not finite, or a batch has no room on the device.
        """
        for size in self._captured.sizes if self._captured else (1,):
            feed = {
                port.name: np.full(
                    [size if axis == "batch" else axis if isinstance(axis, int) else 1 for axis in port.axes],
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


NO_MEMORY = ("Failed to allocate memory", "Available memory of", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""What onnxruntime says, and CUDA below it, where there is no room: it has no exception of its own for that."""


def storage(dtype: Dtype) -> "np.dtype[Any]":
    """Return how numpy holds the numbers of a port."""
    return np.dtype(np.uint16 if dtype == "bfloat16" else dtype)


def run_bits(session: ort.InferenceSession, graph: Graph, feed: Mapping[str, Array]) -> dict[str, Array]:
    """Run a graph some of whose ports are in bfloat16, which numpy takes and returns as bits."""
    lengths = {axis: size for port in graph.inputs for axis, size in zip(port.axes, feed[port.name].shape, strict=True)}
    held = {
        port.name: np.empty([lengths.get(axis, axis) for axis in port.axes], np.uint16)
        for port in graph.outputs
        if port.dtype == "bfloat16"
    }
    bits = {name for name, array in feed.items() if array.dtype == np.uint16}
    wanted = [port.name for port in graph.outputs if port.name not in held]
    binding = Binding(session, {name: np.ascontiguousarray(feed[name]) for name in bits}, {}, wanted, held)
    return {**binding.run({name: array for name, array in feed.items() if name not in bits}), **held}


class Captured:
    """Runs in batches of 1, 2, 4, 8, ... rows, whose inputs and outputs stay at their addresses of a device.

    So CUDA records what a batch size launches the first time, and plays it back from then on. What is longer than the
    largest is run in pieces.
    """

    def __init__(self, session: ort.InferenceSession, graph: Graph, place: str, most: int) -> None:
        self._session, self._graph, self._place = session, graph, place
        powers = itertools.takewhile(lambda size: size < most, (1 << power for power in itertools.count()))
        self.sizes = (*powers, most)
        self._batches: dict[int, _Batch] = {}

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run rows of inputs -> rows of outputs."""
        count, most = len(next(iter(feed.values()))), self.sizes[-1]
        pieces = [
            self._run({name: array[start : start + most] for name, array in feed.items()})
            for start in range(0, count, most)
        ]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def _run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        count = len(next(iter(feed.values())))
        size = next(size for size in self.sizes if size >= count)
        if size not in self._batches:
            # 0 is what runs without a number are captured as, and -1 is not captured
            self._batches[size] = _Batch(self._session, self._graph, self._place, size, self.sizes.index(size) + 1)
        found = self._batches[size].run(feed)
        return {
            name: array[:count].copy() for name, array in found.items()
        }  # it may be a view of what is written again


class _Batch:
    """The buffers of one batch size, on the host and on the device, and the number of what was captured with them."""

    def __init__(self, session: ort.InferenceSession, graph: Graph, place: str, size: int, number: int) -> None:
        def shape(axes: Sequence[int | str]) -> list[int]:
            return [axis if isinstance(axis, int) else size for axis in axes]

        self._session = session
        self._host = {port.name: np.zeros(shape(port.axes), storage(port.dtype)) for port in graph.inputs}
        self._given = {name: ort.OrtValue.ortvalue_from_numpy(array, place, 0) for name, array in self._host.items()}
        self._found = {
            port.name: ort.OrtValue.ortvalue_from_shape_and_type(shape(port.axes), storage(port.dtype), place, 0)
            for port in graph.outputs
        }
        self._binding = session.io_binding()
        for name, value in self._given.items():
            self._binding.bind_ortvalue_input(name, value)
        for name, value in self._found.items():
            self._binding.bind_ortvalue_output(name, value)
        self._options = ort.RunOptions()
        self._options.add_run_config_entry("gpu_graph_id", str(number))

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run with these rows first; what stands behind them is of an earlier run, and read by nobody."""
        for name, array in feed.items():
            self._host[name][: len(array)] = array
            self._given[name].update_inplace(self._host[name])
        self._session.run_with_iobinding(self._binding, self._options)
        return {name: value.numpy() for name, value in self._found.items()}


class Binding:
    """Runs of a session whose large inputs stay where they are, and which writes some outputs over inputs.

    `into`, if given, is where other outputs are written.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        held: Mapping[str, Array],
        same: Mapping[str, str],
        wanted: Sequence[str],
        into: Mapping[str, Array] | None = None,
    ) -> None:
        self._session, self._wanted, into = session, wanted, into or {}
        self._held = [*held.values(), *into.values()]  # the runtime knows their addresses, and does not keep them alive
        self._binding = session.io_binding()
        for name, array in held.items():
            self._binding.bind_input(name, *_place(array))
            if name in same:
                self._binding.bind_output(same[name], *_place(array))
        for name, array in into.items():
            self._binding.bind_output(name, *_place(array))
        for name in wanted:
            self._binding.bind_output(name)

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run with the other inputs; return what was wanted."""
        for name, array in feed.items():
            self._binding.bind_cpu_input(name, array)
        self._session.run_with_iobinding(self._binding)
        found = self._binding.get_outputs()[-len(self._wanted) :] if self._wanted else []
        return {name: value.numpy() for name, value in zip(self._wanted, found, strict=True)}


def _place(array: Array) -> tuple[str, int, Any, tuple[int, ...], int]:
    kind = BFLOAT16 if array.dtype == np.uint16 else array.dtype
    return "cpu", 0, kind, array.shape, array.ctypes.data
