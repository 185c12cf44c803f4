"""Values that change over the frames of a video."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..speech.windows import FRAME_RATE

_MAX_KEYS = 1_000_000


@dataclass(frozen=True)
class Curve:
    """A value for each frame: straight lines between keys, level before the first and after the last.

    Attributes:
        frames: rising frame numbers of the keys.
        values: the values there, finite.
    """

    frames: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        """Checks the keys.

        Raises:
            InvalidValueError: there are none, their frames do not rise, or a value is not finite.
        """
        if not 0 < len(self.frames) <= _MAX_KEYS or len(self.frames) != len(self.values):
            raise InvalidValueError(
                f"a curve of {len(self.frames)} frames and {len(self.values)} values",
                remedy=f"give as many values as frames, 1 to {_MAX_KEYS}",
            )
        if any(b <= a for a, b in zip(self.frames, self.frames[1:], strict=False)):
            raise InvalidValueError("a curve whose frames do not rise", remedy="sort its keys, each frame once")
        unusable = [value for value in self.values if not math.isfinite(value)]
        if unusable:
            raise InvalidValueError(f"a curve with the value {unusable[0]}", remedy="give finite numbers")

    @classmethod
    def at_frames(cls, keys: Mapping[int, float]) -> Curve:
        """The curve through {frame: value}."""
        frames = tuple(sorted(keys))
        return cls(frames, tuple(float(keys[frame]) for frame in frames))

    @classmethod
    def at_seconds(cls, keys: Mapping[float, float]) -> Curve:
        """The curve through {seconds: value}; a time counts as its nearest frame."""
        return cls.at_frames({round(seconds * FRAME_RATE): value for seconds, value in keys.items()})

    @classmethod
    def of(cls, values: Sequence[float]) -> Curve:
        """One value a frame, from frame 0 on."""
        return cls(tuple(range(len(values))), tuple(float(value) for value in values))

    def at(self, frame: int) -> float:
        """The value at a frame."""
        right = bisect.bisect_right(self.frames, frame)
        if right == 0:
            return self.values[0]
        if right == len(self.frames):
            return self.values[-1]
        start, end = self.frames[right - 1], self.frames[right]
        share = (frame - start) / (end - start)
        return self.values[right - 1] * (1 - share) + self.values[right] * share


def sample(curve: float | Curve, frames: Tensor) -> Tensor:
    """The values at frames.

    Args:
        curve: a curve, or one number for all frames.
        frames: (b,) integer frame numbers.

    Returns:
        (b,) float32, on the frames' device.
    """
    if not isinstance(curve, Curve):
        return torch.full((len(frames),), float(curve), device=frames.device)
    return torch.tensor([curve.at(frame) for frame in frames.tolist()], device=frames.device)


def fade_curve(count: int, fade_in: int = 0, fade_out: int = 0, *, upstream: bool = False) -> Curve:
    """A fade at the start and one at the end of a video.

    It rises from 0 at frame 0 to 1 at frame `fade_in`, and falls from 1 at frame count - 1 - fade_out to 0 at
    the last. Where a short video has both at once, the lower one counts, so that both ends are at 0.

    Args:
        count: frames of the video, above 0.
        fade_in: frames of the rise; 0 or less is none.
        fade_out: frames of the fall; 0 or less is none.
        upstream: whether the fall replaces the rise where both apply, as the original does: a short video
            then starts at more than 0.
    """
    if count < 1:
        raise InvalidValueError(f"fades over {count} frames", remedy="give the number of frames of the video")
    fall_start = count - 1 - fade_out if fade_out > 0 else count
    values = []
    for frame in range(min(fall_start, 0), count):
        rise = frame / fade_in if 0 <= frame < fade_in else 1.0
        fall = (count - 1 - frame) / fade_out if frame >= fall_start else 1.0
        values.append(fall if upstream and frame >= fall_start else min(rise, fall))
    return Curve(tuple(range(min(fall_start, 0), count)), tuple(values))
