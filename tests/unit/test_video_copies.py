"""A video's packets go to several places, and are encoded once."""

from __future__ import annotations

import contextlib
import io
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from ditto_core.errors import InvalidValueError
from ditto_core.speech import Sound
from ditto_core.video import GROWING_MP4, TS, EncoderOptions, SinkError, video_file
from ditto_core.video.containers import FLV
from ditto_core.video.sinks import stream_copy

SIZE = (64, 96)
NOISE = np.random.default_rng(0).integers(0, 256, (60, *SIZE, 3), dtype=np.uint8)
SOUND = Sound(np.random.default_rng(0).normal(0, 0.1, (2, 60 * 640)).astype(np.float32), 16000)


def options(quality: str = "web", encoder: str = "libx264", fps: Fraction = Fraction(25)) -> EncoderOptions:
    return EncoderOptions(encoder=encoder, quality=quality, fps=fps)


def write(path: Path, *copies, sound: Sound | None = SOUND, **given) -> None:
    with video_file(path, size=SIZE, sound=sound, options=options(**given), copies=copies) as writer:
        for picture in NOISE:
            writer.write(picture)


def packets(source: Path | io.BytesIO, kind: str) -> list[bytes]:
    if isinstance(source, io.BytesIO):
        source.seek(0)
    with av.open(source if isinstance(source, io.BytesIO) else str(source)) as file:
        return [bytes(packet) for packet in file.demux(**{kind: 0}) if packet.size]


def times(source: Path | io.BytesIO, kind: str) -> list[Fraction]:
    """Of the frames as they are shown, from the first one on."""
    if isinstance(source, io.BytesIO):
        source.seek(0)
    with av.open(source if isinstance(source, io.BytesIO) else str(source)) as file:
        found = [frame.pts * frame.time_base for frame in file.decode(**{kind: 0})]
    return [time - found[0] for time in found]


@pytest.mark.parametrize("quality", ["web", "live"])
def test_a_copy_holds_the_same_packets_and_the_file_is_what_it_was(tmp_path: Path, quality: str) -> None:
    copy = io.BytesIO()
    write(tmp_path / "alone.mp4", quality=quality)
    with stream_copy(copy, container=GROWING_MP4) as opened:
        write(tmp_path / "copied.mp4", opened, quality=quality)
    assert (tmp_path / "copied.mp4").read_bytes() == (tmp_path / "alone.mp4").read_bytes()
    for kind in ("video", "audio"):
        assert packets(copy, kind) == packets(tmp_path / "alone.mp4", kind)
        assert times(copy, kind) == times(tmp_path / "alone.mp4", kind)


@pytest.mark.parametrize("fps", [Fraction(25), Fraction(30000, 1001)])
def test_a_copy_with_a_coarse_clock_leaves_the_next_one_alone(tmp_path: Path, fps: Fraction) -> None:
    coarse, fine = io.BytesIO(), io.BytesIO()
    with stream_copy(coarse, container=FLV) as first, stream_copy(fine, container=GROWING_MP4) as second:
        write(tmp_path / "file.mp4", first, second, fps=fps)
    assert times(fine, "video") == times(tmp_path / "file.mp4", "video")
    assert len(times(coarse, "video")) == len(times(fine, "video"))


@pytest.mark.parametrize("container", [TS, FLV])
def test_other_formats_play(tmp_path: Path, container) -> None:
    copy = io.BytesIO()
    with stream_copy(copy, container=container) as opened:
        write(tmp_path / "file.mp4", opened)
    assert len(times(copy, "video")) == 60
    assert len(times(copy, "audio")) in range(112, 117)


def test_what_is_there_plays_while_the_rest_is_still_made(tmp_path: Path) -> None:
    copy, shown = io.BytesIO(), []
    with (
        stream_copy(copy, container=GROWING_MP4) as opened,
        video_file(tmp_path / "f.mp4", size=SIZE, sound=SOUND, options=options("live"), copies=[opened]) as writer,
    ):
        for picture in NOISE[:50]:
            writer.write(picture)
            with contextlib.suppress(av.FFmpegError):
                shown.append(len(times(io.BytesIO(copy.getvalue()), "video")))
    assert shown[12] >= 5 and shown[-1] >= 40, "a fragment each 0.2 s, long before the next key frame"


@pytest.mark.parametrize(
    ("quality", "sound", "expected"),
    [
        ("web", SOUND, 'video/mp4; codecs="avc1.64000a, mp4a.40.2"'),
        ("live", None, 'video/mp4; codecs="avc1.42c00a"'),
    ],
)
def test_a_browser_is_told_what_the_file_says(tmp_path: Path, quality: str, sound, expected: str) -> None:
    copy, told = io.BytesIO(), []
    with stream_copy(copy, container=GROWING_MP4, begun=lambda kind: told.append((kind, copy.tell()))) as opened:
        write(tmp_path / "file.mp4", opened, quality=quality, sound=sound)
    assert told == [(expected, 0)], "once, and before the first byte"
    box = copy.getvalue().index(b"avcC") + 4
    assert copy.getvalue()[box + 1 : box + 4].hex() == expected.split("avc1.")[1][:6]


def test_other_pictures_than_h264_have_no_name_for_browsers(tmp_path: Path) -> None:
    told = []
    with stream_copy(io.BytesIO(), begun=told.append) as opened:
        write(tmp_path / "file.mp4", opened, encoder="libx265")
    assert told == [None]


class Full(io.BytesIO):
    name = "disk"

    def write(self, data) -> int:
        if self.tell() > 100_000:
            raise OSError("no room")
        return super().write(data)


def test_a_copy_that_breaks_ends_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(SinkError, match="disk: broke after [0-9]+ bytes .OSError: no room"),
        stream_copy(Full()) as opened,
    ):
        write(tmp_path / "file.mp4", opened)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_may_break_leaves_the_file(tmp_path: Path) -> None:
    write(tmp_path / "alone.mp4")
    with stream_copy(Full(), may_break=True) as opened:
        write(tmp_path / "file.mp4", opened)
    assert "disk: broke after" in str(opened.problem)
    assert packets(tmp_path / "file.mp4", "video") == packets(tmp_path / "alone.mp4", "video")
    with pytest.raises(SinkError), stream_copy("tcp://127.0.0.1:9", may_break=True) as opened:
        write(tmp_path / "never.mp4", opened)
    assert not (tmp_path / "never.mp4").exists()


@pytest.mark.parametrize("ending", ["ts", "mp4"])
def test_an_error_in_a_copy_s_last_bytes_is_told(tmp_path: Path, ending: str) -> None:
    """On a full disk, all but the last bytes of a copy may have had room."""
    whole = tmp_path / f"whole.{ending}"
    with stream_copy(str(whole)) as opened:
        write(tmp_path / "file.mp4", opened)
    written = [0]

    def take(data: bytes) -> None:
        written[0] += len(data)
        if written[0] >= whole.stat().st_size:
            raise OSError("no room")

    take.name = f"a.{ending}"  # type: ignore[attr-defined]
    with pytest.raises(SinkError, match="no room"):
        with stream_copy(take, container=TS if ending == "ts" else None) as opened:
            write(tmp_path / "file.mp4", opened)


def test_nobody_listens_and_the_key_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"tcp://127.0.0.1:9: could not be written") as caught:
        with stream_copy("tcp://127.0.0.1:9?key=hunter2") as opened:
            write(tmp_path / "file.mp4", opened)
    assert "hunter2" not in str(caught.value) and caught.value.__suppress_context__
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_the_copy_has_no_place_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="libx265 in an flv file"):
        with stream_copy(io.BytesIO(), container=FLV) as opened:
            write(tmp_path / "file.mp4", opened, encoder="libx265")
    assert list(tmp_path.iterdir()) == []
