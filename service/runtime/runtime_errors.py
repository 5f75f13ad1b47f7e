"""The errors of the runtime: they occur at start, at a reload, or in a run."""

import re

DEVICE_LOST_MESSAGE = re.compile(
    r"CU(DA|DNN)\w* (failure|error) (46|214|70\d|71\d|72\d|999)\b|device.*(lost|unavailable)", re.I
)
"""Matches errors of onnxruntime after which every call fails: an illegal address, a failed launch, broken memory."""
OUT_OF_MEMORY_MESSAGE = re.compile(
    r"failed to allocate memory|available memory of|out of memory|CUBLAS_STATUS_ALLOC_FAILED|bad_?alloc", re.I
)
"""Matches errors of onnxruntime and CUDA for a lack of memory, which have no exception class of their own."""


class ProviderError(Exception):
    """The requested device is not available, or cannot run the artifact."""


class PrecisionError(ProviderError):
    """The device does not run the precision of an artifact."""


class SessionError(Exception):
    """A graph cannot be loaded or run. The message says which graph, and why."""


class DeviceLost(SessionError):
    """The device has failed, and only a new process can use it again."""


def no_memory(error: Exception) -> bool:
    """Return whether an error is for lack of memory, on the device or the host."""
    return isinstance(error, MemoryError) or bool(OUT_OF_MEMORY_MESSAGE.search(str(error)))


def device_lost(error: Exception) -> bool:
    """Return whether an error of onnxruntime says that the device has failed."""
    return bool(DEVICE_LOST_MESSAGE.search(str(error)))
