"""What goes from stage to stage of a session, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..render import RenderedFrames
from ..render.paste import Box
from ..speech.windows import FRAME_RATE
from .samples import SampleQueue


@dataclass(frozen=True, kw_only=True, eq=False)
class Pushed:
    """Sound that was pushed.

    Attributes:
        epoch: see `stages.Item`.
        segment: its number, from 0.
        samples: (channels, n); n may be 0.
        rate: samples a second.
        ended: whether it ends the segment.
    """

    epoch: int
    segment: int
    samples: NDArray[np.floating]
    rate: int
    ended: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class SpeechRows:
    """Speech features, (m, F); see `Pushed`."""

    epoch: int
    segment: int
    rows: Tensor
    ended: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class MotionRows:
    """Motion that is final.

    Attributes:
        epoch: see `stages.Item`.
        segment: its number.
        first: number of the first frame of the segment in the session.
        rows: (r, 265); r may be 0.
        reference: (265,) the motion that counts as rest.
        ended: whether the segment has no more.
    """

    epoch: int
    segment: int
    first: int
    rows: Tensor
    reference: Tensor | None
    ended: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Frames that were drawn together.

    Attributes:
        epoch: see `stages.Item`.
        segment: its number.
        origin: number of the segment's first frame in the session.
        first: number of the first of these frames in the session.
        frames: the pictures.
        moved: (n, 265) their motion away from rest.
        made_at: the clock's time when they were ready.
    """

    epoch: int
    segment: int
    origin: int
    first: int
    frames: RenderedFrames
    moved: Tensor
    made_at: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Ending:
    """Stands behind the last item of all."""

    epoch: int


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveFrame:
    """A frame and the sound that belongs to it.

    Attributes:
        number: counted over all segments, without gaps.
        segment: number of its segment, from 0.
        picture: (3 H / 2, W) uint8 NV12 in memory; or (H, W, 3) RGB, where the session makes that.
        face_box: the face crop in the frame.
        mouth: (6, 2) mouth polygon in pixels.
        sound: (channels, m) the sound from this frame to the next, as it was pushed; silent beyond its end.
        rate: samples a second of it.
        sound_pts: seconds from the session's start to the first sample.
        made_at: the clock's time when the picture was ready.
    """

    number: int
    segment: int
    picture: Tensor = field(repr=False)
    face_box: Box
    mouth: Tensor = field(repr=False)
    sound: NDArray[np.floating] = field(repr=False)
    rate: int
    sound_pts: Fraction
    made_at: float

    @property
    def pts(self) -> Fraction:
        """Seconds from the session's start to the frame."""
        return Fraction(self.number, FRAME_RATE)


class SegmentSound:
    """The sound of a segment, kept until its frames are taken.

    Args:
        rate: samples a second.
        channels: of the sound.
    """

    def __init__(self, rate: int, channels: int) -> None:
        self.rate, self.channels = rate, channels
        self._samples = SampleQueue(channels)

    @property
    def seconds(self) -> float:
        """Seconds of sound that are held."""
        return self._samples.waiting / self.rate

    def push(self, samples: NDArray[np.floating]) -> None:
        """Appends (channels, n) samples."""
        self._samples.push(samples)

    def take(self, frame: int) -> tuple[int, NDArray[np.floating]]:
        """The sound of the next frame, counted in the segment; it is forgotten.

        Returns:
            The number of its first sample, and (channels, m) samples.
        """
        start, stop = (round(Fraction(number * self.rate, FRAME_RATE)) for number in (frame, frame + 1))
        return start, self._samples.take(stop - start)
