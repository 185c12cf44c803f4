"""Sound of any rate and channel count as mono at 16 kHz, whole or bit by bit, with the same bits.

Output m lies at the time m / 16000, hence at the input position m * rate / 16000 = n + f / L, where L / M is
16000 / rate in lowest terms. Its value is sum_i x[n + i] h(i - f / L), with h the ideal low-pass of cutoff fc
under a Kaiser window (Oppenheim & Schafer, "Discrete-Time Signal Processing", 7.5):

    h(t) = 2 fc sinc(2 fc t) I0(beta sqrt(1 - (t / T)^2)) / I0(beta),    beta = 0.1102 (A - 8.7)

For A = 80 dB the transition band of 2 T taps is (A - 7.95) / (14.36 * 2 T) cycles a sample wide. It ends at
the lower of the two Nyquist frequencies: nothing folds back. h is symmetric: no delay. Each of the L rows of
taps is scaled to sum 1. FFmpeg's resampler, as PyAV offers it, loses sounds shorter than its filter, is a
sample short for some lengths, mirrors the beginning, and folds 8.1 kHz back at -13 dB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..errors import InvalidValueError
from .windows import SAMPLE_RATE

LOWEST_RATE, HIGHEST_RATE = 8_000, 192_000

_STOP_BAND_DB = 80.0
_CYCLES = 48
"""Half the filter's length, in samples at the lower of the two rates."""
_BETA = 0.1102 * (_STOP_BAND_DB - 8.7)
_TRANSITION = (_STOP_BAND_DB - 7.95) / (14.36 * _CYCLES)
"""Width of the transition band, as a share of the lower Nyquist frequency."""
_BLOCK, _PHASES = 4096, 256
"""Outputs, and rows of taps, that are computed at once: what bounds the memory taken in between."""

MAX_PEAK = 8.0
"""Full scale is 1. Float sound may exceed it a little; 8 (18 dB over) means that it was never scaled."""

Samples = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class _Polyphase:
    """The rows of taps of a rational resampler: `up` / `down` = 16000 / rate, `half` taps on each side."""

    up: int
    down: int
    half: int
    taps: Samples = field(repr=False)


@lru_cache(maxsize=4)
def _polyphase(rate: int) -> _Polyphase:
    divisor = math.gcd(rate, SAMPLE_RATE)
    up, down = SAMPLE_RATE // divisor, rate // divisor
    half = math.ceil(_CYCLES * max(1.0, rate / SAMPLE_RATE))
    cutoff = min(1.0, SAMPLE_RATE / rate) * (1 - _TRANSITION / 2)
    taps = np.empty((up, 2 * half), np.float32)
    offsets = np.arange(-half + 1, half + 1)
    for first in range(0, up, _PHASES):
        phases = np.arange(first, min(up, first + _PHASES))[:, None]
        t = offsets - phases / up
        rows = np.sinc(cutoff * t) * np.i0(_BETA * np.sqrt(np.maximum(0.0, 1 - (t / half) ** 2)))
        taps[first : first + _PHASES] = rows / rows.sum(axis=1, keepdims=True)
    return _Polyphase(up=up, down=down, half=half, taps=taps)


def check_rate(rate: int) -> None:
    """Checks a sample rate.

    Args:
        rate: samples a second.

    Raises:
        InvalidValueError: it is not a whole number from 8,000 to 192,000.
    """
    if isinstance(rate, bool) or not isinstance(rate, int) or not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise InvalidValueError(
            f"sample rate of {rate!r}",
            remedy=f"use sound of {LOWEST_RATE} to {HIGHEST_RATE} samples a second",
        )


def check_values(samples: NDArray[np.floating], rate: int) -> None:
    """Checks the values of a sound.

    Args:
        samples: (n,) or (channels, n); n may be 0.
        rate: samples a second.

    Raises:
        InvalidValueError: not float, NaN or infinity, or a peak above 8.
    """
    if samples.dtype.kind != "f":
        raise InvalidValueError(f"samples of {samples.dtype}", remedy="scale them to float, -1 to 1")
    low, high = float(samples.min(initial=0)), float(samples.max(initial=0))
    if -MAX_PEAK <= low and high <= MAX_PEAK:
        return
    bad = np.flatnonzero(~np.isfinite(np.atleast_2d(samples)).all(axis=0))
    if len(bad):
        raise InvalidValueError(
            f"sound with {len(bad)} NaN or infinite samples, the first at {bad[0] / rate:.3f} s",
            remedy="repair or export the sound anew",
        )
    raise InvalidValueError(
        f"sound that peaks at {max(-low, high):g}, where full scale is 1", remedy="scale it to -1..1"
    )


def resampled_length(samples: int, rate: int) -> int:
    """Samples at 16 kHz of a sound: ceil(samples * 16000 / rate), as many as begin within its duration."""
    return -(-samples * SAMPLE_RATE // rate)


def mono(samples: NDArray[np.floating]) -> Samples:
    """The mean of all channels.

    Args:
        samples: (n,) or (channels, n).

    Returns:
        (n,) float32; each value depends on its own column only, bit for bit.

    Raises:
        InvalidValueError: another shape.
    """
    if samples.ndim not in (1, 2) or samples.shape[0] == 0 and samples.ndim == 2:
        raise InvalidValueError(f"samples of shape {samples.shape}", remedy="pass (samples,) or (channels, samples)")
    channels = np.atleast_2d(samples)
    total = channels[0].astype(np.float32)
    for channel in channels[1:]:
        total += channel
    return total if len(channels) == 1 else total / np.float32(len(channels))


class Resampler:
    """Turns sound that arrives bit by bit into mono float32 at 16 kHz.

    Whatever the cuts, the joined output has the same bits and `resampled_length` samples, each at its own
    time (no delay is added); beyond both ends the sound is silent. Flat within 0.01 dB up to 0.89 of the
    lower Nyquist frequency, 80 dB down from that frequency on. Sound that is at 16 kHz passes unchanged.

    Args:
        rate: samples a second of the input, 8,000 to 192,000.

    Raises:
        InvalidValueError: the rate is out of range.
    """

    def __init__(self, rate: int) -> None:
        check_rate(rate)
        self.rate = rate
        self._filter = None if rate == SAMPLE_RATE else _polyphase(rate)
        self._held: Samples = np.zeros(0 if self._filter is None else self._filter.half - 1, np.float32)
        self._held_from = -len(self._held)
        self._received = 0
        self._given = 0
        self._finished = False

    @property
    def look_ahead(self) -> int:
        """Input samples that must have arrived beyond an output's own time."""
        return 0 if self._filter is None else self._filter.half

    def push(self, samples: NDArray[np.floating]) -> Samples:
        """Takes more sound.

        Args:
            samples: (n,) or (channels, n), nominally -1 to 1; n may be 0.

        Returns:
            (m,) the samples that became computable; m may be 0.

        Raises:
            InvalidValueError: wrong shape or values (`check_values`), or the sound was already flushed.
        """
        if self._finished:
            raise InvalidValueError("sound pushed after its end", remedy="use a new Resampler for a new sound")
        check_values(samples, self.rate)
        new = mono(samples)
        self._received += len(new)
        if self._filter is None:
            return new
        self._held = np.concatenate([self._held, new])
        covered = max(0, self._received - self._filter.half)
        return self._up_to(self._filter, resampled_length(covered, self.rate))

    def flush(self) -> Samples:
        """Ends the sound.

        Returns:
            (m,) the remaining samples.
        """
        self._finished = True
        if self._filter is None:
            return np.zeros(0, np.float32)
        self._held = np.concatenate([self._held, np.zeros(self._filter.half, np.float32)])
        return self._up_to(self._filter, resampled_length(self._received, self.rate))

    def _up_to(self, polyphase: _Polyphase, end: int) -> Samples:
        windows_from = self._held_from + polyphase.half - 1
        blocks = [np.zeros(0, np.float32)]
        while self._given < end:
            outputs = np.arange(self._given, min(end, self._given + _BLOCK))
            position, phase = np.divmod(outputs * polyphase.down, polyphase.up)
            products = sliding_window_view(self._held, 2 * polyphase.half)[position - windows_from]
            products *= polyphase.taps[phase]
            # Every row is added up by itself in one fixed order. A matrix product would not promise that.
            blocks.append(products.sum(axis=1))
            self._given += len(outputs)
        drop = max(0, self._given * polyphase.down // polyphase.up - windows_from)
        self._held = self._held[drop:]
        self._held_from += drop
        return np.concatenate(blocks)
