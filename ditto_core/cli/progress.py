"""A progress line on standard error."""

from __future__ import annotations

import sys
import time

_WIDTH = 30
_INTERVAL_S = 0.1


class ProgressLine:
    """Shows how far each stage is, on a terminal; elsewhere nothing, so that logs stay readable.

    Args:
        quiet: never show anything.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._last = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Shows that `done` of `total` steps of a stage are done."""
        now = time.monotonic()
        if not self._shown or (done < total and now - self._last < _INTERVAL_S):
            return
        self._last = now
        filled = _WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        print(f"\r{stage:<8} [{bar}] {done}/{total} ", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the line."""
        if self._shown and self._last:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
