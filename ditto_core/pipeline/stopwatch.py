"""How long the stages of a stream take, and when each was through for the first time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from .clock import Clock


class Stopwatch:
    """Adds up the time of stages that run at once on several threads.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        self._first: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time of the block."""
        start = self._clock.now()
        yield
        self.add(name, self._clock.now() - start)

    def add(self, name: str, seconds: float) -> None:
        """Adds time to a stage."""
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def through(self, name: str) -> None:
        """Tells that a stage has given something on; the first time is kept."""
        with self._lock:
            self._first.setdefault(name, self._clock.now())

    def stages_ms(self) -> dict[str, float]:
        """Milliseconds of each stage so far."""
        with self._lock:
            return {name: round(seconds * 1000, 1) for name, seconds in self._seconds.items()}

    def first_ms(self, start: float) -> dict[str, float]:
        """Milliseconds from a moment to each stage's first result."""
        with self._lock:
            return {name: round((moment - start) * 1000, 1) for name, moment in self._first.items()}
