"""Joining windows of motion by the rules of a plan. Each function takes a state and gives a new one.

Rows are counted from the first row of the silence before the sound, so that window k begins at row k * chunk.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..networks.presets import MOTION_SIZE, WINDOW_ROWS
from ..pipeline.plan import Plan
from .keypoints import PARTS
from .smoothing import centred_mean

_POSE = slice(PARTS.scale.start, PARTS.exp.start)


def _no_rows() -> Tensor:
    return torch.zeros(0, MOTION_SIZE)


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The windows joined so far; rows that no later step reads are dropped.

    Attributes:
        windows: how many windows were joined.
        rows: (m, 265) the newest rows.
        first: number of the first of them.
        taken: frames handed out as final.
        reference: (265,) the motion that counts as rest, d0, once it is final.
    """

    windows: int = 0
    rows: Tensor = field(default_factory=_no_rows)
    first: int = 0
    taken: int = 0
    reference: Tensor | None = None

    @property
    def end(self) -> int:
        """Number of the row after the newest."""
        return self.first + len(self.rows)


def window_start(plan: Plan, state: Joined, source: Tensor) -> Tensor:
    """The motion before the next window, from which the sampler starts it.

    Args:
        plan: the plan.
        state: what was joined before.
        source: (265,) motion of the source.

    Returns:
        (265,).
    """
    if state.windows == 0:
        return source
    before = state.rows[state.windows * plan.chunk - 1 - state.first]
    if not plan.reset_every or state.windows % plan.reset_every:
        return before
    start, stop = plan.reset_spares
    return torch.cat([source[:start], before[start:stop], source[stop:]])


def join(plan: Plan, state: Joined, window: Tensor) -> Joined:
    """Appends the next window.

    Args:
        plan: the plan.
        state: what was joined before.
        window: (80, 265) predicted motion.

    Returns:
        The state with `plan.chunk` more rows; with all 80 after the first window.
    """
    if tuple(window.shape) != (WINDOW_ROWS, MOTION_SIZE):
        raise InvalidValueError(
            f"a motion window of shape {tuple(window.shape)}",
            remedy=f"join ({WINDOW_ROWS}, {MOTION_SIZE}) windows",
        )
    if state.windows == 0:
        rows = _smoothed(window, plan.smoothing, 0, WINDOW_ROWS)
    elif plan.forward:
        rows = _blend_after(plan, state.rows, window)
    else:
        rows = _blend_before(plan, state.rows, window)
    return dataclasses.replace(state, windows=state.windows + 1, rows=rows)


def _blend_before(plan: Plan, rows: Tensor, window: Tensor) -> Tensor:
    """Fades from the old to the new prediction over the rows before the joint, then smooths around it."""
    kept, overlap = len(rows) - plan.fuse, plan.overlap
    weight = torch.arange(plan.fuse)[:, None] / max(plan.fuse, 1)
    fused = rows[kept:] * (1 - weight) + window[overlap - plan.fuse : overlap] * weight
    joined = torch.cat([rows[:kept], fused, window[overlap:]])
    return _smoothed(joined, plan.smoothing, kept, kept + plan.fuse + 1)


def _blend_after(plan: Plan, rows: Tensor, window: Tensor) -> Tensor:
    """Appends the new rows, moved to go on from the last row shown; the move fades over `fuse` rows."""
    window = _smoothed(window, plan.smoothing, 0, WINDOW_ROWS)
    gap = rows[-1] - window[plan.overlap - 1]
    weight = (1 - torch.arange(1, plan.chunk + 1) / (plan.fuse + 1)).clamp(min=0)[:, None]
    return torch.cat([rows, window[plan.overlap :] + gap * weight])


def _smoothed(rows: Tensor, width: int, start: int, stop: int) -> Tensor:
    """Rows start..stop smoothed in pose, scale and translation; the expression would lose its closed lips."""
    result = rows.clone()
    result[start:stop, _POSE] = centred_mean(rows[:, _POSE], width, start, stop)
    return result


def take(plan: Plan, state: Joined, total: int | None = None) -> tuple[Tensor, Joined]:
    """Hands out the rows that have become final since the last time.

    Args:
        plan: the plan.
        state: what was joined.
        total: number of frames of the whole sound, once all its windows are joined; None while more may come.

    Returns:
        (r, 265) final rows, and the state after it. Row 0 of the very first is frame 0.
    """
    if total is not None:
        settled = plan.silence + total
        # Rows beyond the sound's end may not enter a mean.
        state = dataclasses.replace(state, rows=state.rows[: max(0, settled - state.first)])
    elif state.windows:
        settled = state.windows * plan.chunk + plan.overlap - plan.held
    else:
        settled = 0
    rows = _final(plan, state, plan.silence + state.taken, settled)
    reference = state.reference
    if reference is None and settled > plan.reference:
        reference = _final(plan, state, plan.reference, plan.reference + 1)[0]
    state = dataclasses.replace(state, taken=state.taken + len(rows), reference=reference)
    return rows, _trimmed(plan, state)


def _final(plan: Plan, state: Joined, start: int, stop: int) -> Tensor:
    """Rows start..stop as they are shown."""
    start, stop = start - state.first, stop - state.first
    if stop <= start:
        return _no_rows()
    rows = _smoothed(state.rows, plan.smoothing, start, stop) if plan.smooth_again else state.rows
    return rows[start:stop]


def _trimmed(plan: Plan, state: Joined) -> Joined:
    """Without rows that neither the next window's start nor any smoothing reads again."""
    if state.reference is None:
        return state
    half = plan.smoothing // 2
    next_start = state.windows * plan.chunk - 1
    unsettled = state.windows * plan.chunk + plan.overlap - plan.fuse
    keep = min(next_start, unsettled - half, plan.silence + state.taken - half, state.end - 1)
    drop = max(0, keep - state.first)
    return dataclasses.replace(state, rows=state.rows[drop:], first=state.first + drop)


def clamp_motion(rows: Tensor, bounds: Tensor) -> Tensor:
    """Motion held between bounds; on final rows only, so that the next window starts from what was predicted.

    Args:
        rows: (n, 265).
        bounds: (m, 265), m at least 2: row 0 the smallest and row 1 the largest value allowed.
    """
    return rows.clamp(bounds[0], bounds[1])
