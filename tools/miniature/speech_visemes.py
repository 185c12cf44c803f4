"""From the times of phonemes to what the mouth does, 25 times a second."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .speech_espeak import SAMPLE_RATE, Phoneme, Utterance

FRAME_SAMPLES = 640
CLOSURES = ("p", "b", "m")
"""Phonemes that shut the lips."""

_STEPS = 8
_STEP_SECONDS = FRAME_SAMPLES / SAMPLE_RATE / _STEPS
_SMOOTHING = (0.035, 0.050, 0.050, 0.035)
"""Seconds (standard deviation) over which open, wide, pucker and teeth run into each other."""

_SHAPES = {
    "p": (0.00, 0.00, 0.00, 0.00), "b": (0.00, 0.00, 0.00, 0.00), "m": (0.00, 0.00, 0.00, 0.00),
    "f": (0.05, 0.10, 0.00, 0.80), "v": (0.05, 0.10, 0.00, 0.80), "T": (0.15, 0.10, 0.00, 0.60),
    "D": (0.15, 0.10, 0.00, 0.60), "t": (0.18, 0.15, 0.00, 0.50), "d": (0.18, 0.15, 0.00, 0.50),
    "n": (0.18, 0.15, 0.00, 0.30), "l": (0.26, 0.10, 0.00, 0.20), "s": (0.10, 0.35, 0.00, 1.00),
    "z": (0.10, 0.35, 0.00, 1.00), "S": (0.12, 0.00, 0.45, 0.80), "Z": (0.12, 0.00, 0.45, 0.80),
    "tS": (0.12, 0.00, 0.40, 0.80), "dZ": (0.12, 0.00, 0.40, 0.80), "k": (0.24, 0.00, 0.00, 0.20),
    "g": (0.24, 0.00, 0.00, 0.20), "N": (0.24, 0.00, 0.00, 0.20), "h": (0.34, 0.00, 0.00, 0.10),
    "r": (0.22, 0.00, 0.35, 0.20), "w": (0.12, 0.00, 1.00, 0.00), "j": (0.18, 0.40, 0.00, 0.40),
    "i": (0.26, 0.75, 0.00, 0.40), "I": (0.32, 0.45, 0.00, 0.30), "e": (0.45, 0.40, 0.00, 0.30),
    "E": (0.52, 0.35, 0.00, 0.20), "a": (0.85, 0.15, 0.00, 0.10), "A": (0.90, 0.00, 0.00, 0.00),
    "0": (0.75, 0.00, 0.20, 0.00), "O": (0.68, 0.00, 0.50, 0.00), "o": (0.48, 0.00, 0.75, 0.00),
    "U": (0.30, 0.00, 0.65, 0.00), "u": (0.20, 0.00, 0.95, 0.00), "V": (0.60, 0.00, 0.00, 0.00),
    "3": (0.38, 0.00, 0.30, 0.10), "@": (0.34, 0.00, 0.00, 0.10), "aI": (0.75, 0.25, 0.00, 0.20),
    "aU": (0.75, 0.00, 0.35, 0.00), "oU": (0.45, 0.00, 0.75, 0.00), "OI": (0.58, 0.10, 0.35, 0.10),
    "eI": (0.45, 0.50, 0.00, 0.30),
}  # fmt: skip
"""Mnemonic -> open, wide, pucker, teeth, as in the presenter's Motion."""
_OTHER_PHONEME = (0.30, 0.0, 0.0, 0.1)
_MARKS = "',%=_:;|^~*?-#!`\""


@dataclasses.dataclass(frozen=True)
class MouthTargets:
    """What the mouth does in each frame; ranges as in the presenter's Motion.

    Attributes:
        open: float32 (frames,), 0..1.
        wide: -1..1.
        pucker: 0..1.
        teeth: 0..1.
        closures: frames in the middle of a p, b or m; there open and teeth are 0.
    """

    open: NDArray[np.float32]
    wide: NDArray[np.float32]
    pucker: NDArray[np.float32]
    teeth: NDArray[np.float32]
    closures: tuple[int, ...]


def shape_of(name: str) -> tuple[float, float, float, float] | None:
    """Open, wide, pucker and teeth for a phoneme's mnemonic; None for a pause."""
    plain = name.strip(_MARKS)
    if not plain:
        return None
    return _SHAPES.get(plain[:2]) or _SHAPES.get(plain[:1]) or _OTHER_PHONEME


def is_closure(phoneme: Phoneme) -> bool:
    """Whether a phoneme shuts the lips."""
    return phoneme.end > phoneme.start and phoneme.name.strip(_MARKS)[:1] in CLOSURES


def frame_count(samples: int) -> int:
    """Frames of that many samples at 16 kHz: a frame is 640 of them, the last may be shorter."""
    return -(-samples // FRAME_SAMPLES)


def mouth_targets(utterance: Utterance) -> MouthTargets:
    """The mouth's course for an utterance, one row a frame; a row is the mean over its 40 ms."""
    frames = frame_count(len(utterance.samples))
    times = (np.arange(frames * _STEPS, dtype=np.float64) + 0.5) * _STEP_SECONDS
    course = np.zeros((len(times), 4))
    for phoneme in utterance.phonemes:
        shape = shape_of(phoneme.name)
        if shape is not None:
            course[(times >= phoneme.start) & (times < phoneme.end)] = shape
    for column, seconds in enumerate(_SMOOTHING):
        course[:, column] = _smooth(course[:, column], seconds)
    closures = [phoneme for phoneme in utterance.phonemes if is_closure(phoneme)]
    course[:, [0, 3]] *= _parted(times, closures)[:, None]
    rows = course.reshape(frames, _STEPS, 4).mean(1).astype(np.float32)
    middles = {int((p.start + p.end) / 2 * SAMPLE_RATE) // FRAME_SAMPLES for p in closures}
    shut = tuple(sorted(frame for frame in middles if frame < frames))
    rows[np.ix_(list(shut), [0, 3])] = 0
    return MouthTargets(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], shut)


def _smooth(values: NDArray[np.float64], seconds: float) -> NDArray[np.float64]:
    reach = int(4 * seconds / _STEP_SECONDS)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) * _STEP_SECONDS / seconds) ** 2)
    padded = np.pad(values, reach, mode="edge")
    return np.convolve(padded, weights / weights.sum(), "valid")


def _parted(times: NDArray[np.float64], closures: Iterable[Phoneme]) -> NDArray[np.float64]:
    """0 while the lips are shut, rising to 1 within 50 ms of it."""
    parted = np.ones_like(times)
    for phoneme in closures:
        half = max(phoneme.end - phoneme.start, 0.04) / 2
        away = np.abs(times - (phoneme.start + phoneme.end) / 2) - 0.8 * half
        parted = np.minimum(parted, np.clip(away / 0.05, 0, 1))
    return parted
