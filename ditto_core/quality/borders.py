"""The step across the border of a pasted face."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ACROSS, _FAR = 2, 10


def border_step(brightness: NDArray[np.floating], box: tuple[int, int, int, int]) -> float | None:
    """By how much brightness steps more across a box's border than beside it, in grey levels.

    Along each side, the mean step between neighbouring pixels is taken parallel to the border: the largest within 2
    pixels of it, less the mean of those 3 to 10 pixels away.

    Args:
        brightness: (h, w) luma in 0..255.
        box: left, top, right, bottom in pixels; right and bottom are not in it.

    Returns:
        The mean over the sides that lie inside the picture; None where none does.
    """
    left, top, right, bottom = box
    columns, rows = brightness[top:bottom], brightness[:, left:right].T
    steps = [_step(lines, at) for lines, at in ((columns, left), (columns, right), (rows, top), (rows, bottom))]
    found = [step for step in steps if step is not None]
    return float(np.mean(found)) if found else None


def _step(lines: NDArray[np.floating], at: int) -> float | None:
    """Of a border between pixels at - 1 and at of lines (n, length)."""
    first, last = at - _FAR - 1, at + _FAR
    if first < 0 or last >= lines.shape[1] or not len(lines):
        return None
    profile = np.abs(np.diff(lines[:, first : last + 1], axis=1)).mean(0)
    away = np.abs(np.arange(len(profile)) - _FAR)
    return float(profile[away <= _ACROSS].max() - profile[away > _ACROSS].mean())
