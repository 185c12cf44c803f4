"""Video files: picture and sound in step, all channels, whole or not at all. Files are written and read for real."""

from __future__ import annotations

import json
import resource
import shutil
import struct
import subprocess
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ditto_core.errors import DittoError, FileError, InvalidValueError
from ditto_core.speech import Sound
from ditto_core.video import EncoderError, EncoderOptions, VideoWriteError, video_file

SIZE = (64, 96)
PAL, NTSC = Fraction(25), Fraction(30000, 1001)
GREY = np.full((*SIZE, 3), 128, np.uint8)
NOISE = np.random.default_rng(0).integers(0, 256, (80, *SIZE, 3), dtype=np.uint8)


def options(fps: Fraction = PAL, quality: str = "web") -> EncoderOptions:
    return EncoderOptions(encoder="libx264", quality=quality, fps=fps)


def silence(seconds: float, rate: int = 16000, channels: int = 1) -> Sound:
    return Sound(np.zeros((channels, round(seconds * rate)), np.float32), rate)


def decoded_sound(path: Path) -> tuple[NDArray[np.float32], Fraction]:
    """(channels, n) at 48 kHz, and the time of the first sample."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        assert stream.rate == 48000
        interleave = av.AudioResampler("flt")
        frames = [part for frame in container.decode(stream) for part in interleave.resample(frame)]
        channels = stream.layout.nb_channels
    samples = np.concatenate([frame.to_ndarray().reshape(-1, channels) for frame in frames])
    return samples.T, frames[0].pts * frames[0].time_base


def durations(path: Path) -> tuple[Fraction, Fraction]:
    """Length of picture and sound as the container states them."""
    with av.open(str(path)) as container:
        streams = container.streams.video[0], container.streams.audio[0]
        assert all(stream.start_time == 0 for stream in streams)
        video, audio = (stream.duration * stream.time_base for stream in streams)
    return video, audio


@pytest.mark.parametrize(
    ("rate", "channels", "fps", "quality"),
    [
        (16000, 1, PAL, "web"),
        (24000, 1, PAL, "live"),
        (44100, 2, NTSC, "web"),
        (48000, 6, PAL, "broadcast"),
        (11025, 1, NTSC, "live"),
        (96000, 2, PAL, "web"),
    ],
)
def test_clicks_and_flashes_stay_together(
    rate: int, channels: int, fps: Fraction, quality: str, tmp_path: Path
) -> None:
    """Read back within half a frame of each other, at the start, in the middle and at the end."""
    frames, flashes = 60, (2, 29, 57)
    samples = np.zeros((channels, round(frames / fps * rate)), np.float32)
    pictures = np.zeros((frames, *SIZE, 3), np.uint8)
    for flash in flashes:
        start = round(flash / fps * rate)
        samples[:, start : start + rate // 500] = 0.8
        pictures[flash] = 255
    path = tmp_path / "a.mp4"
    with video_file(path, size=SIZE, sound=Sound(samples, rate), options=options(fps, quality)) as writer:
        writer.write(torch.from_numpy(pictures))
    with av.open(str(path)) as container:
        seen = [
            frame.pts * frame.time_base
            for frame in container.decode(video=0)
            if frame.to_ndarray(format="gray").mean() > 128
        ]
    assert seen == [flash / fps for flash in flashes]
    sound, start = decoded_sound(path)
    loud = np.abs(sound[0])
    for time in seen:
        around = slice(max(0, round((time - start) * 48000) - 4800), round((time - start) * 48000) + 4800)
        heard = (around.start + int(np.argmax(loud[around] > 0.3))) / 48000 + start
        assert loud[around].max() > 0.3
        assert abs(heard - time) < 0.5 / fps


@pytest.mark.parametrize("seconds", [0.03, 0.5, 1.0, 1.013, 7.0])
def test_picture_and_sound_are_equally_long(seconds: float, tmp_path: Path) -> None:
    """To a millisecond, whether the sound ends before or after the picture's 1.0 s."""
    path = tmp_path / "a.mp4"
    with video_file(path, size=SIZE, sound=silence(seconds), options=options()) as writer:
        for _ in range(25):
            writer.write(GREY)
        assert writer.duration == 1
    video, audio = durations(path)
    assert video == 1
    assert abs(audio - video) < Fraction(1, 1000)


def test_one_frame_and_a_long_file(tmp_path: Path) -> None:
    for frames in (1, 25 * 60):
        path = tmp_path / f"{frames}.mp4"
        sound = silence(frames / 25 - 0.01, rate=44100)
        with video_file(path, size=(16, 16), sound=sound, options=options(quality="live")) as writer:
            for _ in range(frames):
                writer.write(GREY[:16, :16])
        video, audio = durations(path)
        assert video == Fraction(frames, 25)
        assert abs(audio - video) < Fraction(1, 1000)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 8])
def test_all_channels_and_all_frequencies_come_through(channels: int, tmp_path: Path) -> None:
    """Each channel keeps its own tone, up to 12 kHz: what the 16 kHz analysis signal could not hold."""
    time = np.arange(48000) / 48000
    tones = [12000 if channel == 0 else 400 * (channel + 1) for channel in range(channels)]
    if channels in (6, 8):
        tones[3] = 60  # the effects channel is for low notes only
    samples = np.stack([0.3 * np.sin(2 * np.pi * tone * time) for tone in tones]).astype(np.float32)
    path = tmp_path / "a.mp4"
    with video_file(path, size=SIZE, sound=Sound(samples, 48000), options=options()) as writer:
        writer.write(NOISE[:25])
    sound, _ = decoded_sound(path)
    assert len(sound) == channels
    for channel, tone in zip(sound, tones, strict=True):
        part = channel[4800:38400] * np.hanning(33600)
        peak = np.abs(np.fft.rfft(part)).argmax() * 48000 / 33600
        assert abs(peak - tone) < 3
        assert np.sqrt(np.mean(channel[4800:38400] ** 2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.1)


def test_without_sound(tmp_path: Path) -> None:
    with video_file(tmp_path / "a.mp4", size=SIZE, options=options(NTSC)) as writer:
        writer.write(NOISE[:10])
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert not container.streams.audio
        assert container.streams.video[0].average_rate == NTSC
        assert [frame.pts * frame.time_base for frame in container.decode(video=0)] == [i / NTSC for i in range(10)]


def test_index_first_and_sound_beside_the_picture(tmp_path: Path) -> None:
    """A browser can start before the end has arrived, and a player need not seek for the sound."""
    path = tmp_path / "a.mp4"
    with video_file(path, size=SIZE, sound=silence(3.2), options=options()) as writer:
        writer.write(NOISE)
    data, position, boxes = path.read_bytes(), 0, []
    while position < len(data):
        length, kind = struct.unpack(">I4s", data[position : position + 8])
        boxes.append(kind)
        position += length
    assert boxes.index(b"moov") < boxes.index(b"mdat")
    with av.open(str(path)) as container:
        packets = sorted((p for p in container.demux() if p.size), key=lambda packet: packet.pos)
        latest = {"video": 0.0, "audio": 0.0}
        for packet in packets:
            latest[packet.stream.type] = float(packet.dts * packet.time_base)
            assert abs(latest["video"] - latest["audio"]) < 0.5


def test_metadata_under_any_name(tmp_path: Path) -> None:
    workflow = json.dumps({"nodes": [1, 2], "text": 'ü\n"quoted"'})
    texts = {"title": "News", "workflow": workflow, "prompt": "x" * 50_000}
    with video_file(tmp_path / "a.mp4", size=SIZE, options=options(), metadata=texts) as writer:
        writer.write(GREY)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert {name: container.metadata[name] for name in texts} == texts


def test_same_frames_twice_give_the_same_pictures(tmp_path: Path) -> None:
    decoded = []
    for name in ("a.mp4", "b.mp4"):
        with video_file(tmp_path / name, size=SIZE, sound=silence(2), options=options()) as writer:
            writer.write(NOISE[:30])
            writer.write(NOISE[30:40])
        with av.open(str(tmp_path / name)) as container:
            decoded.append([frame.to_ndarray() for frame in container.decode(video=0)])
    assert np.array_equal(*decoded)


def test_report(tmp_path: Path) -> None:
    with video_file(tmp_path / "a.mp4", size=SIZE, options=options()) as writer:
        assert writer.first_packet_at is None
        writer.write(NOISE[:50])
    assert writer.first_packet_at is not None
    in_place = int(av.__version__.partition(".")[0]) >= 18
    way = "NV12 in memory" if in_place else "NV12 in memory, copied (PyAV 18 needs no copy)"
    copied = 0 if in_place else NOISE[:50].nbytes // 2
    assert writer.report() == {
        "encoder": "libx264",
        "executed_by": "libx264",
        "quality": "web",
        "frames": 50,
        "fps": "25",
        "resampled": None,
        "duration_s": 2.0,
        "input": way,
        "bytes_copied": copied,
    }


class Cancelled(Exception):
    """What a driver raises when the user cancels."""


@pytest.mark.parametrize("stop", [Cancelled, KeyboardInterrupt, MemoryError])
def test_a_stop_midway_leaves_nothing_and_keeps_the_older_file(stop: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"older")
    with pytest.raises(stop), video_file(path, size=SIZE, sound=silence(3), options=options()) as writer:
        writer.write(NOISE[:60])
        raise stop
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"older"


@pytest.mark.parametrize(("name", "fragmented"), [("a.mp4", False), ("a.mp4", True), ("a.ts", False)])
@pytest.mark.parametrize(("frames", "room"), [(80, 8_000), (4, 8_000), (30, 60_000), (30, 0)])
def test_full_disk(frames: int, room: int, name: str, fragmented: bool, tmp_path: Path) -> None:
    """A limit on the file's size makes real writes fail, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with (
            pytest.raises(VideoWriteError, match=rf"{name}: could not be written.*room"),
            video_file(
                tmp_path / name, size=SIZE, sound=silence(3), options=options(), fragmented=fragmented
            ) as writer,
        ):
            writer.write(NOISE[:frames])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_a_name_that_no_folder_has_room_for(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="too long"), video_file(tmp_path / ("a" * 300 + ".mp4"), size=SIZE):
        pass


def test_text_that_no_file_can_hold(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="metadata 'title'"):
        with video_file(tmp_path / "a.mp4", size=SIZE, options=options(), metadata={"title": "a\ud800"}) as writer:
            writer.write(GREY)
    assert not list(tmp_path.iterdir())


def test_missing_folder_and_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="can't be written"), video_file(tmp_path / "no" / "a.mp4", size=SIZE):
        pass
    (tmp_path / "b.mp4").mkdir()
    with pytest.raises(FileError, match="is a folder"), video_file(tmp_path / "b.mp4", size=SIZE):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.mp4"]


@pytest.mark.parametrize(
    ("name", "size", "sound", "problem"),
    [
        ("a.mp4", (63, 96), None, "96x63"),
        ("a.mp4", (64, 95), None, "95x64"),
        ("a.mp4", (64, 100_000), None, "100000x64"),
        ("a.mkv", SIZE, None, "a.mkv"),
        ("a.mp4", SIZE, silence(1, channels=7), "7 channels"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_written(
    name: str, size: tuple[int, int], sound: Sound | None, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValueError, match=problem), video_file(tmp_path / name, size=size, sound=sound):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "pictures", [np.zeros((64, 98, 3), np.uint8), np.zeros((*SIZE, 3), np.float32), np.zeros((*SIZE, 4), np.uint8)]
)
def test_frames_of_another_kind(pictures: NDArray[np.generic], tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidValueError, match="frames of shape"),
        video_file(tmp_path / "a.mp4", size=SIZE, options=options()) as writer,
    ):
        writer.write(pictures)
    assert not list(tmp_path.iterdir())


def test_no_frame_at_all(tmp_path: Path) -> None:
    with pytest.raises(VideoWriteError, match="no frame"), video_file(tmp_path / "a.mp4", size=SIZE):
        pass
    assert not list(tmp_path.iterdir())


def test_an_encoder_that_does_not_open_leaves_nothing(tmp_path: Path) -> None:
    strict = EncoderOptions(encoder="h264_nvenc")
    with pytest.raises(DittoError) as caught, video_file(tmp_path / "a.mp4", size=(32, 32), options=strict):
        pass  # NVENC takes no frames as small as this, where there is one
    assert isinstance(caught.value, EncoderError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["http: a.mp4", "%03d.mp4", "-y.mp4", "ü ß 漢.mp4", "a.MP4"])
def test_names_that_could_read_as_something_else(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with video_file(name, size=SIZE, options=options()) as writer:
        writer.write(GREY)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed")
def test_ffprobe_agrees(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with video_file(path, size=SIZE, sound=silence(2, 44100, 2), options=options()) as writer:
        writer.write(NOISE[:50])
    command = ["ffprobe", "-v", "error", "-count_frames", "-show_streams", "-of", "json", str(path)]
    video, audio = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["streams"]
    assert (video["codec_name"], video["nb_read_frames"], video["r_frame_rate"]) == ("h264", "50", "25/1")
    assert (video["color_space"], video["color_range"], video["pix_fmt"]) == ("bt709", "tv", "yuv420p")
    assert (audio["codec_name"], audio["sample_rate"], audio["channels"]) == ("aac", "48000", 2)
    assert float(audio["duration"]) == pytest.approx(float(video["duration"]), abs=0.001)
    assert float(audio["start_time"]) == float(video["start_time"]) == 0
