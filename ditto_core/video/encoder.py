"""Video encoders, in process through PyAV: which one opens, and how it is set."""

from __future__ import annotations

import dataclasses
import logging
import os
from fractions import Fraction
from typing import cast

import av
import av.codec
import torch
from av.container import OutputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc
from av.video.stream import VideoStream

from ..errors import DittoError, InvalidValueError

_log = logging.getLogger(__name__)

QUALITIES = ("broadcast", "web", "live")
"""Best picture; small files for the web; least delay and work."""

_NVENC = {
    "broadcast": {"preset": "p5", "tune": "hq", "cq": "17"},
    "web": {"preset": "p4", "tune": "hq", "cq": "23"},
    "live": {
        "preset": "p1",
        "tune": "ull",
        "cq": "26",
        "bf": "0",
        "zerolatency": "1",
        "delay": "0",
        "rc-lookahead": "0",
        "forced-idr": "1",
        "strict_gop": "1",
    },
}
_SETTINGS: dict[str, dict[str, dict[str, str]]] = {
    "h264_nvenc": _NVENC,
    "hevc_nvenc": _NVENC,
    "av1_nvenc": _NVENC,
    "libx264": {
        "broadcast": {"crf": "14", "preset": "faster"},
        "web": {"crf": "20", "preset": "veryfast"},
        "live": {"crf": "23", "preset": "ultrafast", "tune": "zerolatency", "forced-idr": "1"},
    },
    "libx265": {
        "broadcast": {"crf": "16", "preset": "medium"},
        "web": {"crf": "22", "preset": "fast"},
        "live": {"crf": "25", "preset": "ultrafast", "tune": "zerolatency", "forced-idr": "1"},
    },
    "libsvtav1": {
        "broadcast": {"crf": "20", "preset": "6"},
        "web": {"crf": "30", "preset": "8"},
        "live": {"crf": "35", "preset": "10"},
    },
}
NVENC = ("h264_nvenc", "hevc_nvenc", "av1_nvenc")
_NV12 = ("libx264", *NVENC)
"""The others take planar chroma, which PyAV makes of NV12."""
ENCODERS = ("auto", *_SETTINGS)
_AUTO = ("h264_nvenc", "libx264")  # H.264 plays everywhere
_KEYFRAME_SECONDS = {"broadcast": 2, "web": 2, "live": 1}
_LARGEST_SIDE = 8192
_LARGEST_RATE = 240
_LARGEST_DENOMINATOR = 10_000
_CRF = (1, 51)
"""0 means lossless to x264, automatic to NVENC, and nothing to SVT-AV1."""
_BITRATES = range(50_000, 500_000_001)


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
        crf: constant quality in place of the quality word's own, 1 (best) to 51; NVENC calls it CQ.
        bitrate: bits a second to keep to in place of a constant quality, 50 thousand to 500 million.
    """

    encoder: str = "auto"
    quality: str = "web"
    fps: Fraction = Fraction(25)
    crf: float | None = None
    bitrate: int | None = None

    def __post_init__(self) -> None:
        """Checks the words and the rate.

        Raises:
            InvalidValueError: a word is unknown, a number out of range, or quality and bit rate are both given.
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
        if self.crf is not None and not _CRF[0] <= self.crf <= _CRF[1]:
            raise InvalidValueError(f"crf {self.crf}", remedy=f"choose {_CRF[0]} to {_CRF[1]}")
        if self.bitrate is not None and self.bitrate not in _BITRATES:
            raise InvalidValueError(
                f"{self.bitrate} bits a second", remedy=f"choose {_BITRATES.start} to {_BITRATES.stop - 1}"
            )
        if self.crf is not None and self.bitrate is not None:
            raise InvalidValueError(f"crf {self.crf} and {self.bitrate} bits a second", remedy="give one of them")


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
    if name == "libsvtav1":
        os.environ.setdefault("SVT_LOG", "1")  # errors only; else it tells of itself each time that it opens
    context.height, context.width = size
    context.pix_fmt = "nv12" if name in _NV12 else "yuv420p"
    context.framerate = options.fps
    context.time_base = 1 / options.fps
    context.gop_size = key_frame_distance(options)
    tag_colours(context)
    context.options = encoder_settings(name, options)
    if options.bitrate is not None:
        context.bit_rate = options.bitrate
    if name in ("libx265", "hevc_nvenc"):
        context.codec_tag = "hvc1"  # with ffmpeg's own choice, hev1, Apple's players show nothing


def tag_colours(target: VideoCodecContext | VideoFrame) -> None:
    """Writes into a stream or a frame what its colours mean: BT.709, TV range."""
    target.colorspace, target.color_range = Colorspace.ITU709, ColorRange.MPEG
    target.color_primaries, target.color_trc = ColorPrimaries.BT709, ColorTrc.BT709


def key_frame_distance(options: EncoderOptions) -> int:
    """Frames from one key frame to the next."""
    return max(1, round(options.fps * _KEYFRAME_SECONDS[options.quality]))


def encoder_settings(name: str, options: EncoderOptions) -> dict[str, str]:
    """FFmpeg's options of an encoder, without those that every encoder has."""
    settings = {**_SETTINGS[name][options.quality], "chroma_sample_location": "left"}
    constant = "cq" if name in NVENC else "crf"
    if options.crf is not None:
        settings[constant] = f"{options.crf:g}"
    if options.bitrate is not None:
        del settings[constant]
        if name != "libsvtav1":  # which knows no upper limit beside a target
            settings |= {"maxrate": str(options.bitrate), "bufsize": str(options.bitrate)}
    if name in NVENC:
        settings["rc"] = "vbr"
    if name == "libx265":
        settings["x265-params"] = "log-level=none:open-gop=0"
    if name == "libx264" and torch.backends.cpu.get_cpu_capability() == "AVX512":
        # x264's AVX-512 code for mb-tree now and then encodes the same frames differently
        settings["x264-params"] = "asm=avx2"
    return settings
