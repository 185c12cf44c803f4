"""Which source frame stands behind an output frame."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor

from ..speech.windows import FRAME_RATE


def source_index(frames: Tensor, count: int, step: Fraction = Fraction(1)) -> Tensor:
    """Source frames forth and back without end: 0, 1, .., n-1, n-1, .., 1, 0, 0, 1, ...

    Args:
        frames: (b,) integer output frame numbers, 0 or above.
        count: number of source frames.
        step: source frames to an output frame: the source's frame rate over 25.

    Returns:
        (b,) indices of source frames.
    """
    moved = frames * step.numerator // step.denominator
    turn, place = moved // count, moved % count
    return place.where(turn % 2 == 0, count - 1 - place)


def source_step(fps: Fraction | None) -> Fraction:
    """Source frames to an output frame of a source of that frame rate; 1 for a picture, which has none."""
    return Fraction(1) if fps is None else fps / FRAME_RATE
