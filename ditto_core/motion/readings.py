"""What driving motion does with mouth and head, to look at before anything is rendered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ..avatar import Avatar
from ..networks.presets import FACE_SIZE, KEYPOINTS
from .controls import LIP_POINTS, MotionControls, MotionMixer
from .keypoints import degrees_from_logits, unpack
from .track import MotionTrack

_BATCH = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class MotionReadings:
    """One value a frame.

    Attributes:
        aperture: (n,) height of the lips' key points in pixels of the 512 face picture.
        pose: pitch, yaw and roll, (n,) each: degrees by which the head turns from the motion's rest.
    """

    aperture: NDArray[np.float32]
    pose: dict[str, NDArray[np.float32]]


@torch.inference_mode()
def read_motion(avatar: Avatar, track: MotionTrack) -> MotionReadings:
    """Reads a track as it moves an avatar without controls and before stitching."""
    mixer = MotionMixer(avatar, MotionControls(), reference=track.reference, first=track.vectors[0])
    heights = []
    for start in range(0, len(track), _BATCH):
        frames = torch.arange(start, min(start + _BATCH, len(track)))
        lips = mixer(track.vectors[frames], frames).driving[:, list(LIP_POINTS), 1]
        heights.append((lips.amax(1) - lips.amin(1)) * (FACE_SIZE / 2))
    no_points = torch.zeros(1, 3 * KEYPOINTS)
    driving, rest = unpack(track.vectors, no_points), unpack(track.reference[None], no_points)
    pose = {
        name: (degrees_from_logits(getattr(driving, name)) - degrees_from_logits(getattr(rest, name))).numpy()
        for name in ("pitch", "yaw", "roll")
    }
    return MotionReadings(aperture=torch.cat(heights).numpy(), pose=pose)
