"""What is in a video file."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np


@dataclass(frozen=True, kw_only=True)
class Video:
    """A video file, decoded.

    Attributes:
        pictures: (frames, H, W, 3) uint8 RGB.
        fps: frames a second.
        sound: (channels, samples), 0 samples where there is no sound.
        sample_rate: of the sound; 0 where there is none.
        metadata: of the container.
    """

    pictures: np.ndarray
    fps: float
    sound: np.ndarray
    sample_rate: int
    metadata: dict[str, str]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pictures.shape[1:3]


def decoded(file: Path | bytes) -> Video:
    """Reads all of a video file."""
    with av.open(io.BytesIO(file) if isinstance(file, bytes) else file) as container:
        picture = container.streams.video[0]
        fps = float(picture.average_rate)
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(picture)]
        metadata = dict(container.metadata)
    with av.open(io.BytesIO(file) if isinstance(file, bytes) else file) as container:
        streams = container.streams.audio
        blocks = [frame.to_ndarray() for frame in container.decode(streams[0])] if streams else []
        rate = streams[0].rate if streams else 0
    sound = np.concatenate(blocks, axis=1) if blocks else np.zeros((0, 0), np.float32)
    return Video(pictures=np.stack(pictures), fps=fps, sound=sound, sample_rate=rate, metadata=metadata)
