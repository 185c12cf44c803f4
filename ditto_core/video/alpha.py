"""Pictures with alpha: ProRes 4444 in a .mov file, or a folder of PNG files."""

from __future__ import annotations

import contextlib
import wave
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import av
import numpy as np
import torch
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter
from torch import Tensor

from ..errors import InvalidValueError
from ..files import new_folder, replaced_file
from .containers import MOV, check_texts
from .encoder import check_size, tag_colours
from .muxer import Muxer, VideoWriteError

if TYPE_CHECKING:
    from ..speech import Sound

_RATE = Fraction(25)
_PRORES = {"profile": "4444", "alpha_bits": "16", "vendor": "apl0"}


class AlphaWriter(Protocol):
    """Takes pictures with alpha."""

    def write(self, pictures: Tensor) -> None:
        """Adds (n, H, W, 4) uint8 RGB and straight alpha, on any device."""
        ...


@contextlib.contextmanager
def alpha_file(
    path: str | Path,
    *,
    size: tuple[int, int],
    sound: Sound | None = None,
    fps: Fraction = _RATE,
    metadata: Mapping[str, str] | None = None,
) -> Iterator[AlphaWriter]:
    """A file or folder of pictures with alpha. It appears under its name when the block ends with no error.

    Args:
        path: a file ending in .mov (ProRes 4444, 10 bits of colour and 16 of alpha), or a name without an ending:
            a folder of 000000.png, 000001.png, ... and sound.wav (16 bits).
        size: even height and width.
        sound: the source's own; cut or filled with silence to the picture's length.
        fps: frames a second.
        metadata: texts to keep in the .mov under any names.

    Yields:
        The writer.

    Raises:
        InvalidValueError: the name, the size or the sound does not fit.
        FileError: the folder is missing or not writable, or the name of a PNG folder is taken.
        VideoWriteError: writing failed midway, or no frame was written.
    """
    path = Path(path)
    check_size(size)
    check_texts(metadata or {})
    if path.suffix.lower() == ".mov":
        with replaced_file(path) as partial, _ProRes(path, partial, size, sound, fps, metadata or {}) as movie:
            yield movie
    elif path.suffix:
        raise InvalidValueError(
            f"pictures with alpha named {path.name!r}", remedy="end the name in .mov, or name a folder for PNG files"
        )
    else:
        with new_folder(path) as folder:
            sequence = _Sequence(path, folder, size)
            yield sequence
            sequence.finish(sound, fps)


class _ProRes:
    """Writes a .mov."""

    def __init__(
        self,
        path: Path,
        partial: Path,
        size: tuple[int, int],
        sound: Sound | None,
        fps: Fraction,
        metadata: Mapping[str, str],
    ) -> None:
        self._size = size
        self._reformatter = VideoReformatter()
        self._muxer = Muxer(path, partial, MOV, metadata)
        try:
            stream = self._muxer.container.add_stream("prores_ks", rate=fps)
            context = stream.codec_context
            context.height, context.width = size
            context.pix_fmt = "yuva444p10le"
            context.time_base = 1 / fps
            context.options = dict(_PRORES)
            tag_colours(context)
            self._muxer.add_streams(stream, sound, fps)
        except BaseException:
            self._muxer.abandon()
            raise

    def __enter__(self) -> _ProRes:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._muxer.finish()
        finally:
            self._muxer.abandon()

    def write(self, pictures: Tensor) -> None:
        for frame in _frames(pictures, self._size):
            converted = self._reformatter.reformat(
                frame,
                format="yuva444p10le",
                dst_colorspace=Colorspace.ITU709,
                src_color_range=ColorRange.JPEG,
                dst_color_range=ColorRange.MPEG,
            )
            tag_colours(converted)
            self._muxer.add(converted)


class _Sequence:
    """Writes PNG files."""

    def __init__(self, path: Path, folder: Path, size: tuple[int, int]) -> None:
        self._path, self._folder, self._size, self._count = path, folder, size, 0
        self._context = av.CodecContext.create("png", "w")
        self._context.height, self._context.width = size
        self._context.pix_fmt = "rgba"
        self._context.time_base = 1 / _RATE
        self._context.thread_count = 1  # so that each picture comes out at once

    def write(self, pictures: Tensor) -> None:
        for frame in _frames(pictures, self._size):
            frame.pts = self._count
            png = b"".join(bytes(packet) for packet in self._context.encode(frame))
            with _written(self._path):
                (self._folder / f"{self._count:06}.png").write_bytes(png)
            self._count += 1

    def finish(self, sound: Sound | None, fps: Fraction) -> None:
        if not self._count:
            raise VideoWriteError(self._path, "got no frame", remedy="write at least one frame")
        if sound is None:
            return
        samples = np.zeros((round(self._count / fps * sound.rate), len(sound.samples)), np.int16)
        kept = sound.samples[:, : len(samples)]
        samples[: kept.shape[1]] = (kept.clip(-1, 1) * 32767).round().T
        with _written(self._path), wave.open(str(self._folder / "sound.wav"), "wb") as file:
            file.setnchannels(samples.shape[1])
            file.setsampwidth(2)
            file.setframerate(sound.rate)
            file.writeframes(samples.astype("<i2").tobytes())


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VideoWriteError(
            path, f"could not be written ({error.strerror or error})", remedy="see that the disk has room"
        ) from error


def _frames(pictures: Tensor, size: tuple[int, int]) -> Iterator[VideoFrame]:
    if pictures.dtype != torch.uint8 or pictures.ndim != 4 or pictures.shape[1:] != (*size, 4):
        raise InvalidValueError(
            f"pictures of shape {tuple(pictures.shape)} and type {pictures.dtype}",
            remedy=f"write uint8 RGBA of shape (n, {size[0]}, {size[1]}, 4)",
        )
    for picture in pictures.cpu().numpy():
        array: Any = np.ascontiguousarray(picture)
        yield VideoFrame.from_ndarray(array, format="rgba")
