"""Writing a video: frames go in, a file that is whole or not there at all comes out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from av.video.frame import VideoFrame
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InvalidValueError
from ..files import replaced_file
from ..render.colour import rgb_to_nv12
from .containers import FRAGMENTED_MP4, Container, check_fits, check_texts, container_of
from .copies import StreamCopy
from .encoder import EncoderOptions, add_video_stream, check_size, choose_encoder
from .muxer import Muxer
from .pictures import FrameMaker
from .retime import Retimer
from .sound import SoundSource

_DEFAULT = EncoderOptions()


@contextlib.contextmanager
def video_file(
    path: str | Path,
    *,
    size: tuple[int, int],
    sound: SoundSource | None = None,
    options: EncoderOptions = _DEFAULT,
    source_fps: Fraction | None = None,
    fragmented: bool = False,
    metadata: Mapping[str, str] | None = None,
    copies: Sequence[StreamCopy] = (),
) -> Iterator[VideoWriter]:
    """A video file to write frames to. It appears under its name when the block ends with no error.

    Until then it is written beside its name; whatever ends the block early (an error, a cancel, Ctrl-C)
    leaves nothing behind, and an older file of that name stays as it was.

    Args:
        path: the file, ending in .mp4 or .ts.
        size: even height and width of the frames.
        sound: the source's own sound, cut or filled with silence to the picture's length.
        options: encoder, quality and frame rate of the file.
        source_fps: frames that are written a second, where the file has another rate; see `retime`.
        fragmented: makes the .mp4 of pieces that are playable while it grows.
        metadata: texts to keep in the file under any names; not in .ts.
        copies: where else the encoded stream goes, as it grows and with no metadata; see `sinks.stream_copy`.

    Yields:
        The writer.

    Raises:
        InvalidValueError: the name, the size, the sound or the metadata does not fit.
        EncoderError: the encoder asked for does not open.
        FileError: the folder is missing or not writable.
        VideoWriteError: writing failed midway, such as on a full disk, or no frame was written.
        SinkError: a copy can't be written.
    """
    path = Path(path)
    container = container_of(path, fragmented=fragmented)
    check_size(size)
    check_texts(metadata or {})
    with replaced_file(path) as partial:
        writer = VideoWriter(
            path,
            partial,
            container,
            size=size,
            sound=sound,
            options=options,
            source_fps=source_fps,
            metadata=metadata or {},
            copies=copies,
        )
        with writer:
            yield writer


@contextlib.contextmanager
def video_stream(
    target: BinaryIO | str,
    *,
    size: tuple[int, int],
    sound: SoundSource | None = None,
    options: EncoderOptions = _DEFAULT,
    source_fps: Fraction | None = None,
    container: Container = FRAGMENTED_MP4,
    name: str = "stream",
) -> Iterator[VideoWriter]:
    """The same into any object with a `write` method, or over the network, piece by piece.

    Args:
        target: takes the bytes in order, and nothing is written twice; or an address as FFmpeg knows it.
        size: see `video_file`.
        sound: see `video_file`.
        options: see `video_file`.
        source_fps: see `video_file`.
        container: `containers.FRAGMENTED_MP4`, `containers.TS` or `containers.FLV`.
        name: of the target, for messages.

    Yields:
        The writer.
    """
    check_size(size)
    writer = VideoWriter(
        Path(name), target, container, size=size, sound=sound, options=options, source_fps=source_fps, metadata={}
    )
    with writer:
        yield writer


class VideoWriter:
    """Encodes frames and muxes them; made by `video_file` and `video_stream`."""

    def __init__(
        self,
        path: Path,
        target: Path | str | BinaryIO,
        container: Container,
        *,
        size: tuple[int, int],
        sound: SoundSource | None,
        options: EncoderOptions,
        source_fps: Fraction | None,
        metadata: Mapping[str, str],
        copies: Sequence[StreamCopy] = (),
    ) -> None:
        self._size = size
        self._options = options
        self._source_fps = source_fps or options.fps
        self._retimer = Retimer(self._source_fps, options.fps)
        self._choice = choose_encoder(options, size)
        check_fits(container, self._choice.name, has_metadata=bool(metadata))
        for copy in copies:
            check_fits(copy.container, self._choice.name, has_metadata=False)
        self._frame_maker: FrameMaker | None = None
        self._last: VideoFrame | None = None
        self._muxer = Muxer(path, target, container, metadata, copies)
        try:
            self._video = add_video_stream(self._muxer.container, self._choice, options, size)
            self._muxer.add_streams(self._video, sound, options.fps)
        except BaseException:
            self._muxer.abandon()
            raise

    def __enter__(self) -> VideoWriter:
        """Nothing more to do."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finishes where no error ended the block; closes in any case."""
        try:
            if kind is None:
                self.finish()
        finally:
            self._muxer.abandon()

    @property
    def executed_by(self) -> str:
        """The encoder that runs, with the reason where another was preferred."""
        return self._choice.executed_by

    @property
    def first_packet_at(self) -> float | None:
        """`time.perf_counter()` when the first video packet went to the muxer; None before."""
        return self._muxer.first_packet_at

    @property
    def duration(self) -> Fraction:
        """Seconds written so far."""
        return self._muxer.duration

    def write(self, pictures: Tensor | NDArray[np.uint8]) -> None:
        """Adds frames, and the sound up to their end.

        Args:
            pictures: (n, H, W, 3) or (H, W, 3) uint8 RGB, on any device.

        Raises:
            InvalidValueError: they have another shape or type.
            VideoWriteError: they could not be encoded or written.
        """
        rgb = pictures if isinstance(pictures, Tensor) else _tensor(pictures)
        if rgb.dtype != torch.uint8 or rgb.shape[-3:] != (*self._size, 3) or rgb.ndim not in (3, 4):
            raise InvalidValueError(
                f"frames of shape {tuple(rgb.shape)} and type {rgb.dtype}",
                remedy=f"write uint8 frames of shape {(*self._size, 3)}",
            )
        self._write(rgb_to_nv12(rgb.reshape(-1, *self._size, 3)))

    def write_nv12(self, pictures: Tensor) -> None:
        """Adds frames that are in the encoder's own form; see `render.colour`.

        Args:
            pictures: (n, 3 H / 2, W) uint8 NV12, BT.709 in TV range, on any device; not changed afterwards.

        Raises:
            InvalidValueError: they have another shape or type.
            VideoWriteError: they could not be encoded or written.
        """
        height, width = self._size
        if pictures.dtype != torch.uint8 or pictures.ndim != 3 or pictures.shape[1:] != (height * 3 // 2, width):
            raise InvalidValueError(
                f"frames of shape {tuple(pictures.shape)} and type {pictures.dtype}",
                remedy=f"write uint8 NV12 of shape (n, {height * 3 // 2}, {width})",
            )
        self._write(pictures.contiguous())

    def finish(self) -> None:
        """Shows the last frame to its end, and writes what the encoders still hold and the file's index.

        Raises:
            VideoWriteError: there is no frame, or writing failed.
        """
        if self._last is not None:
            self._show(self._last, self._retimer.last_repeats())
        self._muxer.finish()

    def report(self) -> dict[str, Any]:
        """Encoder, quality, frames, rate and length, ready for JSON."""
        maker, rates = self._frame_maker, (self._source_fps, self._options.fps)
        return {
            "encoder": self._choice.name,
            "executed_by": self.executed_by,
            "quality": self._options.quality,
            "frames": self._muxer.frames,
            "fps": str(self._options.fps),
            "resampled": None if rates[0] == rates[1] else f"nearest of {rates[0]} frames a second",
            "duration_s": float(self.duration),
            "input": None if maker is None else maker.way,
            "bytes_copied": 0 if maker is None else maker.bytes_copied,
        }

    def _write(self, nv12: Tensor) -> None:
        if self._frame_maker is None:
            self._frame_maker = FrameMaker(self._choice.name, nv12.device)
            self._video.codec_context.pix_fmt = self._frame_maker.pixel_format or self._video.codec_context.pix_fmt
        for frame in self._frame_maker(nv12):
            self._show(frame, self._retimer.repeats())
            self._last = frame

    def _show(self, frame: VideoFrame, times: int) -> None:
        for _ in range(times):
            self._muxer.add(frame)


def _tensor(pictures: NDArray[np.uint8]) -> Tensor:
    if pictures.dtype != np.uint8:
        raise InvalidValueError(
            f"frames of shape {pictures.shape} and type {pictures.dtype}", remedy="write uint8 frames"
        )
    return torch.from_numpy(np.require(pictures, requirements=["C", "W"]))
