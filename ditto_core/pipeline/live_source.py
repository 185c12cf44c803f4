"""Sound that never pauses: speech where there is some, else silence, at the pace of a clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidValueError
from ..speech.resample import check_rate, check_values
from ..speech.windows import FRAME_RATE
from .clock import Clock
from .samples import SampleQueue

_MOST_WAITING_S = 3600


class ContinuousSound:
    """Blocks for `stream.feed` from speech that comes now and then. In between the presenter hears silence.

    So one segment goes on without end: the motion network moves the idle face as it moves the speaking one, and
    there is no joint between the two. Speech may come faster than it is spoken; it waits for its turn.

    Args:
        rate: samples a second.
        channels: of the sound.
        clock: the time.

    Raises:
        InvalidValueError: rate or channels are out of range.
    """

    def __init__(self, rate: int, channels: int, clock: Clock) -> None:
        check_rate(rate)
        if channels < 1:
            raise InvalidValueError(f"a sound of {channels} channels", remedy="use 1 or more")
        self._rate, self._clock = rate, clock
        self._lock = threading.Lock()
        self._samples = SampleQueue(channels)
        self._is_ended = False

    def push(self, samples: NDArray[np.floating]) -> None:
        """Takes speech, (n,) or (channels, n).

        Raises:
            InvalidValueError: another shape, wrong values, or an hour of speech waits already.
        """
        check_values(samples, self._rate)
        block = np.atleast_2d(samples)
        if block.ndim != 2 or len(block) != self._samples.channels:
            raise InvalidValueError(
                f"samples of shape {samples.shape}", remedy=f"push ({self._samples.channels}, samples)"
            )
        with self._lock:
            if self._samples.waiting > _MOST_WAITING_S * self._rate:
                raise InvalidValueError("more than an hour of speech that waits", remedy="push it as it is spoken")
            self._samples.push(block)

    def clear(self) -> None:
        """Drops what waits, as after `Session.interrupt`."""
        with self._lock:
            self._samples.clear()

    def end(self) -> None:
        """Ends the sound after what waits."""
        self._is_ended = True

    def __iter__(self) -> Iterator[tuple[NDArray[np.floating], int]]:
        """Blocks of a frame each, (channels, n) with their rate, at the moment when their last sample is due."""
        start, position, number = self._clock.now(), 0, 0
        while True:
            number += 1
            due = number * self._rate // FRAME_RATE
            self._clock.sleep(start + due / self._rate - self._clock.now())
            with self._lock:
                if self._is_ended and not self._samples.waiting:
                    return
                block = self._samples.take(due - position)
            position = due
            yield block, self._rate
