"""TODO: what service/runtime/runtime_errors.py is."""


class ProviderError(Exception):
    """The device asked for cannot be had."""


class SessionError(Exception):
    """A graph cannot be loaded or run: which, and why."""


class DeviceLost(SessionError):
    """The device has failed in a way from which only a new process recovers."""
