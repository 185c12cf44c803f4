"""Time that can be waited for."""

from __future__ import annotations

import asyncio
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

    async def pause(self, seconds: float) -> None:
        """Waits without blocking the event loop."""
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

    async def pause(self, seconds: float) -> None:
        """The same without blocking the event loop."""
        if seconds > 0:
            await asyncio.sleep(seconds)
