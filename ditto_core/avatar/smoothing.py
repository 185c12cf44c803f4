"""Smoothing of what was read off a video, frame by frame."""

from __future__ import annotations

from ..motion.smoothing import centred_mean
from ..networks.motion_extractor import MotionParameters

SMOOTHING_WINDOW = 13
"""Frames of the centred mean over the motion parameters of a source video."""


def smooth_motion(motion: MotionParameters, window: int = SMOOTHING_WINDOW) -> MotionParameters:
    """Each parameter averaged over a centred window, which is cut at the ends.

    Args:
        motion: parameters of n frames, (n, ...); angles as logits.
        window: frames; window // 2 on either side are averaged. 1 or less changes nothing.

    Returns:
        The same shapes.
    """
    return MotionParameters(*(centred_mean(value, 2 * max(0, window // 2) + 1) for value in motion))
