"""What motion asks of an avatar, without pictures."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from torch import Tensor

from ditto_core.networks.motion_extractor import MotionParameters


@dataclass(frozen=True)
class Frames:
    """Source frames of a rate; None for a picture."""

    fps: Fraction | None = None


@dataclass(frozen=True)
class Source:
    """An avatar's motion, eyes and shape."""

    motion: MotionParameters
    canonical: Tensor
    eye_open: Tensor
    eye_ball: Tensor
    is_image: bool = True
    frames: Frames = Frames()
