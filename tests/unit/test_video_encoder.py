"""Choosing and setting encoders, and colours. The codecs are the real ones."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from ditto_core.errors import InvalidValueError
from ditto_core.video import ENCODERS, QUALITIES, EncoderError, EncoderOptions, choose_encoder, video_file
from ditto_core.video.encoder import NVENC, encoder_settings, key_frame_distance

SIZE = (128, 192)
NAMES = ENCODERS[1:]


def opens(name: str) -> bool:
    try:
        choose_encoder(EncoderOptions(encoder=name), SIZE)
    except EncoderError:
        return False
    return True


def moving_pictures(count: int) -> NDArray[np.uint8]:
    """Smooth colours that drift."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]] / 40
    frames = [np.stack([np.sin(x + i / 5), np.sin(y - i / 7), np.cos(x + y + i / 9)], -1) for i in range(count)]
    return (128 + 90 * np.stack(frames)).astype(np.uint8)


def decode(path: Path) -> list[av.VideoFrame]:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


def to_rgb(frame: av.VideoFrame) -> NDArray[np.float64]:
    """Decodes BT.709 TV range by hand, so that no tag can help; nearest chroma."""
    y, u, v = (
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width].astype(np.float64)
        for plane in frame.planes
    )
    y, blue, red = (y - 16) / 219, *((np.kron(c, np.ones((2, 2))) - 128) / 224 for c in (u, v))
    r, b = y + 1.5748 * red, y + 1.8556 * blue
    g = (y - 0.2126 * r - 0.0722 * b) / 0.7152
    return np.stack([r, g, b], -1) * 255


def test_auto_takes_the_first_that_opens_and_says_why() -> None:
    choice = choose_encoder(EncoderOptions(), SIZE)
    if opens("h264_nvenc"):
        assert choice.name == choice.executed_by == "h264_nvenc"
    else:
        assert choice.name == "libx264"
        assert choice.executed_by.startswith("libx264; h264_nvenc did not open (")


def test_nvenc_refuses_tiny_frames_so_that_auto_falls_back() -> None:
    assert choose_encoder(EncoderOptions(), (32, 32)).name == "libx264"


@pytest.mark.parametrize("name", NAMES)
def test_a_strict_choice_runs_or_raises(name: str, tmp_path: Path) -> None:
    options = EncoderOptions(encoder=name, quality="live")
    if not opens(name):
        with pytest.raises(EncoderError, match=name) as caught:
            choose_encoder(options, SIZE)
        assert caught.value.encoder == name
        return
    pictures = moving_pictures(6)
    with video_file(tmp_path / "a.mp4", size=SIZE, options=options) as writer:
        writer.write(pictures)
    frames = decode(tmp_path / "a.mp4")
    assert len(frames) == 6
    for frame, picture in zip(frames, pictures, strict=True):
        assert np.abs(to_rgb(frame) - picture).mean() < 8


@pytest.mark.parametrize("quality", QUALITIES)
def test_every_quality_word_encodes_well(quality: str, tmp_path: Path) -> None:
    """Luma PSNR above 40 dB, above 45 dB at broadcast."""
    pictures = moving_pictures(30)
    options = EncoderOptions(encoder="libx264", quality=quality)
    with video_file(tmp_path / "a.mp4", size=SIZE, options=options) as writer:
        writer.write(pictures)
    weights = np.array([0.2126, 0.7152, 0.0722])
    errors = [
        (frame.to_ndarray()[: SIZE[0]] - (16 + 219 / 255 * (picture @ weights)))
        for frame, picture in zip(decode(tmp_path / "a.mp4"), pictures, strict=True)
    ]
    psnr = 10 * np.log10(255**2 / np.square(errors).mean())
    assert psnr > (45 if quality == "broadcast" else 40)


def test_live_has_no_reordering_and_a_key_frame_each_second(tmp_path: Path) -> None:
    options = EncoderOptions(encoder="libx264", quality="live")
    with video_file(tmp_path / "a.mp4", size=SIZE, options=options) as writer:
        writer.write(moving_pictures(1))
        assert writer.first_packet_at is not None  # no frame is held back
        writer.write(moving_pictures(59))
    with av.open(str(tmp_path / "a.mp4")) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    assert [packet.pts for packet in packets] == [packet.dts for packet in packets]
    assert [i for i, packet in enumerate(packets) if packet.is_keyframe] == [0, 25, 50]


@pytest.mark.parametrize("colour", [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (200, 150, 120)])
def test_colours_are_bt709_in_tv_range_and_tagged(colour: tuple[int, int, int], tmp_path: Path) -> None:
    """Within 2 grey levels of the RGB that was written, decoded by hand."""
    with video_file(tmp_path / "a.mp4", size=SIZE, options=EncoderOptions(quality="broadcast")) as writer:
        writer.write(np.broadcast_to(np.array(colour, np.uint8), (3, *SIZE, 3)))
    frame = decode(tmp_path / "a.mp4")[1]
    assert np.abs(to_rgb(frame) - colour).max() <= 2
    with av.open(str(tmp_path / "a.mp4")) as container:
        context = container.streams.video[0].codec_context
        next(container.decode(video=0))
        assert (context.colorspace, context.color_range, context.color_primaries, context.color_trc) == (1, 1, 1, 1)
    assert frame.format.name == "yuv420p"


@pytest.mark.parametrize("name", NVENC)
def test_live_on_nvenc_is_of_least_delay(name: str) -> None:
    """The settings of NVIDIA's guide for low latency; a card is not needed to see them."""
    options = EncoderOptions(encoder=name, quality="live", fps=Fraction(30000, 1001))
    wanted = {"preset": "p1", "tune": "ull", "zerolatency": "1", "delay": "0", "bf": "0", "rc-lookahead": "0"}
    closed = {"forced-idr": "1", "strict_gop": "1"}
    settings = encoder_settings(name, options)
    assert wanted.items() | closed.items() <= settings.items()
    assert key_frame_distance(options) == 30


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"encoder": "x264"}, "x264"),
        ({"quality": "best"}, "best"),
        ({"fps": Fraction(0)}, "0 frames"),
        ({"fps": Fraction(1000)}, "1000 frames"),
        ({"fps": 29.97}, "29.97 frames"),  # no exact clock
        ({"fps": Fraction(29.97)}, "frames"),
    ],
)
def test_unknown_words_and_rates(options: dict[str, Any], value: str) -> None:
    with pytest.raises(InvalidValueError, match=value):
        EncoderOptions(**options)
