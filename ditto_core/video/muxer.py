"""One container with picture and sound in step."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import av
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from ..errors import FileError
from .containers import Container
from .copies import StreamCopy
from .sound import SoundSource, SoundTrack
from .targets import FileTarget, Target

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class VideoWriteError(FileError):
    """A video file could not be written, or not to its end; nothing stands under its name."""


class Muxer:
    """A container with a video stream and perhaps sound, which take their packets in step.

    Args:
        path: the file's final name, for messages.
        target: a file to write, an address of the network as FFmpeg knows it, or an object with a `write` method.
        container: its format.
        metadata: texts to keep in it under any names.
        copies: where else the packets go; they end with this container.

    Attributes:
        frames: written so far.
        first_packet_at: `time.perf_counter()` when the first video packet went to the muxer; None before.
    """

    def __init__(
        self,
        path: Path,
        target: Path | str | BinaryIO,
        container: Container,
        metadata: Mapping[str, str],
        copies: Sequence[StreamCopy] = (),
    ) -> None:
        self.frames = 0
        self.first_packet_at: float | None = None
        self._path, self._copies = path, tuple(copies)
        self._sound: SoundTrack | None = None
        with self.typed_errors():
            self._target = self._opened(target, container)
            self.container = av.open(self._target, "w", format=container.name, container_options=container.options)
        self.container.metadata.update(metadata)

    def add_streams(self, video: VideoStream, sound: SoundSource | None, fps: Fraction) -> None:
        """Takes the video stream, and adds one for the sound. One tick of the picture's clock is a frame."""
        self._video, self._fps = video, fps
        if sound is not None:
            self._sound = SoundTrack(self.container, sound)

    @property
    def duration(self) -> Fraction:
        """Seconds written so far."""
        return self.frames / self._fps

    def add(self, frame: VideoFrame) -> None:
        """Encodes a frame, and the sound up to its end."""
        frame.pts, frame.time_base = self.frames, 1 / self._fps
        with self.typed_errors():
            self._mux(self._video.encode(frame))
            self.frames += 1
            if self._sound is not None:
                self._mux(self._sound.packets_until(self.duration))

    def finish(self) -> None:
        """Writes what the encoders still hold, and the index.

        Raises:
            VideoWriteError: there is no frame, or writing failed.
        """
        if not self.frames:
            raise VideoWriteError(self._path, "got no frame", remedy="write at least one frame")
        with self.typed_errors():
            self._mux(self._video.encode(None))
            if self._sound is not None:
                self._mux(self._sound.last_packets())
            self.container.close()
            self._close_target()
            self._check_target()
        for copy in self._copies:
            copy.finish()

    def abandon(self) -> None:
        """Closes the containers as they are; nothing happens where they are closed already."""
        for copy in self._copies:
            copy.abandon()
        with contextlib.suppress(av.FFmpegError, OSError):
            self.container.close()
        self._close_target()

    @contextlib.contextmanager
    def typed_errors(self) -> Iterator[None]:
        """FFmpeg's errors as errors of this file."""
        try:
            yield
        except (av.FFmpegError, OSError) as error:
            room = error.errno in _NO_ROOM
            raise VideoWriteError(
                self._path,
                f"could not be written beyond frame {self.frames} ({error.strerror or error})",
                remedy="make room on the disk" if room else "try another folder or another encoder",
            ) from error

    @staticmethod
    def _opened(target: Path | str | BinaryIO, container: Container) -> Any:
        """What PyAV writes to: a file by its name only where the muxer reads it again."""
        if not isinstance(target, Path):
            return target
        if container.reads_back:
            return os.path.abspath(target)  # so that nothing in it reads as a protocol
        return FileTarget(target)

    def _check_target(self) -> None:
        if isinstance(self._target, Target):
            self._target.check()

    def _close_target(self) -> None:
        if isinstance(self._target, FileTarget):
            self._target.close()

    def _mux(self, packets: Iterable[av.Packet[Any]]) -> None:
        for packet in packets:
            if self.first_packet_at is None and packet.stream is self._video:
                self.first_packet_at = time.perf_counter()
            self.container.mux(packet)
            self._check_target()
            for copy in self._copies:
                copy.add(packet, self.container)
