"""Opening untrusted sound, video and picture files: only the file given, stated formats, stated limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Literal

import av
import numpy as np
from av.error import FFmpegError
from av.filter import Graph
from av.video.reformatter import Interpolation
from numpy.typing import NDArray

from .errors import FileError, InvalidValueError

Kind = Literal["audio", "video", "image"]

# FFmpeg's demuxers. None of them opens other files: no playlists, scripts, session descriptions or patterns.
FORMATS: dict[Kind, tuple[str, ...]] = {
    "audio": ("wav", "w64", "aiff", "flac", "mp3", "aac", "ogg", "mov", "matroska", "mpegts", "avi"),
    "video": ("mov", "matroska", "mpegts", "avi"),
    "image": ("png_pipe", "jpeg_pipe", "webp_pipe", "bmp_pipe", "tiff_pipe"),
}
_READABLE: dict[Kind, str] = {
    "audio": "wav, aiff, flac, mp3, aac, ogg, m4a, mp4, mov, mkv, webm, ts or avi",
    "video": "mp4, mov, mkv, webm, ts or avi",
    "image": "png, jpeg, webp, bmp or tiff",
}
_READ_BYTES = 1 << 18
_UNTIMED_RATE = Fraction(25)
_EXIF_SIDE_DATA = 31
_ORIENTATIONS = {(a, 0, 0, d) for a in (-1, 1) for d in (-1, 1)} | {(0, b, c, 0) for b in (-1, 1) for c in (-1, 1)}


class MediaError(FileError):
    """A sound, video or picture file can't be read, is of a refused kind, or exceeds a limit."""


@dataclass(frozen=True, kw_only=True)
class MediaLimits:
    """What a media file may hold, checked on what it declares and again while it is decoded.

    Attributes:
        duration_s: seconds of sound or video.
        pixels: pixels of one picture (width x height). Decoders refuse twice as many before they take memory.
        streams: streams in one file.
        values: samples x channels of one sound (4 bytes each in memory).
    """

    duration_s: float = 3600.0
    pixels: int = 1 << 26
    streams: int = 32
    values: int = 1 << 29

    def __post_init__(self) -> None:
        """Checks the limits themselves.

        Raises:
            InvalidValueError: a limit is not above 0.
        """
        for name, value in vars(self).items():
            if not value > 0:
                raise InvalidValueError(f"media limit {name} is {value!r}", remedy="give a number above 0")


DEFAULT_LIMITS = MediaLimits()


@dataclass(frozen=True, kw_only=True)
class Media:
    """An open file and the stream of the kind that was asked for.

    Attributes:
        path: the file.
        container: PyAV's container.
        stream: the best audio stream, or the best video stream.
        limits: the limits that decoding obeys.
    """

    path: Path
    container: av.container.InputContainer
    stream: Any
    limits: MediaLimits

    @property
    def fps(self) -> Fraction | None:
        """The video stream's own frame rate, where the file tells it."""
        return self.stream.average_rate or self.stream.guessed_rate

    def frames(self) -> Iterator[Any]:
        """Decodes the stream from its start.

        Yields:
            PyAV's frames; the container's own skip and padding marks are already applied by the codec.

        Raises:
            MediaError: the data is damaged, a picture is above the limit, or the stream outlasts the limit.
        """
        elapsed = Fraction(0)
        try:
            for frame in self.container.decode(self.stream):
                elapsed += self._length(frame)
                if elapsed > self.limits.duration_s:
                    raise _too_long(self.path, self.limits)
                if self.stream.type == "video":
                    _check_pixels(self.path, frame, self.limits)
                yield frame
        except FFmpegError as error:
            pixels = f" or a picture is above {self.limits.pixels} pixels" if self.stream.type == "video" else ""
            raise MediaError(
                self.path,
                f"can't be decoded after {float(elapsed):.2f} s: it is damaged{pixels} ({error.strerror})",
                remedy="export the file anew, or use a smaller one",
            ) from error

    def _length(self, frame: Any) -> Fraction:
        if self.stream.type == "audio":
            return Fraction(frame.samples, frame.sample_rate)
        return 1 / (self.fps or _UNTIMED_RATE)

    def pictures(self) -> Iterator[NDArray[np.uint8]]:
        """Decodes the video stream's pictures, upright.

        Yields:
            (H, W, 3) RGB, 0 to 255; alpha is dropped, grey expanded.

        Raises:
            MediaError: as `frames`, or a picture is to be turned by other than a multiple of 90 degrees.
        """
        orientation = None
        for frame in self.frames():
            if orientation is None:  # once: each look at PyAV's side data makes a cycle that holds the picture
                orientation = _orientation(self.path, frame)
            yield _upright_rgb(frame, orientation)


@contextlib.contextmanager
def open_media(path: str | Path, kind: Kind, *, limits: MediaLimits = DEFAULT_LIMITS) -> Iterator[Media]:
    """Opens one file for decoding, and nothing beside it.

    The name is a file's name whatever it looks like: no address, protocol, pattern or pipe. The library reads
    through our handle and never sees the name; only the demuxers in `FORMATS` may run, and a file that asks
    for another one is refused.

    Args:
        path: a regular file.
        kind: what to look for in it.
        limits: the largest file accepted.

    Yields:
        The open file; closed at the end of the block.

    Raises:
        MediaError: no such file, another format, no stream of this kind, or above a limit.
    """
    path = Path(path)
    with _opened(path) as handle, _container(path, handle, kind, limits) as container:
        stream = _stream(path, container, kind, limits)
        yield Media(path=path, container=container, stream=stream, limits=limits)


def read_image(path: str | Path, *, limits: MediaLimits = DEFAULT_LIMITS) -> NDArray[np.uint8]:
    """Reads a picture as it is meant to be seen.

    Args:
        path: a png, jpeg, webp, bmp or tiff file.
        limits: the largest picture accepted.

    Returns:
        (H, W, 3) RGB, 0 to 255. The EXIF orientation is applied; alpha is dropped without compositing, as the
        original does; grey is expanded; 16 bits become 8.

    Raises:
        MediaError: not such a file, damaged, or above a limit.
    """
    with open_media(path, "image", limits=limits) as media:
        for picture in media.pictures():
            return picture
    raise MediaError(path, "holds no picture", remedy="export the file anew")


def _opened(path: Path) -> BinaryIO:
    try:
        if path.is_file():
            return path.open("rb")
    except OSError as error:
        raise MediaError(path, f"can't be opened ({error.strerror})", remedy="check the path") from error
    raise MediaError(path, "is not a file", remedy="give the path of a file; addresses and patterns are not opened")


class _Reader:
    """The reading half of a file, without its name, from which the library would guess patterns."""

    def __init__(self, handle: BinaryIO) -> None:
        self.read, self.seek, self.tell = handle.read, handle.seek, handle.tell


def _container(path: Path, handle: BinaryIO, kind: Kind, limits: MediaLimits) -> av.container.InputContainer:
    options = {
        "format_whitelist": ",".join(FORMATS[kind]),
        # Not even "file": the bytes come through our handle, so that a demuxer has nothing to open at all.
        "protocol_whitelist": "none",
        # One above, so that `_stream` can say which limit it was.
        "max_streams": str(limits.streams + 1),
        "max_pixels": str(_decoder_pixels(limits)),
    }
    try:
        return av.open(_Reader(handle), "r", options=options, buffer_size=_READ_BYTES)
    except FFmpegError as error:
        raise MediaError(
            path, f"is no {kind} file that is read here ({error.strerror})", remedy=f"use {_READABLE[kind]}"
        ) from error


def _decoder_pixels(limits: MediaLimits) -> int:
    """The bound inside decoders, which count padded rows; `Media.frames` counts exactly."""
    return 2 * limits.pixels


def _stream(path: Path, container: av.container.InputContainer, kind: Kind, limits: MediaLimits) -> Any:
    if len(container.streams) > limits.streams:
        raise MediaError(
            path,
            f"holds more than {limits.streams} streams",
            remedy="export it with one picture and one sound",
        )
    stream: Any = container.streams.best("audio" if kind == "audio" else "video")
    if stream is None or stream.codec_context is None:
        raise MediaError(path, f"holds no {kind} that can be decoded", remedy=f"use {_READABLE[kind]}")
    declared = [Fraction(container.duration, av.time_base)] if container.duration else []
    if stream.duration and stream.time_base:
        declared.append(stream.duration * stream.time_base)
    if kind != "image" and any(seconds > limits.duration_s for seconds in declared):
        raise _too_long(path, limits)
    if kind != "audio":
        _check_pixels(path, stream, limits)
        options = {"max_pixels": str(_decoder_pixels(limits))}
        if kind == "image" and stream.codec_context.name == "mjpeg":
            options["err_detect"] = "explode"  # this decoder alone would fill what is missing with grey
        stream.codec_context.options = options
        stream.thread_type = "AUTO"
    return stream


def _check_pixels(path: Path, picture: Any, limits: MediaLimits) -> None:
    if picture.width * picture.height > limits.pixels:
        raise MediaError(
            path,
            f"has pictures of {picture.width}x{picture.height}, above {limits.pixels} pixels",
            remedy="scale it down",
        )


def _too_long(path: Path, limits: MediaLimits) -> MediaError:
    return MediaError(path, f"is longer than {limits.duration_s:g} s", remedy="cut it into shorter files")


_Orientation = tuple[int, int, int, int]
"""Signs of the display matrix a, b, c, d: shown x = a x + c y, shown y = b x + d y."""


def _upright_rgb(frame: av.VideoFrame, orientation: _Orientation) -> NDArray[np.uint8]:
    # Chroma at full resolution: the default takes the nearest sample, which shows on lips.
    flags = Interpolation.BICUBIC | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
    rgb = frame.to_ndarray(format="rgb24", interpolation=flags)
    a, b, c, d = orientation
    if a == 0:
        rgb, a, d = rgb.swapaxes(0, 1), c, b
    return np.ascontiguousarray(rgb[::d, ::a])


def _orientation(path: Path, frame: av.VideoFrame) -> _Orientation:
    matrix: Any
    try:
        matrix = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:  # PyAV 18 does not know EXIF as side data and then shows none of it
        matrix = _without_exif(frame).side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 1, 0, 0, 1
    a, b, _, c, d = np.sign(np.frombuffer(matrix, np.int32)[:5]).tolist()
    if (a, b, c, d) not in _ORIENTATIONS:
        raise MediaError(path, "is to be shown turned by an odd angle", remedy="export it upright")
    return a, b, c, d


def _without_exif(frame: av.VideoFrame) -> av.VideoFrame:
    graph = Graph()
    source = graph.add_buffer(
        width=frame.width,
        height=frame.height,
        format=frame.format,
        time_base=frame.time_base or 1 / _UNTIMED_RATE,
    )
    delete = graph.add("sidedata", f"mode=delete:type={_EXIF_SIDE_DATA}")
    sink = graph.add("buffersink")
    source.link_to(delete)
    delete.link_to(sink)
    graph.configure()
    graph.vpush(frame)
    return graph.vpull()
