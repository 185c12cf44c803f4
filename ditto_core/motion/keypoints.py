"""Motion vectors, head rotation and key points (LivePortrait, arXiv:2407.03168, eq. 2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..networks.motion_extractor import ANGLE_BINS, MotionParameters
from ..networks.presets import KEYPOINTS, MOTION_SIZE

_LAYOUT = {"scale": 1, "pitch": ANGLE_BINS, "yaw": ANGLE_BINS, "roll": ANGLE_BINS, "t": 3, "exp": 3 * KEYPOINTS}


class Slices(NamedTuple):
    """Where each part of a motion vector lies."""

    scale: slice
    pitch: slice
    yaw: slice
    roll: slice
    t: slice
    exp: slice


def _slices() -> Slices:
    ends, position = {}, 0
    for name, size in _LAYOUT.items():
        ends[name] = slice(position, position + size)
        position += size
    return Slices(**ends)


PARTS = _slices()


def pack(motion: MotionParameters) -> Tensor:
    """Motion parameters as motion vectors; scale is stored less 1, the canonical key points are left out.

    Args:
        motion: parameters with angles as logits, (b, ...).

    Returns:
        (b, 265).
    """
    return torch.cat([motion.scale - 1, motion.pitch, motion.yaw, motion.roll, motion.t, motion.exp], dim=-1)


def unpack(vectors: Tensor, kp: Tensor) -> MotionParameters:
    """Motion vectors as parameters.

    Args:
        vectors: (b, 265).
        kp: (b, 63) or (1, 63) canonical key points; a vector does not hold them.

    Returns:
        Parameters with angles as logits, (b, ...).

    Raises:
        InvalidValueError: the vectors are not 265 long.
    """
    if vectors.shape[-1] != MOTION_SIZE:
        raise InvalidValueError(
            f"motion vector of {vectors.shape[-1]} values, not {MOTION_SIZE}", remedy="pass whole motion vectors"
        )
    parts = {name: vectors[..., where] for name, where in PARTS._asdict().items()}
    parts["scale"] = parts["scale"] + 1
    return MotionParameters(**parts, kp=kp.expand(*vectors.shape[:-1], -1))


def degrees_from_logits(logits: Tensor) -> Tensor:
    """Expected angle of a distribution over 66 bins, 3 degrees apart from -97.5.

    Args:
        logits: (..., 66).

    Returns:
        (...) degrees.
    """
    bins = torch.arange(ANGLE_BINS, device=logits.device, dtype=logits.dtype)
    return (logits.softmax(-1) * bins).sum(-1) * 3 - 97.5


def rotation_matrix(pitch: Tensor, yaw: Tensor, roll: Tensor) -> Tensor:
    """Head rotation, to be multiplied from the right: points @ R, with R = (Rz Ry Rx)^T.

    Args:
        pitch: (b,) degrees about x.
        yaw: (b,) degrees about y.
        roll: (b,) degrees about z.

    Returns:
        (b, 3, 3).
    """
    x, y, z = (angle * (math.pi / 180) for angle in (pitch, yaw, roll))
    one, zero = torch.ones_like(x), torch.zeros_like(x)

    def matrix(*entries: Tensor) -> Tensor:
        return torch.stack(entries, dim=-1).unflatten(-1, (3, 3))

    rx = matrix(one, zero, zero, zero, x.cos(), -x.sin(), zero, x.sin(), x.cos())
    ry = matrix(y.cos(), zero, y.sin(), zero, one, zero, -y.sin(), zero, y.cos())
    rz = matrix(z.cos(), -z.sin(), zero, z.sin(), z.cos(), zero, zero, zero, one)
    return (rz @ ry @ rx).transpose(-1, -2)


def transform_keypoints(
    *, kp: Tensor, exp: Tensor, scale: Tensor, t: Tensor, pitch: Tensor, yaw: Tensor, roll: Tensor
) -> Tensor:
    """Key points in the picture: scale * (kp @ R + exp), moved by t in x and y; t's depth is ignored.

    Args:
        kp: (b, 63) canonical key points.
        exp: (b, 63) expression.
        scale: (b, 1).
        t: (b, 3).
        pitch: (b,) degrees.
        yaw: (b,) degrees.
        roll: (b,) degrees.

    Returns:
        (b, 21, 3) points, about -1..1 in the face picture.
    """
    rotated = kp.unflatten(-1, (KEYPOINTS, 3)) @ rotation_matrix(pitch, yaw, roll)
    points = scale[..., None] * (rotated + exp.unflatten(-1, (KEYPOINTS, 3)))
    return points + torch.nn.functional.pad(t[..., None, :2], (0, 1))


def keypoints(motion: MotionParameters) -> Tensor:
    """Key points of extracted motion parameters, (b, 21, 3)."""
    return transform_keypoints(
        kp=motion.kp,
        exp=motion.exp,
        scale=motion.scale,
        t=motion.t,
        pitch=degrees_from_logits(motion.pitch),
        yaw=degrees_from_logits(motion.yaw),
        roll=degrees_from_logits(motion.roll),
    )
