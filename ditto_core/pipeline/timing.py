"""How long the stages of a run take."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

import torch


class StageClock:
    """Adds up the time of named stages. On a GPU a stage ends when its work is done, not when it is queued.

    Args:
        device: where the work runs.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._started = time.perf_counter()
        self._seconds: dict[str, float] = {}
        self._apart: list[tuple[float, float]] = []  # end, seconds

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time of the block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    @contextlib.contextmanager
    def stage_apart(self, name: str) -> Iterator[None]:
        """Counts the time of the block to a stage, and not to what `since_start` gives."""
        start = time.perf_counter()
        try:
            with self.stage(name):
                yield
        finally:
            end = time.perf_counter()
            self._apart.append((end, end - start))

    def since_start(self, moment: float | None = None) -> float:
        """Seconds from the clock's start to a `time.perf_counter()` value, or to now, without the stages apart."""
        moment = time.perf_counter() if moment is None else moment
        return moment - self._started - sum(seconds for end, seconds in self._apart if end <= moment)

    def stages_ms(self) -> dict[str, float]:
        """Milliseconds of each stage so far."""
        return {name: round(seconds * 1000, 1) for name, seconds in self._seconds.items()}


def peak_memory_mb(device: torch.device) -> dict[str, float]:
    """Largest memory of this process so far; "gpu" is what torch took, where it runs there."""
    peak: dict[str, float] = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
        peak["process"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)
    if device.type == "cuda":
        peak["gpu"] = round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    return peak
