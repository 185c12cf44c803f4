"""Smoothing of what was read off a video, frame by frame."""

from __future__ import annotations

import torch
from torch import Tensor

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
    return MotionParameters(*(_centred_mean(value, window // 2) for value in motion))


def _centred_mean(values: Tensor, radius: int) -> Tensor:
    n = len(values)
    # a running sum in float64 stays exact enough for any length of video
    total = torch.nn.functional.pad(values.double().cumsum(0), (0, 0) * (values.ndim - 1) + (1, 0))
    index = torch.arange(n)
    low, high = (index - radius).clamp(min=0), (index + radius + 1).clamp(max=n)
    count = (high - low).reshape(-1, *(1,) * (values.ndim - 1))
    return ((total[high] - total[low]) / count).to(values.dtype)
