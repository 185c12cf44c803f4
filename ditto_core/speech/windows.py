"""The geometry of the speech encoder's windows, in whole numbers.

A row of speech features covers one video frame: 640 samples at 16 kHz, 25 rows a second. The encoder makes
two frames a row. It reads windows of past + hop + future rows and 80 samples (its receptive field of 400 less
its stride of 320), of which the `hop` rows in the middle are kept; windows lie `hop` rows apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InvalidValueError

SAMPLE_RATE = 16_000
FRAME_RATE = 25
ROW_SAMPLES = SAMPLE_RATE // FRAME_RATE
WINDOW_SPEECH_ROWS = 10
"""Rows of a window of the official encoder, hop, past and future together."""
_RECEPTIVE_MARGIN = 80
_FUTURE = 2


def frame_count(samples: int) -> int:
    """Video frames of a sound: ceil(samples / 640), in whole numbers.

    Args:
        samples: length of the sound at 16 kHz.
    """
    return -(-samples // ROW_SAMPLES)


def upstream_offline_rows(samples: int) -> int:
    """Rows that the original makes of a whole file: by rounding one too many for 7, 14, 28, 55, ... frames.

    Args:
        samples: length of the sound at 16 kHz.
    """
    return math.ceil(samples / SAMPLE_RATE * FRAME_RATE)


@dataclass(frozen=True, kw_only=True)
class SpeechWindows:
    """Where the windows of a sound lie and which rows each one gives.

    Window k begins `lead` samples before sample k * hop * 640 of the sound. Beyond the sound lie zeros.

    Attributes:
        past: rows before the kept ones.
        hop: rows kept of a window, and the distance of windows.
        future: rows after the kept ones.
        lead: samples of silence before the sound, at most past * 640 + 80. With that, the two encoder frames
            of a row hear from 80 samples before it to its end.
    """

    past: int
    hop: int
    future: int
    lead: int

    def __post_init__(self) -> None:
        """Checks the geometry.

        Raises:
            InvalidValueError: a number is negative, hop is 0, or lead is too large.
        """
        if self.hop < 1 or self.past < 0 or self.future < 0:
            raise InvalidValueError(
                f"speech windows of {self.past} + {self.hop} + {self.future} rows",
                remedy="use a hop of 1 row or more, and 0 or more rows before and after",
            )
        most = self.past * ROW_SAMPLES + _RECEPTIVE_MARGIN
        if not 0 <= self.lead <= most:
            raise InvalidValueError(f"speech lead of {self.lead} samples", remedy=f"use 0 to {most} samples")

    @classmethod
    def with_hop(cls, hop: int, *, lead: int | None = None) -> SpeechWindows:
        """The official encoder's windows of 6480 samples.

        Args:
            hop: rows a window, 1 to 5; the rest of the 8 rows that end 2 before the window's end is past.
            lead: samples of silence before the sound; by default the most, with which a row is heard at the
                same place for every hop. Upstream's online client has 80 fewer.

        Raises:
            InvalidValueError: hop or lead is out of range.
        """
        if not 1 <= hop <= 5:
            raise InvalidValueError(f"speech hop of {hop!r} rows", remedy="use 1 to 5")
        past = WINDOW_SPEECH_ROWS - _FUTURE - hop
        aligned = past * ROW_SAMPLES + _RECEPTIVE_MARGIN
        return cls(past=past, hop=hop, future=_FUTURE, lead=aligned if lead is None else lead)

    @property
    def length(self) -> int:
        """Samples of a window."""
        return (self.past + self.hop + self.future) * ROW_SAMPLES + _RECEPTIVE_MARGIN

    @property
    def step(self) -> int:
        """Samples from one window to the next."""
        return self.hop * ROW_SAMPLES

    @property
    def encoder_frames(self) -> int:
        """Frames that the encoder makes of a window."""
        return 2 * (self.past + self.hop + self.future)

    @property
    def kept_frames(self) -> slice:
        """Those of the encoder's frames that become rows, two a row."""
        return slice(2 * self.past, 2 * (self.past + self.hop))

    def count(self, rows: int) -> int:
        """Windows that hold the first `rows` rows."""
        return -(-rows // self.hop)

    def start(self, window: int) -> int:
        """The window's first sample, counted in the sound; negative in the silence before it."""
        return window * self.step - self.lead

    def ready(self, samples: int) -> int:
        """Windows that lie wholly within the first `samples` samples of a sound that is still arriving."""
        return max(0, (samples + self.lead - self.length) // self.step + 1)

    def samples_needed(self, row: int) -> int:
        """Samples of the sound that must have arrived before row number `row` (from 0) can be computed."""
        return self.start(row // self.hop) + self.length

    def upstream_online_rows(self, samples: int) -> int:
        """Rows that the original's streaming client makes: whole windows over the sound and its lead."""
        return self.hop * -(-(samples + self.lead) // self.step)
