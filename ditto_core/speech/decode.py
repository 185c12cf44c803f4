"""Sound in memory: read from any file that PyAV decodes, or taken from a waveform."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidValueError
from ..media import DEFAULT_LIMITS, Media, MediaError, MediaLimits, open_media
from .resample import Resampler, check_rate, check_values, resampled_length
from .windows import frame_count

MAX_CHANNELS = 64
_PADDING_FRAMES = 2


@dataclass(frozen=True, eq=False)
class Sound:
    """A sound with all its channels at its own rate.

    Attributes:
        samples: float32 (channels, n), nominally -1 to 1, read-only; 1 to 64 channels, n at least 1.
        rate: samples a second, 8,000 to 192,000.

    Raises:
        InvalidValueError: wrong shape, type or rate, no samples, NaN or infinity, or a peak above 8.
    """

    samples: NDArray[np.float32] = field(repr=False)
    rate: int

    def __post_init__(self) -> None:
        """Checks the sound, and makes its samples read-only."""
        check_rate(self.rate)
        if self.samples.dtype != np.float32 or self.samples.ndim != 2:
            raise InvalidValueError(
                f"sound of {self.samples.dtype} {self.samples.shape}, not float32 (channels, samples)",
                remedy="use Sound.from_waveform",
            )
        channels, length = self.samples.shape
        if length == 0:
            raise InvalidValueError("sound without samples", remedy="use a sound that is not empty")
        if not 1 <= channels <= MAX_CHANNELS:
            raise InvalidValueError(f"sound of {channels} channels", remedy=f"use 1 to {MAX_CHANNELS}")
        check_values(self.samples, self.rate)
        view = self.samples.view()
        view.flags.writeable = False
        object.__setattr__(self, "samples", view)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.samples)

    def part(self, start: int, stop: int) -> NDArray[np.float32]:
        """(channels, m) samples from start to stop; m is less beyond the end."""
        return self.samples[:, start:stop]

    @classmethod
    def from_waveform(cls, waveform: ArrayLike | torch.Tensor, rate: int) -> Sound:
        """A sound from samples in memory.

        Args:
            waveform: (n,), (channels, n) or (1, channels, n), NumPy or torch. Integers are scaled by their
                type's range (uint8 is centred on 128); floats are taken as they are.
            rate: samples a second.

        Raises:
            InvalidValueError: another shape, more than one sound, or what `Sound` refuses.
        """
        if isinstance(waveform, torch.Tensor):
            waveform = waveform.detach().cpu()
            waveform = (waveform.float() if waveform.is_floating_point() else waveform).numpy()
        samples = np.asarray(waveform)
        if samples.ndim == 3 and samples.shape[0] == 1:
            samples = samples[0]
        if samples.ndim == 1:
            samples = samples[None]
        if samples.ndim != 2 or samples.dtype.kind not in "iuf":
            raise InvalidValueError(
                f"waveform of {samples.dtype} {samples.shape}",
                remedy="pass one sound as (samples,), (channels, samples) or (1, channels, samples)",
            )
        return cls(_scaled(samples), rate)

    @property
    def duration_s(self) -> float:
        """Seconds."""
        return self.samples.shape[1] / self.rate

    @property
    def frames(self) -> int:
        """Video frames at 25 a second that cover the sound."""
        return frame_count(resampled_length(self.samples.shape[1], self.rate))


def read_sound(path: str | Path, *, limits: MediaLimits = DEFAULT_LIMITS) -> Sound:
    """Reads the sound of a file.

    The encoder delay and padding that the file declares are cut off (mp3 and Opus headers, mp4 edit lists,
    Matroska marks).

    Args:
        path: wav, aiff, flac, mp3, aac, ogg, m4a, mp4, mov, mkv, webm, ts or avi.
        limits: the largest sound accepted.

    Returns:
        All channels at the file's own rate.

    Raises:
        MediaError: not such a file, damaged, above a limit, empty, changes rate or channels midway, or holds
            NaN or infinity.
    """
    with open_media(path, "audio", limits=limits) as media:
        rate, parts = _decode(media)
        end = _declared_end(media, rate)
    samples = np.concatenate(parts, axis=1)
    padding = _PADDING_FRAMES * max(part.shape[1] for part in parts)
    # An end mark counts only where it cuts the codec's padding off, never where it contradicts the sound.
    if end is not None and 0 < samples.shape[1] - end <= padding:
        samples = samples[:, :end]
    try:
        return Sound(samples, rate)
    except InvalidValueError as error:
        raise MediaError(path, error.problem, remedy=error.remedy) from error


def analysis_signal(sound: Sound) -> NDArray[np.float32]:
    """The sound as the speech encoder hears it.

    Args:
        sound: any rate and channel count.

    Returns:
        (ceil(n * 16000 / rate),) mono at 16 kHz, nominally -1 to 1 (not clipped: filters overshoot).
    """
    resampler = Resampler(sound.rate)
    return np.concatenate([resampler.push(sound.samples), resampler.flush()])


def _decode(media: Media) -> tuple[int, list[NDArray[np.float32]]]:
    form: tuple[int, int] | None = None
    parts: list[NDArray[np.float32]] = []
    values = 0
    for frame in media.frames():
        part = _planar(frame)
        form = form or (frame.sample_rate, len(part))
        if form != (frame.sample_rate, len(part)):
            raise MediaError(
                media.path,
                f"changes from {form[0]} Hz and {form[1]} channels to {frame.sample_rate} Hz and {len(part)}",
                remedy="export it with one rate and one channel count",
            )
        values += part.size
        if values > media.limits.values:
            raise MediaError(
                media.path,
                f"holds more than {media.limits.values} samples",
                remedy="cut it, or use fewer channels",
            )
        parts.append(part)
    if form is None:
        raise MediaError(media.path, "holds no sound that can be decoded", remedy="use a file that is not empty")
    return form[0], parts


def _planar(frame: av.AudioFrame) -> NDArray[np.float32]:
    samples = frame.to_ndarray()
    if not frame.format.is_planar:
        samples = samples.reshape(-1, frame.layout.nb_channels).T
    return _scaled(samples)


def _scaled(samples: NDArray[Any]) -> NDArray[np.float32]:
    if samples.dtype.kind == "f":
        return np.ascontiguousarray(samples, dtype=np.float32)
    half_range = 2.0 ** (8 * samples.dtype.itemsize - 1)
    centre = half_range if samples.dtype.kind == "u" else 0.0
    return np.ascontiguousarray((samples - centre) / half_range, dtype=np.float32)


def _declared_end(media: Media, rate: int) -> int | None:
    """Samples up to the end of an mp4's edit list. Other containers' durations are estimates."""
    if "mov" not in media.container.format.name.split(",") or not media.stream.duration:
        return None
    return round(media.stream.duration * media.stream.time_base * rate)
