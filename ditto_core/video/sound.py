"""The sound track: AAC at 48 kHz with all channels of the source, exactly as long as the picture."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Protocol

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer
from numpy.typing import NDArray

from ..errors import InvalidValueError

RATE = 48000
"""At 16 kHz one AAC packet is 1.6 video frames long, at 48 kHz half a frame."""
_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1", 8: "7.1"}
_BITS_PER_CHANNEL = 96_000


class SoundSource(Protocol):
    """A sound that is read in order; it may still be growing."""

    @property
    def rate(self) -> int:
        """Samples a second."""
        ...

    @property
    def channels(self) -> int:
        """Number of channels."""
        ...

    def part(self, start: int, stop: int) -> NDArray[np.float32]:
        """(channels, m) samples from start to stop, m less beyond the end. Each is read once, in order."""
        ...


class SoundTrack:
    """Encodes a sound bit by bit, as the picture goes on.

    Args:
        container: the container to add an audio stream to.
        sound: the source's own sound; samples beyond the picture's end are left out, missing ones are silent.

    Raises:
        InvalidValueError: AAC has no layout of that many channels.
    """

    def __init__(self, container: OutputContainer, sound: SoundSource) -> None:
        channels = sound.channels
        if channels not in _LAYOUTS:
            raise InvalidValueError(
                f"a sound of {channels} channels", remedy=f"mix it down to one of {sorted(_LAYOUTS)} channels"
            )
        self._sound = sound
        self._layout = _LAYOUTS[channels]
        self._position = 0
        self._stream: AudioStream = container.add_stream(
            "aac", rate=RATE, layout=self._layout, bit_rate=_BITS_PER_CHANNEL * channels
        )

    def packets_until(self, time: Fraction) -> Iterator[av.Packet[AudioStream]]:
        """Packets that can be made of the sound before `time` (seconds from the start)."""
        end = round(time * self._sound.rate)
        if end <= self._position:
            return
        part = self._sound.part(self._position, end)
        part = np.pad(part, ((0, 0), (0, end - self._position - part.shape[1])))
        # interleaved: PyAV reads beyond the last of 8 planes
        interleaved = np.ascontiguousarray(part.T, dtype=np.float32).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(interleaved, format="flt", layout=self._layout)
        frame.sample_rate = self._sound.rate
        frame.time_base = Fraction(1, self._sound.rate)
        frame.pts = self._position
        self._position = end
        yield from self._stream.encode(frame)

    def last_packets(self) -> Iterator[av.Packet[AudioStream]]:
        """What the resampler and the encoder still hold."""
        yield from self._stream.encode(None)
