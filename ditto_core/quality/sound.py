"""Sound beside the picture: loudness in each frame, and by how much one sound comes after another."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

RATE = 16000
"""Samples a second of the signals here, see `ditto_core.speech.analysis_signal`."""
_ENVELOPE_RATE = 1000
_QUIETEST_DB = 60.0


@dataclass(frozen=True, kw_only=True)
class SoundShift:
    """One sound beside another.

    Attributes:
        late_ms: milliseconds by which the second comes after the first.
        r: correlation of their loudness at that shift.
    """

    late_ms: float
    r: float


def loudness(signal: NDArray[np.float32], *, start_s: float, frames: int, fps: Fraction) -> NDArray[np.float64]:
    """Loudness while each frame is shown, 0 at -60 dB and below, 1 at full scale.

    Args:
        signal: (n,) mono, 16 kHz, -1..1.
        start_s: when the signal starts, counted from the first frame.
        frames: how many.
        fps: frames a second.

    Returns:
        (frames,)
    """
    edges = np.array([round((float(i / fps) - start_s) * RATE) for i in range(frames + 1)]).clip(0, len(signal))
    energy = np.concatenate([[0.0], np.cumsum(np.square(signal, dtype=np.float64))])
    mean = np.diff(energy[edges]) / np.maximum(np.diff(edges), 1)
    decibel = 10 * np.log10(np.maximum(mean, 0) + 1e-12)
    return (1 + decibel / _QUIETEST_DB).clip(0, 1)


def _envelope(signal: NDArray[np.float32]) -> NDArray[np.float64]:
    size = RATE // _ENVELOPE_RATE
    whole = signal[: len(signal) // size * size].reshape(-1, size)
    return np.sqrt(np.square(whole, dtype=np.float64).mean(1))


def sound_shift(
    first: NDArray[np.float32], second: NDArray[np.float32], *, farthest_ms: int = 1000
) -> SoundShift | None:
    """By how much one signal comes after another, to a millisecond.

    Args:
        first: (n,) mono, 16 kHz.
        second: (m,) the same.
        farthest_ms: shifts that are tried to both sides.

    Returns:
        The shift of the largest correlation of their loudness; None where one of them is silent.
    """
    a, b = _envelope(first), _envelope(second)
    if len(a) < 2 or len(b) < 2 or a.std() < 1e-6 or b.std() < 1e-6:
        return None
    a, b = a - a.mean(), b - b.mean()
    length = 1 << int(np.ceil(np.log2(len(a) + len(b))))
    products = np.fft.irfft(np.fft.rfft(b, length) * np.fft.rfft(a, length).conj(), length)
    reach = min(farthest_ms, len(a) - 1, len(b) - 1)
    shifts = np.arange(-reach, reach + 1)
    best = int(shifts[products[shifts].argmax()])
    r = float(products[best] / np.sqrt((a @ a) * (b @ b)))
    return SoundShift(late_ms=best * 1000 / _ENVELOPE_RATE, r=min(r, 1.0))
