"""Writing a video file: picture and sound interleaved in one container, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from av.video.stream import VideoStream
from numpy.typing import NDArray
from torch import Tensor

from ..errors import FileError, InvalidValueError
from ..files import replaced_file
from .encoder import EncoderOptions, PictureConverter, add_video_stream, check_size, choose_encoder
from .sound import SoundTrack

if TYPE_CHECKING:
    from ..speech import Sound


_DEFAULT = EncoderOptions()
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class VideoWriteError(FileError):
    """A video file could not be written, or not to its end; nothing stands under its name."""


@contextlib.contextmanager
def video_file(
    path: str | Path,
    *,
    size: tuple[int, int],
    sound: Sound | None = None,
    options: EncoderOptions = _DEFAULT,
    metadata: Mapping[str, str] | None = None,
) -> Iterator[VideoWriter]:
    """An MP4 file to write frames to. It appears under its name when the block ends with no error.

    Until then it is written beside its name; whatever ends the block early (an error, a cancel, Ctrl-C)
    leaves nothing behind, and an older file of that name stays as it was.

    Args:
        path: the file, ending in .mp4.
        size: even height and width of the frames.
        sound: the source's own sound, cut or filled with silence to the picture's length.
        options: encoder, quality and frame rate.
        metadata: texts to keep in the file under any names.

    Yields:
        The writer.

    Raises:
        InvalidValueError: the name, the size or the sound does not fit.
        EncoderError: the encoder asked for does not open.
        FileError: the folder is missing or not writable.
        VideoWriteError: writing failed midway, such as on a full disk, or no frame was written.
    """
    path = Path(path)
    if path.suffix.lower() != ".mp4":
        raise InvalidValueError(f"a video file named {path.name!r}", remedy="end its name in .mp4")
    if path.is_dir():
        raise VideoWriteError(path, "is a folder", remedy="name a file")
    check_size(size)
    with replaced_file(path) as partial:
        writer = VideoWriter(path, partial, size=size, sound=sound, options=options, metadata=metadata or {})
        try:
            yield writer
            writer.finish()
        finally:
            writer.abandon()


class VideoWriter:
    """Encodes frames and muxes them; made by `video_file`.

    Attributes:
        first_packet_at: `time.perf_counter()` when the first video packet went to the muxer; None before.
    """

    def __init__(
        self,
        path: Path,
        partial: Path,
        *,
        size: tuple[int, int],
        sound: Sound | None,
        options: EncoderOptions,
        metadata: Mapping[str, str],
    ) -> None:
        self.first_packet_at: float | None = None
        self._path = path
        self._size = size
        self._options = options
        self._choice = choose_encoder(options, size)
        self._convert = PictureConverter()
        self._frames = 0
        with self._typed_errors():
            # an absolute name, so that nothing in it reads as a protocol
            self._container = av.open(
                os.path.abspath(partial),
                "w",
                format="mp4",
                container_options={"movflags": "faststart+use_metadata_tags"},
            )
        try:
            self._container.metadata.update(metadata)
            self._video = add_video_stream(self._container, self._choice, options, size)
            self._sound = None if sound is None else SoundTrack(self._container, sound)
        except BaseException:
            self.abandon()
            raise

    @property
    def executed_by(self) -> str:
        """The encoder that runs, with the reason where another was preferred."""
        return self._choice.executed_by

    @property
    def duration(self) -> Fraction:
        """Seconds written so far."""
        return self._frames / self._options.fps

    def write(self, pictures: Tensor | NDArray[np.uint8]) -> None:
        """Adds frames, and the sound up to their end.

        Args:
            pictures: (n, H, W, 3) or (H, W, 3) uint8 RGB, on any device.

        Raises:
            InvalidValueError: they have another shape or type.
            VideoWriteError: they could not be encoded or written.
        """
        array = pictures.cpu().numpy() if isinstance(pictures, Tensor) else pictures
        if array.dtype != np.uint8 or array.shape[-3:] != (*self._size, 3) or array.ndim not in (3, 4):
            raise InvalidValueError(
                f"frames of shape {array.shape} and type {array.dtype}",
                remedy=f"write uint8 frames of shape {(*self._size, 3)}",
            )
        for picture in array.reshape(-1, *self._size, 3):
            frame = self._convert(picture)
            frame.pts, frame.time_base = self._frames, 1 / self._options.fps
            with self._typed_errors():
                self._mux_video(self._video.encode(frame))
                self._frames += 1
                if self._sound is not None:
                    self._container.mux(list(self._sound.packets_until(self.duration)))

    def finish(self) -> None:
        """Writes what the encoders still hold, and the file's index.

        Raises:
            VideoWriteError: there is no frame, or writing failed.
        """
        if not self._frames:
            raise VideoWriteError(self._path, "got no frame", remedy="write at least one frame")
        with self._typed_errors():
            self._mux_video(self._video.encode(None))
            if self._sound is not None:
                self._container.mux(list(self._sound.last_packets()))
            self._container.close()

    def abandon(self) -> None:
        """Closes the file as it is; nothing happens where it is closed already."""
        with contextlib.suppress(av.FFmpegError):
            self._container.close()

    def report(self) -> dict[str, Any]:
        """Encoder, quality, frames, rate and length, ready for JSON."""
        return {
            "encoder": self._choice.name,
            "executed_by": self.executed_by,
            "quality": self._options.quality,
            "frames": self._frames,
            "fps": str(self._options.fps),
            "duration_s": float(self.duration),
        }

    def _mux_video(self, packets: Iterable[av.Packet[VideoStream]]) -> None:
        for packet in packets:
            if self.first_packet_at is None:
                self.first_packet_at = time.perf_counter()
            self._container.mux(packet)

    @contextlib.contextmanager
    def _typed_errors(self) -> Iterator[None]:
        try:
            yield
        except av.FFmpegError as error:
            room = error.errno in _NO_ROOM
            raise VideoWriteError(
                self._path,
                f"could not be written beyond frame {self._frames} ({error.strerror or error})",
                remedy="make room on the disk" if room else "try another folder or another encoder",
            ) from error
