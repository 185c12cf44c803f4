"""Where the face and the mouth are in each frame, for later measurement."""

from __future__ import annotations

import torch
from torch import Tensor

from ..motion.controls import LIP_POINTS
from ..networks.presets import FACE_SIZE


def frame_points(keypoints: Tensor, crop_to_frame: Tensor) -> Tensor:
    """Key points as pixels of the frame.

    -1 and 1 are the outer edges of the face picture, as the sampler has it; pixel centres are whole numbers.

    Args:
        keypoints: (b, k, 3) in -1..1; depth is ignored.
        crop_to_frame: (b or 1, 3, 3) matrices from pixels of the face crop to pixels of the frame.

    Returns:
        (b, k, 2) x and y in float64.
    """
    pixels = (keypoints[..., :2].double() + 1) * (FACE_SIZE / 2) - 0.5
    matrix = crop_to_frame.to(pixels.device, torch.float64)
    return pixels @ matrix[:, :2, :2].mT + matrix[:, None, :2, 2]


def mouth_polygon(keypoints: Tensor, crop_to_frame: Tensor) -> Tensor:
    """The polygon of the six lip key points in each frame.

    Args:
        keypoints: (b, 21, 3) driving key points, as drawn.
        crop_to_frame: (b or 1, 3, 3) matrices from pixels of the face crop to pixels of the frame.

    Returns:
        (b, 6, 2) pixels in float64, in turn around their middle, so that the outline does not cross itself.
    """
    points = frame_points(keypoints[:, list(LIP_POINTS)], crop_to_frame)
    x, y = (points - points.mean(1, keepdim=True)).unbind(-1)
    order = torch.atan2(y, x).argsort(1)
    return points.gather(1, order[..., None].expand_as(points))
