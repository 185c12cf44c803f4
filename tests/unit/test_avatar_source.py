"""Video sources: any frame in any order, as decoded in a row, in bounded memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from ditto_core.avatar import source
from ditto_core.avatar.source import ImageSource, VideoIndex, VideoSource, is_image
from ditto_core.errors import InvalidValueError
from ditto_core.media import MediaError, open_media

FRAMES = 33
SIZE = (96, 128)


def write_video(
    path: Path,
    frames: int = FRAMES,
    *,
    size: tuple[int, int] = SIZE,
    rate: Fraction = Fraction(25),
    codec: str = "libx264",
    options: dict[str, str] | None = None,
) -> Path:
    """A video of a bright square that moves to the right by one pixel a frame, over noise that differs."""
    noise = np.random.default_rng(0)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.height, stream.width, stream.pix_fmt = *size, "yuv420p"
        for i in range(frames):
            picture = noise.integers(0, 60, (*size, 3), dtype=np.uint8)
            picture[30:50, 10 + i : 30 + i] = 230
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def in_a_row(path: Path) -> list[NDArray[np.uint8]]:
    with open_media(path, "video") as media:
        return list(media.pictures())


def mirrored(n: int, count: int) -> list[int]:
    return [r if t % 2 == 0 else n - 1 - r for t, r in (divmod(i, n) for i in range(count))]


ORDERS: dict[str, Callable[[int], list[int]]] = {
    "forwards": lambda n: list(range(n)),
    "backwards": lambda n: list(range(n))[::-1],
    "mirrored": lambda n: mirrored(n, 3 * n),
    "anywhere": lambda n: np.random.default_rng(1).integers(0, n, 40).tolist(),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "name, options",
    [
        ("gop.mp4", {"g": "10", "bf": "2"}),
        ("one_key.mp4", {"g": "250", "bf": "3"}),
        ("open_gop.mkv", {"x264-params": "keyint=8:min-keyint=8:open-gop=1:bframes=3:scenecut=0"}),
        ("stream.ts", {"g": "12", "bf": "2"}),
        ("intra.mov", {"g": "1"}),
    ],
)
def test_any_order_gives_the_frames_as_decoded_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, str], order: str
) -> None:
    path = write_video(tmp_path / name, options=options)
    expected = in_a_row(path)
    monkeypatch.setattr(source, "CACHE_BYTES", 5 * SIZE[0] * SIZE[1] * 3)  # far less than a group of pictures
    video, size = VideoSource.scan(path)
    assert size == video.size == SIZE
    assert len(video) == len(expected) == FRAMES
    for position in ORDERS[order](FRAMES):
        np.testing.assert_array_equal(video[position], expected[position], err_msg=f"frame {position}")
        assert len(video._cache) <= 5


def test_content_from_memory_reads_like_the_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_video(tmp_path / "a.mp4")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    on_disk, _ = VideoSource.scan(path)
    in_memory = VideoSource(on_disk.content(), index=on_disk.index, size=on_disk.size, fps=on_disk.fps)
    assert in_memory.digest() == on_disk.digest()
    for position in mirrored(FRAMES, 2 * FRAMES):
        np.testing.assert_array_equal(in_memory[position], on_disk[position])
    in_memory.close()
    assert not list(scratch.iterdir())
    np.testing.assert_array_equal(in_memory[3], on_disk[3])  # opens again
    del in_memory
    gc.collect()
    assert not list(scratch.iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files in /proc")
def test_no_file_stays_open(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    before = len(os.listdir("/proc/self/fd"))
    video, _ = VideoSource.scan(path)
    assert video[5] is not None
    video.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("rate", [Fraction(30000, 1001), Fraction(25), Fraction(60)])
def test_own_frame_rate_is_kept(tmp_path: Path, rate: Fraction) -> None:
    video, _ = VideoSource.scan(write_video(tmp_path / "a.mp4", 12, rate=rate))
    assert video.fps == rate


def test_large_and_odd_pictures_are_fitted(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mkv", 3, size=(1100, 2000), codec="mjpeg", options={"strict": "-2"})
    video, size = VideoSource.scan(path)
    assert size == (1100, 2000)
    assert video.size == (1056, 1920)
    assert video[2].shape == (1056, 1920, 3)


def test_only_the_first_frames_are_used_where_asked(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    video, _ = VideoSource.scan(path, frames=7)
    assert len(video) == 7
    np.testing.assert_array_equal(video[6], in_a_row(path)[6])
    with pytest.raises(IndexError):
        video[7]
    assert len(VideoSource.scan(path, frames=FRAMES + 50)[0]) == FRAMES
    with pytest.raises(InvalidValueError, match="0 frames"):
        VideoSource.scan(path, frames=0)


def test_too_long_a_video_is_refused_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(tmp_path / "a.mp4")
    monkeypatch.setattr(source, "MAX_FRAMES", FRAMES - 1)
    with pytest.raises(MediaError, match=f"more than {FRAMES - 1} frames"):
        VideoSource.scan(path)
    monkeypatch.setattr(source, "MAX_FRAMES", FRAMES)
    assert len(VideoSource.scan(path)[0]) == FRAMES


def test_a_file_that_changed_or_went_is_told(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    video, _ = VideoSource.scan(path)
    write_video(path, 10, rate=Fraction(24))
    with pytest.raises(MediaError, match="frame 20 is missing or changed"):
        video[20]
    write_video(path, size=(64, 64))
    with pytest.raises(MediaError, match="size"):
        video[0]
    path.unlink()
    with pytest.raises(MediaError):
        video[1]
    with pytest.raises(MediaError, match="can't be read"):
        video.content()


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    (tmp_path / "cut.mp4").write_bytes(path.read_bytes()[:300])
    (tmp_path / "text.mp4").write_text("hello")
    for name in ("cut.mp4", "text.mp4", "absent.mp4"):
        with pytest.raises(MediaError, match=name):
            VideoSource.scan(tmp_path / name)


def test_index_must_rise() -> None:
    for times, keys in [((), ()), ((1, 1), (True, True)), ((2, 1), (True, False)), ((1, 2), (True,))]:
        with pytest.raises(InvalidValueError):
            VideoIndex(times, keys)
    index = VideoIndex((0, 10, 20, 30), (False, False, True, False))
    assert [index.start_before(i) for i in range(4)] == [0, 0, 2, 2]


def test_image_source_and_kinds_of_file(tmp_path: Path) -> None:
    picture = np.zeros((64, 48, 3), np.uint8)
    image = ImageSource(picture)
    assert (len(image), image.size, image.fps) == (1, (64, 48), None)
    with pytest.raises(IndexError):
        image[1]
    assert image.digest() != ImageSource(picture + 1).digest()
    for name, head in {"a.mp4": b"\x89PNG\r\n", "b": b"RIFF\0\0\0\0WEBP", "c": b"\xff\xd8\xff\xe0"}.items():
        (tmp_path / name).write_bytes(head)
        assert is_image(tmp_path / name)  # by content, whatever the name
    assert not is_image(write_video(tmp_path / "v.png.mp4", 2))
    with pytest.raises(MediaError):
        is_image(tmp_path / "absent")
