"""The only file that knows onnxruntime: providers, threads, sessions, warm-up."""

import contextlib
import copy
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import structlog

from contract.artifact import Artifact
from contract.manifest import Graph, Role
from service.settings import Settings

Array: TypeAlias = npt.NDArray[Any]
log = structlog.get_logger()

LIGHT = 16 << 20
"""Bytes of weights."""

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
EXTRAS = {"cuda": "gpu", "openvino": "openvino"}


class ProviderError(Exception):
    """The device asked for cannot be had."""


class SessionError(Exception):
    """A graph cannot be loaded or run: which, and why."""


class OutOfMemory(SessionError):
    """A run needs more memory than the device has."""


class DeviceLost(SessionError):
    """The device has failed in a way from which only a new process recovers."""


FAILURES = (
    # illegal address, launch failure, ECC, device gone: every later call fails too
    (
        re.compile(r"CU(DA|DNN)\w* (failure|error) (46|214|70\d|71\d|72\d|999)\b|device.*(lost|unavailable)", re.I),
        DeviceLost,
    ),
    (re.compile(r"out of memory|failed to allocate|bad_?alloc|CUDA failure 2\b", re.I), OutOfMemory),
)
"""What onnxruntime says when a run fails, and what that means."""


def choose_device(wished: str) -> str:
    """Return `cpu`, `cuda` or `openvino`. Raises ProviderError for one that this onnxruntime does not have."""
    available = ort.get_available_providers()
    if hasattr(ort, "preload_dlls") and PROVIDERS["cuda"] in available:
        ort.preload_dlls()  # finds CUDA and cuDNN where pip installed them
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
        options = ort.SessionOptions()
        # what a light model multiplies is too small to share: waking a second thread takes longer
        options.intra_op_num_threads = settings.threads or (1 if light(artifact) else usable_cores())
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.execution_order = (
            ort.ExecutionOrder.PRIORITY_BASED
        )  # as soon as it can: what is read frees what it reads
        # the server needs the cores too; but a step is many small products, and waking a thread for each takes as long
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if role == "decode" else "0")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        options.add_session_config_entry("session.disable_prepacking", "0" if packed else "1")
        options.log_severity_level = 3
        threads = options.intra_op_num_threads
        if device == "openvino" and role == "predict":
            if artifact.manifest.precision != "fp32":
                given = artifact.manifest.precision
                raise ProviderError(
                    f"{self.name}: openvino runs artifacts in fp32, and computes in bf16, given {given}"
                )
            provider = (PROVIDERS[device], _openvino(threads))
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it does its own
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")  # all of a graph, or an error
        else:  # what is looked at is computed in full precision
            device = "cpu" if device == "openvino" else device
            provider = (PROVIDERS[device], {})
        try:
            self._session: Any = ort.InferenceSession(artifact.path(self.graph.file), options, [provider])
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            raise SessionError(f"{self.name}: cannot be loaded: {error}") from error
        self.provider: str = self._session.get_providers()[0]
        if self.provider != PROVIDERS[device]:
            raise ProviderError(
                f"{self.name}: must run on {PROVIDERS[device]}, onnxruntime fell back to {self.provider}"
            )
        self._outputs = [port.name for port in self.graph.outputs]
        self._running: ort.RunOptions | None = None

    def asked_nothing(self, graph: Graph) -> "Session":
        """Return a session of less on the same weights: its other inputs are 0, or empty, and its outputs not made."""
        session = copy.copy(self)
        session.graph = graph
        session.name = f"{self.name.partition('/')[0]}/predict"
        session._outputs = [port.name for port in graph.outputs]
        session._fixed = {
            port.name: np.zeros([axis if isinstance(axis, int) else 0 for axis in port.axes], port.dtype)
            for port in self.graph.inputs
            if port not in graph.inputs
        }
        return session

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run the graph: arrays by input name -> arrays by output name. Raises SessionError, also when stopped."""
        with self._stoppable() as options:
            found = self._session.run(self._outputs, {**feed, **self._fixed}, options)
        return dict(zip(self._outputs, found, strict=True))

    def stop(self) -> None:
        """End what runs, before its next node; from any thread."""
        if running := self._running:
            running.terminate = True

    def close(self) -> None:
        """Give back the memory of the graph, which cannot be run any more."""
        self._session = None

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[ort.RunOptions]:
        self._running = options = ort.RunOptions()
        try:
            yield options
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            kind = next((kind for words, kind in FAILURES if words.search(str(error))), SessionError)
            raise kind(f"{self.name}: cannot be run: {error}") from error
        finally:
            self._running = None

    def bind(self, held: Mapping[str, Array], same: Mapping[str, str], wanted: Sequence[str]) -> "Binding":
        """Return runs on arrays that are held: inputs by name, and outputs in the memory of inputs (`same`)."""
        return Binding(self._session, self._stoppable, held, same, wanted)

    def warm_up(self, lengths: Mapping[str, int] | None = None) -> None:
        """Run once on visible zeros, named axes of these lengths, or 1. Raises SessionError for what is not finite."""
        lengths = lengths or {}
        feed = {
            port.name: np.full(
                [axis if isinstance(axis, int) else lengths.get(axis, 1) for axis in port.axes],
                port.dtype == "bool",
                np.dtype(port.dtype),
            )
            for port in self.graph.inputs
        }
        for name, array in self.run(feed).items():
            if not np.isfinite(array).all():
                raise SessionError(f"{self.name}: {name} is not finite on an input of zeros")


def _openvino(threads: int) -> dict[str, str]:
    """Return the options of a provider that computes in bfloat16, where the processor can."""
    hints = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads}
    return {"device_type": "CPU", "load_config": json.dumps({"CPU": hints})}


class Binding:
    """Runs of a session whose large inputs stay where they are, and which writes some outputs over inputs."""

    def __init__(
        self,
        session: ort.InferenceSession,
        stoppable: Callable[[], contextlib.AbstractContextManager[ort.RunOptions]],
        held: Mapping[str, Array],
        same: Mapping[str, str],
        wanted: Sequence[str],
    ) -> None:
        self._session, self._stoppable, self._wanted = session, stoppable, wanted
        self._held = dict(held)  # the runtime knows their addresses, and does not keep them alive
        self._binding = session.io_binding()
        for name, array in held.items():
            place = ("cpu", 0, array.dtype, array.shape, array.ctypes.data)
            self._binding.bind_input(name, *place)
            if name in same:
                self._binding.bind_output(same[name], *place)
        for name in wanted:
            self._binding.bind_output(name)

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run with the other inputs; return what was wanted."""
        for name, array in feed.items():
            self._binding.bind_cpu_input(name, array)
        with self._stoppable() as options:
            self._session.run_with_iobinding(self._binding, options)
        found = self._binding.get_outputs()[-len(self._wanted) :]
        return {name: value.numpy() for name, value in zip(self._wanted, found, strict=True)}
