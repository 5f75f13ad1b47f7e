"""Errors of the runtime, which the service meets at start, at a reload, or in a run."""


class ProviderError(Exception):
    """The device asked for cannot be had."""


class SessionError(Exception):
    """A graph cannot be loaded or run: which, and why."""


class DeviceLost(SessionError):
    """The device has failed in a way from which only a new process recovers."""
