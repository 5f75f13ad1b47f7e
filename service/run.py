"""The only file that knows onnxruntime: providers, threads, sessions, warm-up."""

import os
from collections.abc import Mapping
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

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class ProviderError(Exception):
    """The device asked for cannot be had."""


class SessionError(Exception):
    """A graph cannot be loaded or run: which, and why."""


def choose_device(wished: str) -> str:
    """Return `cpu` or `cuda`. Raises ProviderError where CUDA is asked for and this onnxruntime has none."""
    available = ort.get_available_providers()
    if hasattr(ort, "preload_dlls") and PROVIDERS["cuda"] in available:
        ort.preload_dlls()  # finds CUDA and cuDNN where pip installed them
    if wished == "auto":
        return "cuda" if PROVIDERS["cuda"] in available and Path("/proc/driver/nvidia/version").exists() else "cpu"
    if PROVIDERS[wished] not in available:
        raise ProviderError(
            f"device: {wished} needs onnxruntime with {PROVIDERS[wished]}, this one has {', '.join(available)}; "
            "install the extra gpu or set REGARD_DEVICE=auto"
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


class Session:
    """One graph of an artifact, loaded. Only one inference may run at a time on a device; the caller sees to that."""

    def __init__(self, artifact: Artifact, role: Role, device: str, settings: Settings) -> None:
        self.graph: Graph = artifact.manifest.graphs[role]
        self.name = f"{artifact.manifest.name}/{role}"
        options = ort.SessionOptions()
        options.intra_op_num_threads = settings.threads or usable_cores()
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the server needs the cores too
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(artifact.path(self.graph.file), options, [PROVIDERS[device]])
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            raise SessionError(f"{self.name}: cannot be loaded: {error}") from error
        self.provider: str = self._session.get_providers()[0]
        if self.provider != PROVIDERS[device]:
            raise ProviderError(
                f"{self.name}: must run on {PROVIDERS[device]}, onnxruntime fell back to {self.provider}"
            )
        self._outputs = [port.name for port in self.graph.outputs]

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run the graph: arrays by input name -> arrays by output name."""
        return dict(zip(self._outputs, self._session.run(self._outputs, dict(feed)), strict=True))

    def warm_up(self) -> None:
        """Run once on visible zeros, named axes at size 1. Raises SessionError if an output is not finite."""
        feed = {
            port.name: np.full(
                [axis if isinstance(axis, int) else 1 for axis in port.axes], port.dtype == "bool", np.dtype(port.dtype)
            )
            for port in self.graph.inputs
        }
        for name, array in self.run(feed).items():
            if not np.isfinite(array).all():
                raise SessionError(f"{self.name}: {name} is not finite on an input of zeros")
