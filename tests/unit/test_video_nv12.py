"""NV12 frames, rates and containers: what is written is what is read. The codecs and files are the real ones."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ditto_core.errors import FileError, InvalidValueError
from ditto_core.render import nv12_planes, rgb_to_nv12
from ditto_core.speech import Sound
from ditto_core.video import (
    ENCODERS,
    FRAGMENTED_MP4,
    TS,
    EncoderError,
    EncoderOptions,
    choose_encoder,
    video_file,
    video_stream,
)
from ditto_core.video.containers import Container

SIZE = (64, 96)
PAL, NTSC = Fraction(25), Fraction(30000, 1001)
NEARLY_LOSSLESS = EncoderOptions(encoder="libx264", quality="live", crf=1)


def noise(count: int) -> Tensor:
    return torch.randint(0, 256, (count, *SIZE, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def decoded_planes(path: Path | io.BytesIO) -> list[tuple[NDArray[np.uint8], ...]]:
    """Y (H, W), U and V (H / 2, W / 2) of each frame, as the stream holds them."""
    with av.open(path if isinstance(path, io.BytesIO) else str(path)) as container:
        return [
            tuple(np.frombuffer(p, np.uint8).reshape(p.height, p.line_size)[:, : p.width] for p in frame.planes)
            for frame in container.decode(video=0)
        ]


@pytest.mark.parametrize("form", ["nv12", "rgb"])
def test_every_sample_of_nv12_arrives(form: str, tmp_path: Path) -> None:
    """With next to no loss in the encoder the stream holds the planes that were made, no row or column moved."""
    rgb = noise(7)
    planes = rgb_to_nv12(rgb)
    with video_file(tmp_path / "a.mp4", size=SIZE, options=NEARLY_LOSSLESS) as writer:
        if form == "nv12":
            writer.write_nv12(planes[:3])
            writer.write_nv12(planes[3:])
        else:
            writer.write(rgb)
    read = decoded_planes(tmp_path / "a.mp4")
    assert len(read) == 7
    for (y, u, v), luma, chroma in zip(read, *nv12_planes(planes), strict=True):
        assert np.abs(y.astype(int) - luma.numpy()).max() <= 2
        assert np.abs(np.stack([u, v], -1).astype(int) - chroma.numpy()).max() <= 2


def test_chroma_lies_on_the_left_column(tmp_path: Path) -> None:
    """As H.264 means it where a stream says nothing: a blue line on an even column colours one sample alone."""
    pictures = torch.zeros(2, *SIZE, 3, dtype=torch.uint8)
    pictures[0, :, 40, 2] = pictures[1, :, 41, 2] = 255
    with video_file(tmp_path / "a.mp4", size=SIZE, options=NEARLY_LOSSLESS) as writer:
        writer.write(pictures)
    even, odd = (u[10, 19:23].astype(int) - 128 for _, u, _ in decoded_planes(tmp_path / "a.mp4"))
    assert even.tolist() == [0, 56, 0, 0]
    assert odd.tolist() == [0, 28, 28, 0]


@pytest.mark.parametrize("name", ["libx265", "libsvtav1"])
def test_encoders_of_planar_chroma_get_the_same_picture(name: str, tmp_path: Path) -> None:
    """U and V are not exchanged, and the tags are right."""
    options = EncoderOptions(encoder=name, quality="live", crf=10)
    try:
        choose_encoder(options, SIZE)
    except EncoderError as error:
        pytest.skip(str(error))
    planes = rgb_to_nv12(torch.tensor([200, 60, 30], dtype=torch.uint8).expand(4, *SIZE, 3))
    with video_file(tmp_path / "a.mp4", size=SIZE, options=options) as writer:
        writer.write_nv12(planes)
    y, u, v = decoded_planes(tmp_path / "a.mp4")[0]
    luma, chroma = nv12_planes(planes[0].int())
    assert abs(y.mean() - luma.float().mean()) < 2
    assert abs(u.mean() - chroma[..., 0].float().mean()) < 2 and abs(v.mean() - chroma[..., 1].float().mean()) < 2
    with av.open(str(tmp_path / "a.mp4")) as container:
        context = container.streams.video[0].codec_context
        next(container.decode(video=0))
        assert (context.colorspace, context.color_range, context.color_primaries, context.color_trc) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "pictures",
    [
        torch.zeros(1, 96, 98, dtype=torch.uint8),
        torch.zeros(1, 64, 96, dtype=torch.uint8),
        torch.zeros(96, 96, dtype=torch.uint8),
        torch.zeros(1, 96, 96),
    ],
)
def test_nv12_of_another_shape(pictures: Tensor, tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidValueError, match="frames of shape"),
        video_file(tmp_path / "a.mp4", size=SIZE, options=NEARLY_LOSSLESS) as writer,
    ):
        writer.write_nv12(pictures)
    assert not list(tmp_path.iterdir())


def test_quality_number_and_bit_rate_are_obeyed(tmp_path: Path) -> None:
    pictures, sizes = noise(50), {}
    for label, setting in {"crf 10": {"crf": 10}, "crf 45": {"crf": 45}, "rate": {"bitrate": 200_000}}.items():
        options = EncoderOptions(encoder="libx264", **setting)  # type: ignore[arg-type]
        with video_file(tmp_path / "a.mp4", size=SIZE, options=options) as writer:
            writer.write(pictures)
        sizes[label] = (tmp_path / "a.mp4").stat().st_size
    assert sizes["crf 10"] > 3 * sizes["crf 45"]
    assert 0.5 < sizes["rate"] * 8 / 2 / 200_000 < 1.5


@pytest.mark.parametrize("name", ENCODERS[1:])
def test_a_lower_number_is_a_better_picture(name: str, tmp_path: Path) -> None:
    pictures, sizes = noise(10), []
    pictures = pictures.repeat_interleave(4, 1).repeat_interleave(4, 2)
    for crf in (1, 12, 30, 51):
        options = EncoderOptions(encoder=name, crf=crf)
        try:
            choose_encoder(options, pictures.shape[1:3])
        except EncoderError as error:
            pytest.skip(str(error))
        with video_file(tmp_path / "a.mp4", size=pictures.shape[1:3], options=options) as writer:
            writer.write(pictures)
        sizes.append((tmp_path / "a.mp4").stat().st_size)
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 4


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"crf": 52}, "crf 52"),
        ({"crf": 0}, "crf 0"),
        ({"crf": math.nan}, "crf nan"),
        ({"bitrate": 1000}, "1000 bits"),
        ({"crf": 20, "bitrate": 10**6}, "crf 20 and 1000000 bits"),
    ],
)
def test_numbers_out_of_range(setting: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        EncoderOptions(**setting)


@pytest.mark.parametrize("name", ["a.mp4", "fragmented.mp4", "a.ts"])
def test_clicks_and_flashes_stay_together_in_another_rate(name: str, tmp_path: Path) -> None:
    """Motion at 25, shown at 29.97: within half a source frame, in every container."""
    flashes, rate, path = (2, 40, 70), 44100, tmp_path / name
    samples, pictures = np.zeros((1, 3 * rate), np.float32), torch.zeros(75, *SIZE, 3, dtype=torch.uint8)
    for flash in flashes:
        samples[:, round(flash / 25 * rate) :][:, : rate // 500] = 0.8
        pictures[flash] = 255
    options = EncoderOptions(encoder="libx264", fps=NTSC)
    fragmented = name.startswith("fragmented")
    with video_file(
        path, size=SIZE, sound=Sound(samples, rate), options=options, source_fps=PAL, fragmented=fragmented
    ) as writer:
        writer.write(pictures)
    report = writer.report()
    assert (report["frames"], report["resampled"]) == (90, "nearest of 25 frames a second")
    with av.open(str(path)) as container:
        bright = [f.pts * f.time_base for f in container.decode(video=0) if f.to_ndarray(format="gray").mean() > 128]
    with av.open(str(path)) as container:
        frames = list(container.decode(audio=0))
        start = frames[0].pts * frames[0].time_base
        sound = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    seen = [time for i, time in enumerate(bright) if i == 0 or time - bright[i - 1] > Fraction(1, 10)]
    loud = np.flatnonzero(np.abs(sound) > 0.3) / 48000 + float(start)
    heard = [time for i, time in enumerate(loud) if i == 0 or time - loud[i - 1] > 0.1]
    assert len(seen) == len(heard) == 3
    assert all(abs(a - b) <= 0.02 + 0.002 for a, b in zip(seen, heard, strict=True))


def test_a_fragmented_file_plays_as_far_as_it_has_come(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    options = EncoderOptions(encoder="libx264", quality="live")
    with video_file(
        path, size=SIZE, sound=Sound(np.zeros((1, 48000), np.float32), 16000), options=options, fragmented=True
    ) as w:
        w.write(noise(75))
    whole = path.read_bytes()
    assert whole.count(b"moof") == 3
    third = whole.rindex(b"moof") - 4  # where the box's length stands
    assert len(decoded_planes(io.BytesIO(whole[:third]))) == 50


class Socket:
    """Takes bytes in order and can't go back, like a socket."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


@pytest.mark.parametrize("container", [FRAGMENTED_MP4, TS], ids=["mp4", "ts"])
def test_a_stream_arrives_while_it_is_made(container: Container) -> None:
    target, options = Socket(), EncoderOptions(encoder="libx264", quality="live")
    sound = Sound(np.zeros((1, 48000), np.float32), 16000)
    with video_stream(target, size=SIZE, sound=sound, options=options, container=container) as writer:  # type: ignore[arg-type]
        writer.write(noise(60))
        early = len(target.data)
    assert early > len(target.data) / 3
    assert len(decoded_planes(io.BytesIO(target.data))) == 60


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("a.avi", {}, "a.avi"),
        ("a.ts", {"fragmented": True}, "fragments"),
        ("a.ts", {"metadata": {"title": "x"}}, "metadata"),
        ("a.ts", {"options": EncoderOptions(encoder="libsvtav1")}, "libsvtav1"),
    ],
)
def test_what_a_container_can_not_hold(name: str, arguments: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with (
        pytest.raises((InvalidValueError, EncoderError), match=problem),
        video_file(tmp_path / name, size=SIZE, **arguments),
    ):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no folder that nobody can write to")
def test_a_folder_that_can_not_be_written() -> None:
    with pytest.raises(FileError, match="can't be written"), video_file("/proc/self/a.mp4", size=SIZE):
        pass


@pytest.mark.long
@pytest.mark.parametrize("fps", [PAL, NTSC])
@pytest.mark.parametrize("name", ["a.mp4", "a.ts"])
def test_ten_minutes_stay_together(name: str, fps: Fraction, tmp_path: Path) -> None:
    """A click and a flash at the start and in the last second: at most half a frame apart; equally long."""
    seconds, rate, size, path = 600, 44100, (16, 16), tmp_path / name
    samples, moments = np.zeros((1, seconds * rate + 7), np.float32), (1, 599)
    for moment in moments:
        samples[:, moment * rate : moment * rate + 88] = 0.8
    dark, light = (torch.full((1, 16, 16, 3), value, dtype=torch.uint8) for value in (0, 255))
    options = EncoderOptions(encoder="libx264", quality="live", fps=fps)
    with video_file(path, size=size, sound=Sound(samples, rate), options=options, source_fps=PAL) as writer:
        for i in range(seconds * 25):
            writer.write(light if i in (25, 599 * 25) else dark)
    with av.open(str(path)) as container:
        times = [(f.pts * f.time_base, f.to_ndarray(format="gray").mean()) for f in container.decode(video=0)]
    with av.open(str(path)) as container:
        frames = list(container.decode(audio=0))
    sound = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    start = frames[0].pts * frames[0].time_base
    seen = [time for i, (time, level) in enumerate(times) if level > 128 and times[i - 1][1] < 128]
    loud = np.flatnonzero(np.abs(sound) > 0.3) / 48000 + float(start)
    heard = [loud[0], next(time for time in loud if time > 300)]
    assert all(abs(a - b) <= 0.5 / fps for a, b in zip(seen, heard, strict=True))
    end_of_picture, end_of_sound = times[-1][0] + 1 / fps, start + Fraction(len(sound), 48000)
    assert abs(end_of_picture - end_of_sound) <= Fraction(1, 2) / fps
    assert abs(times[0][0] - start) <= Fraction(1, 2) / fps + Fraction(1024, 48000) * (name == "a.ts")
