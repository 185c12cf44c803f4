"""Frame rates: which source frame each output frame shows.

Each output frame shows the source frame that is nearest in time. None is blended of two: a blend of two mouths is
blurred and has a third opening, whereas a frame that stands a little longer is not seen. So a picture is at most
half a source frame from its time, and the sound needs no change.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..errors import InvalidValueError

_LARGEST_DENOMINATOR = 10_000
_NTSC_WITHIN = Fraction(5, 1000)
"""Half of a step of 0.01: 23.98, 29.97 and 59.94 are rates of 1000/1001."""


def shown_frame(number: int, source_fps: Fraction, fps: Fraction) -> int:
    """The source frame nearest in time to an output frame; the earlier one where two are equally near."""
    return math.ceil(number * source_fps / fps - Fraction(1, 2))


def frame_count(source_frames: int, source_fps: Fraction, fps: Fraction) -> int:
    """Output frames for so many source frames: as many as cover their duration."""
    return math.ceil(source_frames * fps / source_fps)


def exact_rate(fps: float) -> Fraction:
    """The frame rate that a number with two or three decimals means: 29.97 is 30000/1001.

    Raises:
        InvalidValueError: it is no number above 0.
    """
    if not (math.isfinite(fps) and fps > 0):
        raise InvalidValueError(f"{fps} frames a second", remedy="give a number from 0.1 to 240")
    film = Fraction(round(fps * 1001 / 1000) * 1000, 1001)
    if fps != round(fps) and abs(film - Fraction(fps)) < _NTSC_WITHIN:
        return film
    return Fraction(fps).limit_denominator(_LARGEST_DENOMINATOR)


class Retimer:
    """Says, as source frames arrive, for how many output frames each is shown.

    Args:
        source_fps: frames that arrive a second.
        fps: frames that are shown a second.
    """

    def __init__(self, source_fps: Fraction, fps: Fraction) -> None:
        self._source_fps, self._fps = source_fps, fps
        self._arrived = self._shown = 0

    def repeats(self) -> int:
        """How often to show the source frame that arrives now; 0 drops it."""
        first = self._shown
        while shown_frame(self._shown, self._source_fps, self._fps) <= self._arrived:
            self._shown += 1
        self._arrived += 1
        return self._shown - first

    def last_repeats(self) -> int:
        """How often to show the last source frame once more, at the end."""
        return frame_count(self._arrived, self._source_fps, self._fps) - self._shown
