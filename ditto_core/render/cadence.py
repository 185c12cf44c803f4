"""Cadence 2: every second face is rendered, the others are interpolated from the decoder's pictures.

A chunk is interpolated by itself: frames 0, 2, 4, ... are key frames. A last frame without a key frame after
it repeats the one before.
"""

from __future__ import annotations

import torch
from torch import Tensor


def spherical_midpoint(a: Tensor, b: Tensor) -> Tensor:
    """The picture half-way between two on the sphere: slerp at 1/2 of the flattened pictures.

    There both weights sin(w/2) / sin(w) are 1 / (2 cos(w/2)) = 1 / sqrt(2 + 2 cos w), which needs no special
    case at w = 0. A mean of two different pictures loses contrast; this one keeps their norm.

    Args:
        a: (b, ...) pictures in 0..1.
        b: the same shape.

    Returns:
        The same shape, clipped to 0..1; the mean where a picture is all black.
    """
    x, y = a.flatten(1).float(), b.flatten(1).float()
    norms = x.norm(dim=1) * y.norm(dim=1)
    cosine = torch.where(norms > 0, (x * y).sum(1) / norms, 1.0).clamp(0, 1)
    scale = torch.rsqrt(2 + 2 * cosine).view(-1, *[1] * (a.ndim - 1))
    return ((a + b) * scale).clamp(0, 1).to(a.dtype)


def interpolate_chunk(keys: Tensor, frames: int) -> Tensor:
    """A chunk's faces from its key frames.

    Args:
        keys: (ceil(frames / 2), ...) faces of frames 0, 2, 4, ...; in 0..1.
        frames: frames of the chunk.

    Returns:
        (frames, ...).
    """
    faces = keys.repeat_interleave(2, dim=0)[:frames]
    between = faces[1 : 2 * len(keys) - 1 : 2]
    between.copy_(spherical_midpoint(keys[:-1], keys[1:]))
    return faces
