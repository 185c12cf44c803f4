"""What the command line writes: results on standard output, progress and errors on standard error."""

from __future__ import annotations

import sys
import time

_WIDTH = 30
_INTERVAL_S = 0.1


def say(line: str) -> None:
    """Writes a line of results."""
    sys.stdout.write(line + "\n")


def complain(line: str) -> None:
    """Writes a line about what went wrong."""
    sys.stderr.write(line + "\n")


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
        self._write(f"\r{stage:<8} [{bar}] {done}/{total} ")

    def clear(self) -> None:
        """Removes the line."""
        if self._shown and self._last:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
