"""How work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, all)."""

Steps = Callable[[int, int], None]
"""Called with (done, all) of the one thing that is under way."""
