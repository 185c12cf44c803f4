"""Where somebody speaks, told by loudness: enough to let the lips rest in pauses of a clean recording."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .decode import Sound, analysis_signal
from .windows import ROW_SAMPLES, frame_count

_BELOW_LOUD_DB = 30.0
_SILENCE_DB = -60.0
_HELD_FRAMES = 4
_RAMP_FRAMES = 2


def speech_activity(sound: Sound) -> NDArray[np.float64]:
    """How much of each video frame is speech.

    A frame counts as speech that is at most 30 dB below the loud ones (the 95th percentile of all) and above
    -60 dB of full scale, and so do the 4 frames on both sides, so that soft beginnings and endings are not cut.

    Args:
        sound: any sound.

    Returns:
        (frames,) from 0 to 1, one value a frame at 25 a second; edges rise and fall over some frames.
    """
    signal = analysis_signal(sound)
    frames = frame_count(len(signal))
    padded = np.pad(signal.astype(np.float64), (0, frames * ROW_SAMPLES - len(signal)))
    power = np.square(padded.reshape(frames, ROW_SAMPLES)).mean(1)
    level = 10 * np.log10(power + 1e-12)
    loud = np.percentile(level, 95)
    speech = ((level > loud - _BELOW_LOUD_DB) & (level > _SILENCE_DB)).astype(np.float64)
    held = np.convolve(speech, np.ones(2 * _HELD_FRAMES + 1), "full")[_HELD_FRAMES : _HELD_FRAMES + frames] > 0
    ramp = np.ones(2 * _RAMP_FRAMES + 1) / (2 * _RAMP_FRAMES + 1)
    return np.convolve(np.pad(held.astype(np.float64), _RAMP_FRAMES, mode="edge"), ramp, "valid")
