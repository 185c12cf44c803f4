"""Video encoders, in process through PyAV: which one opens, how it is set, and pictures in its colours."""

from __future__ import annotations

import dataclasses
import logging
from fractions import Fraction
from typing import cast

import av
import av.codec
import numpy as np
import torch
from av.container import OutputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import (
    ColorPrimaries,
    ColorRange,
    Colorspace,
    ColorTrc,
    Interpolation,
    VideoReformatter,
)
from av.video.stream import VideoStream
from numpy.typing import NDArray

from ..errors import DittoError, InvalidValueError

_log = logging.getLogger(__name__)

QUALITIES = ("broadcast", "web", "live")
"""Best picture; small files for the web; least delay and work."""

_NVENC = {
    "broadcast": {"preset": "p5", "tune": "hq", "rc": "vbr", "cq": "17"},
    "web": {"preset": "p4", "tune": "hq", "rc": "vbr", "cq": "23"},
    "live": {"preset": "p1", "tune": "ull", "rc": "vbr", "cq": "26", "bf": "0", "zerolatency": "1"},
}
_SETTINGS: dict[str, dict[str, dict[str, str]]] = {
    "h264_nvenc": _NVENC,
    "hevc_nvenc": _NVENC,
    "av1_nvenc": _NVENC,
    "libx264": {
        "broadcast": {"crf": "14", "preset": "faster"},
        "web": {"crf": "20", "preset": "veryfast"},
        "live": {"crf": "23", "preset": "ultrafast", "tune": "zerolatency"},
    },
    "libx265": {
        "broadcast": {"crf": "16", "preset": "medium", "x265-params": "log-level=none"},
        "web": {"crf": "22", "preset": "fast", "x265-params": "log-level=none"},
        "live": {"crf": "25", "preset": "ultrafast", "tune": "zerolatency", "x265-params": "log-level=none"},
    },
    "libsvtav1": {
        "broadcast": {"crf": "20", "preset": "6"},
        "web": {"crf": "30", "preset": "8"},
        "live": {"crf": "35", "preset": "10"},
    },
}
ENCODERS = ("auto", *_SETTINGS)
_AUTO = ("h264_nvenc", "libx264")  # H.264 plays everywhere
_KEYFRAME_SECONDS = {"broadcast": 2, "web": 2, "live": 1}
_LARGEST_SIDE = 8192
_LARGEST_RATE = 240
_LARGEST_DENOMINATOR = 10_000


class EncoderError(DittoError):
    """A video encoder can't be opened here, or failed.

    Attributes:
        encoder: its name.
    """

    def __init__(self, encoder: str, problem: str, *, remedy: str) -> None:
        self.encoder = encoder
        super().__init__(f"{encoder} {problem}", remedy=remedy)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """How a video is encoded.

    Attributes:
        encoder: one of `ENCODERS`; "auto" takes the first of h264_nvenc and libx264 that opens.
        quality: one of `QUALITIES`.
        fps: frames a second, above 0, at most 240, such as Fraction(30000, 1001).
    """

    encoder: str = "auto"
    quality: str = "web"
    fps: Fraction = Fraction(25)

    def __post_init__(self) -> None:
        """Checks the words and the rate.

        Raises:
            InvalidValueError: a word is unknown or the rate out of range.
        """
        if self.encoder not in ENCODERS:
            raise InvalidValueError(f"encoder {self.encoder!r}", remedy=f"choose {', '.join(ENCODERS)}")
        if self.quality not in QUALITIES:
            raise InvalidValueError(f"quality {self.quality!r}", remedy=f"choose {', '.join(QUALITIES)}")
        exact = isinstance(self.fps, Fraction) and self.fps.denominator <= _LARGEST_DENOMINATOR
        if not exact or not 0 < self.fps <= _LARGEST_RATE:
            raise InvalidValueError(
                f"{self.fps} frames a second", remedy=f"give a Fraction above 0, at most {_LARGEST_RATE}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderChoice:
    """The encoder that is used, and why.

    Attributes:
        name: its name.
        executed_by: the name, with the reason where another was preferred.
    """

    name: str
    executed_by: str


def check_size(size: tuple[int, int]) -> None:
    """Raises InvalidValueError unless height and width are even, from 16 to 8192."""
    height, width = size
    if height % 2 or width % 2 or not (16 <= height <= _LARGEST_SIDE and 16 <= width <= _LARGEST_SIDE):
        raise InvalidValueError(
            f"a video of {width}x{height} pixels", remedy=f"use even sides from 16 to {_LARGEST_SIDE}"
        )


def choose_encoder(options: EncoderOptions, size: tuple[int, int]) -> EncoderChoice:
    """Finds an encoder by opening it with the real size and settings; a list of names says little.

    Args:
        options: the encoder asked for, or "auto".
        size: height and width of the video.

    Raises:
        EncoderError: the encoder asked for does not open, or with "auto" none does.
    """
    candidates = _AUTO if options.encoder == "auto" else (options.encoder,)
    failures: list[str] = []
    for name in candidates:
        problem = _opening_problem(name, options, size)
        if problem is None:
            reasons = "".join(f"; {failure}" for failure in failures)
            return EncoderChoice(name=name, executed_by=name + reasons)
        failures.append(f"{name} did not open ({problem})")
        _log.info("%s", failures[-1])
    raise EncoderError(
        options.encoder,
        f"can't encode {size[1]}x{size[0]} here: {'; '.join(failures)}",
        remedy="choose another encoder, or 'auto'",
    )


def add_video_stream(
    container: OutputContainer, choice: EncoderChoice, options: EncoderOptions, size: tuple[int, int]
) -> VideoStream:
    """Adds the video stream to a container; one tick of its clock is one frame."""
    stream = container.add_stream(choice.name, rate=options.fps)
    if not isinstance(stream, VideoStream):
        raise EncoderError(choice.name, "makes no video", remedy=f"choose one of {', '.join(ENCODERS)}")
    _configure(stream.codec_context, choice.name, options, size)
    return stream


class PictureConverter:
    """RGB pictures as 4:2:0 frames, BT.709, TV range."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def __call__(self, picture: NDArray[np.uint8]) -> av.VideoFrame:
        """(H, W, 3) uint8 RGB -> a yuv420p frame, tagged."""
        frame = self._reformatter.reformat(
            av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24"),
            format="yuv420p",
            dst_colorspace=Colorspace.ITU709,
            src_color_range=ColorRange.JPEG,
            dst_color_range=ColorRange.MPEG,
            interpolation=Interpolation.AREA,
        )
        frame.color_primaries = ColorPrimaries.BT709
        frame.color_trc = ColorTrc.BT709
        return frame


def _opening_problem(name: str, options: EncoderOptions, size: tuple[int, int]) -> str | None:
    try:
        context = cast(VideoCodecContext, av.CodecContext.create(name, "w"))
        _configure(context, name, options, size)
        context.open()
    except av.codec.codec.UnknownCodecError:
        return "not in this build of FFmpeg"
    except av.FFmpegError as error:
        return error.strerror or str(error)
    return None


def _configure(context: VideoCodecContext, name: str, options: EncoderOptions, size: tuple[int, int]) -> None:
    context.height, context.width = size
    context.pix_fmt = "yuv420p"
    context.framerate = options.fps
    context.time_base = 1 / options.fps
    context.gop_size = max(1, round(options.fps * _KEYFRAME_SECONDS[options.quality]))
    context.colorspace = Colorspace.ITU709
    context.color_range = ColorRange.MPEG
    context.color_primaries = ColorPrimaries.BT709
    context.color_trc = ColorTrc.BT709
    context.options = dict(_SETTINGS[name][options.quality])
    if name == "libx264" and torch.backends.cpu.get_cpu_capability() == "AVX512":
        # x264's AVX-512 code for mb-tree now and then encodes the same frames differently
        context.options |= {"x264-params": "asm=avx2"}
    if name in ("libx265", "hevc_nvenc"):
        context.codec_tag = "hvc1"  # with ffmpeg's own choice, hev1, Apple's players show nothing
