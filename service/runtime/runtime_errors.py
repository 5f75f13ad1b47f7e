"""The errors of the runtime: they occur at start, at a reload, or in a run."""


class ProviderError(Exception):
    """The requested device is not available, or cannot run the artifact."""


class SessionError(Exception):
    """A graph cannot be loaded or run. The message says which graph, and why."""


class DeviceLost(SessionError):
    """The device has failed, and only a new process can use it again."""
