"""A circuit breaker: a server that failed several times in a row is left alone for a while (Nygard, Release It!)."""

import time
from collections.abc import Callable


class CircuitBreaker:
    """Counts failures in a row. After `failures` of them it is open: it allows one call every `seconds`, as a probe.

    The first success closes it, and every call is allowed again. A probe whose outcome is never reported costs nothing
    but its turn.
    """

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = failures
        self._seconds = seconds
        self._clock = clock
        self._failed = 0
        self._probe_at = 0.0

    @property
    def open(self) -> bool:
        """True while calls are not allowed, except for probes."""
        return self._failed >= self._most

    @property
    def seconds_left(self) -> float:
        """The seconds until the next probe is allowed; 0 if every call is."""
        return max(self._probe_at - self._clock(), 0.0) if self.open else 0.0

    def allows(self) -> bool:
        """True if a call may be made now. While it is open, that makes the call the probe."""
        if not self.open:
            return True
        if self.seconds_left:
            return False
        self._probe_at = self._clock() + self._seconds
        return True

    def fail(self) -> bool:
        """Count a call that failed; return True if the breaker opens by it."""
        was_open = self.open
        self._failed += 1
        if self.open:
            self._probe_at = self._clock() + self._seconds
        return self.open and not was_open

    def succeed(self) -> bool:
        """Note a call that succeeded; return True if the breaker closes by it."""
        was_open, self._failed = self.open, 0
        return was_open
