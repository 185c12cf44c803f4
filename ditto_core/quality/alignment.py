"""Which frame of one video shows what a frame of another does: shifts, frames shown twice, frames left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REACH = 25
"""Frames by which two videos may be apart."""
_ACTIVE_CELLS = 64
_STILL = 0.05
_CHANGE_COST, _NOISE_COST = 0.05, 1.5
_ALIKE = 0.5
_MOST_STRANGE = 0.3


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Frames of a test beside those of a reference.

    Attributes:
        matches: (m,) for each frame of the test the frame of the reference that it shows.
        late_frames: frames by which the test comes after the reference, in most of it.
        duplicated: frames of the test that show the same as the frame before, where the reference goes on.
        missing: frames of the reference that the test leaves out between its first and its last.
    """

    matches: NDArray[np.int64]
    late_frames: int
    duplicated: tuple[int, ...]
    missing: tuple[int, ...]


def align(reference: NDArray[np.floating], test: NDArray[np.floating], reach: int = REACH) -> Alignment | None:
    """Finds for each frame of a test its frame of the reference, going forward only.

    The cheapest path is found by dynamic programming: frames that differ cost their difference where the reference
    moves most, and each change of the shift costs more than coding noise and far less than a frame of ordinary motion,
    so that following a single frame shown twice pays, and following noise does not.

    Args:
        reference: (n, cells) thumbnails in grey levels.
        test: (m, cells) thumbnails of the same cells.
        reach: shifts that are tried to both sides.

    Returns:
        The alignment; None where the reference does not move, or the test shows another motion.
    """
    if min(len(reference), len(test)) < 2:
        return None
    active = np.argsort(reference.std(0))[-_ACTIVE_CELLS:]
    a, b = reference[:, active].astype(np.float64), test[:, active].astype(np.float64)
    step = float(np.median(np.abs(np.diff(a, axis=0)).mean(1)))
    if step < _STILL:
        return None
    costs = _costs(a, b, reach)
    strange = costs.min(1) > max(step, _ALIKE)
    if strange.mean() > _MOST_STRANGE:
        return None
    # A glitch is like no frame of the reference, and says nothing of where the video is.
    costs[strange] = np.where(np.isinf(costs[strange]), np.inf, 0)
    noise = float(np.median(costs.min(1)))
    shifts = _cheapest(costs, _CHANGE_COST * step + _NOISE_COST * noise, reach)
    matches = np.arange(len(b)) + shifts
    forward = np.diff(matches)
    jumps = np.flatnonzero(forward > 1)
    missing = [frame for i in jumps for frame in range(matches[i] + 1, matches[i + 1])]
    return Alignment(
        matches=matches,
        late_frames=-int(np.median(shifts)),
        duplicated=tuple(int(i) + 1 for i in np.flatnonzero(forward == 0)),
        missing=tuple(int(frame) for frame in missing),
    )


def _costs(a: NDArray[np.float64], b: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """(m, 2 reach + 1) difference of each test frame from the reference's frames around; infinite beyond its ends."""
    costs = np.full((len(b), 2 * reach + 1), np.inf)
    for i, row in enumerate(b):
        low, high = max(0, i - reach), min(len(a), i + reach + 1)
        if low < high:
            costs[i, low - i + reach : high - i + reach] = np.abs(a[low:high] - row).mean(1)
    beyond = np.isinf(costs).all(1)  # frames far behind the reference's end
    costs[beyond] = 0
    return costs


def _cheapest(costs: NDArray[np.float64], change: float, reach: int) -> NDArray[np.int64]:
    """(m,) shifts of the cheapest path; a shift falls by at most 1 a frame, since videos do not run backward."""
    shift = np.arange(-reach, reach + 1)
    moved = shift[None] - shift[:, None]  # from row to column
    moving = np.where(moved < -1, np.inf, change * np.abs(moved))
    total = costs[0] + change * np.abs(shift)
    before = np.zeros(costs.shape, np.int64)
    for i in range(1, len(costs)):
        ways = total[:, None] + moving
        before[i] = ways.argmin(0)
        total = ways.min(0) + costs[i]
    path = np.zeros(len(costs), np.int64)
    path[-1] = total.argmin()
    for i in range(len(costs) - 1, 0, -1):
        path[i - 1] = before[i, path[i]]
    return shift[path]
