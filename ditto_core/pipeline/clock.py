"""Time, and which frame to show when."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits; tests bring one of their own."""

    def now(self) -> float:
        """Seconds from any fixed moment."""
        ...

    def sleep(self, seconds: float) -> None:
        """Waits."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds, as of `time.perf_counter`."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Waits; not at all for 0 or less."""
        if seconds > 0:
            time.sleep(seconds)
