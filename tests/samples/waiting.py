"""Waiting for what another process or thread does."""

import time


def until(true, seconds=60):
    """Wait for something; return it."""
    last = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < last, "it does not come"
        time.sleep(0.05)
    return found
