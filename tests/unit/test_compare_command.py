"""`python -m ditto_core compare` on real files: planted faults are found and named, and a good copy has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from ditto_core.cli import main
from ditto_core.errors import DittoError
from ditto_core.media import read_image
from ditto_core.quality import FaceTrack, compare_videos
from ditto_core.quality.clips import ClipMeter
from ditto_core.speech import Sound
from ditto_core.video import EncoderOptions, video_file
from ditto_core.video.retime import frame_count, shown_frame

FRAMES, SIDE, RATE = 100, 192, 48000
MOUTH = (80, 110, 112, 138)
FACE = (48, 32, 148, 160)

Pictures = list[np.ndarray]


def opening() -> np.ndarray:
    """Syllables of unequal lengths, 0..1, one value a frame."""
    time = np.arange(FRAMES) / 25
    return np.clip(np.sin(2 * np.pi * (2.1 * time + 0.5 * np.sin(1.7 * time))), 0, 1)


def talk() -> Pictures:
    """A head that sways before a backdrop, and a mouth that opens."""
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    pictures = []
    for i, opened in enumerate(opening()):
        sway = 5 * np.sin(2 * np.pi * (0.35 * i / 25 + 0.1))
        picture = np.stack([60 + 0.3 * y, 90 + 0.2 * x, 150 - 0.2 * y], axis=-1)
        head = ((x - 96 - sway) / 46) ** 2 + ((y - 96) / 60) ** 2 < 1
        texture = 12 * np.sin((x - sway) / 5) * np.sin(y / 6)
        picture[head] = (np.array([210, 160, 130]) + texture[..., None])[head]
        mouth = ((x - 96 - sway) / 13) ** 2 + ((y - 124) / (1 + 11 * opened)) ** 2 < 1
        picture[mouth] = (190, 90, 90) if opened < 0.1 else (45, 15, 20)
        pictures.append(picture.clip(0, 255).astype(np.uint8))
    return pictures


def voice() -> np.ndarray:
    loud = np.interp(np.arange(FRAMES * RATE // 25) * 25 / RATE - 0.5, np.arange(FRAMES), opening())
    noise = np.random.default_rng(0).normal(size=len(loud))
    return (0.2 * loud * noise).clip(-1, 1).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("videos")


def written(path: Path, pictures: Pictures, sound: np.ndarray) -> Path:
    options = EncoderOptions(encoder="libx264", quality="broadcast")
    size = pictures[0].shape[:2]
    with video_file(path, size=size, sound=Sound.from_waveform(sound, RATE), options=options) as writer:
        for first in range(0, len(pictures), 25):
            writer.write(torch.from_numpy(np.stack(pictures[first : first + 25])))
    return path


@pytest.fixture(scope="module")
def reference(folder: Path) -> Path:
    return written(folder / "reference.mp4", talk(), voice())


@pytest.fixture(scope="module")
def track(folder: Path) -> Path:
    left, top, right, bottom = MOUTH
    polygon = [[left, top], [right, top], [right, bottom], [left, bottom]]
    report = {"size": [SIDE, SIDE], "mouth_polygons": [polygon] * FRAMES, "face_boxes": [list(FACE)] * FRAMES}
    path = folder / "render.json"
    path.write_text(json.dumps(report))
    return path


def compared(reference: Path, test: Path, track: Path, *options: str) -> dict:
    report = test.with_suffix(".json")
    arguments = ["compare", str(reference), str(test), "--track", str(track), "--report", str(report), *options]
    assert main(arguments) == 0
    return json.loads(report.read_text(), parse_constant=lambda word: pytest.fail(f"{word} in JSON"))


Change = Callable[[Pictures], Pictures]


def test_with(reference: Path, track: Path, folder: Path, name: str, change: Change) -> dict:
    return compared(reference, written(folder / f"{name}.mp4", change(talk()), voice()), track)


test_with.__test__ = False  # type: ignore[attr-defined]


def test_a_good_copy_has_no_findings(reference, track, folder):
    found = test_with(reference, track, folder, "copy", lambda pictures: pictures)
    assert found["findings"] == [] and found["not_measured"] == {}
    assert found["compared_frames"] == found["reference"]["frames"] == FRAMES
    assert found["pictures"]["psnr_y_db"] > 45 and found["pictures"]["ssim"] > 0.99
    assert found["aperture"]["reference_95th_percentile"] > 300
    assert found["aperture"]["mean_delta_percent"] < 0.5
    assert found["lips_and_sound"]["reference_lag_frames"] == found["lips_and_sound"]["test_lag_frames"] == 0
    assert len(found["per_frame"]["psnr y"]) == FRAMES


def test_a_glitch_every_16_frames_is_named(reference, track, folder):
    def glitches(pictures: Pictures) -> Pictures:
        for i in range(16, FRAMES, 16):
            pictures[i][120:150, 70:120] = np.roll(pictures[i][120:150, 70:120], 9, axis=0)
        return pictures

    found = test_with(reference, track, folder, "glitch", glitches)
    assert found["steps"]["spikes"] == list(range(16, FRAMES, 16))
    assert found["shown"]["duplicated"] == found["shown"]["missing"] == []
    assert any("6 spikes" in line and "16, 32" in line for line in found["findings"])


@pytest.mark.parametrize("late", [2, -2])
def test_a_shift_of_the_sound_by_two_frames_is_measured(late, reference, track, folder):
    shift = late * RATE // 25
    sound = np.roll(voice(), shift)
    sound[slice(0, shift) if late > 0 else slice(shift, None)] = 0
    found = compared(reference, written(folder / f"sound{late}.mp4", talk(), sound), track)["lips_and_sound"]
    assert found["sound_late_ms"] == pytest.approx(40 * late, abs=2)
    assert found["picture_late_frames"] == 0
    assert found["lips_late_by_frames"] == pytest.approx(-late, abs=0.05)
    assert (found["reference_lag_frames"], found["test_lag_frames"]) == (0, -late)


def test_a_sound_that_starts_later_in_the_file_is_late(reference, track, folder):
    """The samples are the same; the container alone says that they are heard two frames later."""
    path = folder / "delayed.mkv"
    with av.open(str(reference)) as source, av.open(str(path), "w") as target:
        streams = {s.index: target.add_stream_from_template(s) for s in source.streams}
        for packet in source.demux():
            if packet.dts is None:
                continue
            if packet.stream.type == "audio":
                delay = round(0.08 / packet.time_base)
                packet.pts, packet.dts = packet.pts + delay, packet.dts + delay
            packet.stream = streams[packet.stream.index]
            target.mux(packet)
    found = compared(reference, path, track)["lips_and_sound"]
    assert found["sound_late_ms"] == pytest.approx(80, abs=3)
    assert found["test_lag_frames"] == -2


def test_a_swapped_chroma_plane_is_named(reference, track, folder):
    def swapped(pictures: Pictures) -> Pictures:
        planes = [av.VideoFrame.from_ndarray(p, "rgb24").reformat(format="nv12").to_ndarray() for p in pictures]
        return [av.VideoFrame.from_ndarray(plane, "yuv420p").to_ndarray(format="rgb24") for plane in planes]

    found = test_with(reference, track, folder, "swapped", swapped)
    assert any("chroma planes" in line for line in found["findings"])
    assert found["pictures"]["psnr_rgb_db"] < 25 < found["pictures"]["psnr_y_db"]


def test_a_mouth_that_stays_closed_is_named(reference, track, folder):
    def shut(pictures: Pictures) -> Pictures:
        for picture in pictures:
            picture[(picture < 60).all(-1)] = (190, 90, 90)
        return pictures

    found = test_with(reference, track, folder, "shut", shut)
    assert found["findings"] == ["the test's mouth stays closed where the reference's opens"]
    assert found["aperture"]["test_closed"] == FRAMES > found["aperture"]["reference_closed"]
    assert "lips and sound of the test" in found["not_measured"]


def test_frames_shown_twice_and_left_out_are_named(reference, track, folder):
    frozen = test_with(reference, track, folder, "frozen", lambda p: [*p[:40], p[39], *p[41:]])
    assert (frozen["shown"]["duplicated"], frozen["shown"]["missing"]) == ([40], [40])
    fewer = test_with(reference, track, folder, "fewer", lambda p: [*p[:30], *p[31:60], *p[62:]])
    assert (fewer["shown"]["duplicated"], fewer["shown"]["missing"]) == ([], [30, 60, 61])
    assert any("97 frames" in line for line in fewer["findings"])
    assert fewer["steps"]["spikes"] == []  # what is missing is not a glitch as well
    late = test_with(reference, track, folder, "late", lambda p: [p[0], p[0], *p[:-2]])
    assert late["shown"]["late_frames"] == 2
    assert any("2 frames after" in line for line in late["findings"])


def test_what_can_not_be_measured_is_said(reference, folder, capsys):
    smaller = written(folder / "smaller.mp4", [p[:, :128].copy() for p in talk()], np.zeros(RATE, np.float32))
    assert main(["compare", str(reference), str(smaller)]) == 0
    text = capsys.readouterr().out
    assert "not measured: pictures: sizes differ: 192x192 and 128x192" in text
    assert "not measured: aperture" in text and "mouth's box" in text and "a sound is silent" in text


def test_the_picture_shows_the_frames_asked_for(reference, track, folder, tmp_path):
    assert main(["compare", str(reference), str(reference), "--plots", str(tmp_path), "--quiet"]) == 0
    plain = read_image(tmp_path / "compare.png")
    options = ["--track", str(track), "--frames", "20,60", "--plots", str(tmp_path), "--quiet"]
    assert main(["compare", str(reference), str(reference), *options]) == 0
    assert read_image(tmp_path / "compare.png").shape[0] > plain.shape[0]  # with a chart of the aperture
    found = compare_videos(reference, reference, track=FaceTrack.read(track), frames=(20, 60))
    assert [tile.frame for tile in found.tiles] == [20, 60]
    wanted = talk()[20][FACE[1] : FACE[3], FACE[0] : FACE[2]].mean((0, 1))
    assert found.tiles[0].test.mean((0, 1)) == pytest.approx(wanted, abs=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mouth-box", "1,2,3"], "4 whole numbers"),
        (["--mouth-box", "1,2,0,4"], "area"),
        (["--mouth-box", "5000,5000,10,10"], "within the picture"),
        (["--mouth-box", "180,100,20,10"], "within the picture"),
        (["--frames", "a,b"], "--frames a,b"),
        (["--track", "nowhere.json"], "nowhere.json"),
        (["--plots", "nowhere"], "no folder"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(options, message, reference, capsys):
    assert main(["compare", str(reference), str(reference), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: ") and message in captured.err


@pytest.mark.parametrize(
    "report",
    [
        "[]",
        "{",
        '{"mouth_polygons": [[[0, 0], [1, 1]]], "face_boxes": [[0, 0, 2, 2]], "size": [2, 2]}',
        '{"mouth_polygons": [[[0, 0], [1, 1], [0, NaN]]], "face_boxes": [[0, 0, 2, 2]], "size": [2, 2]}',
        '{"mouth_polygons": [[[0, 0], [1, 1], [0, 1e9]]], "face_boxes": [[0, 0, 2, 2]], "size": [2, 2]}',
        '{"mouth_polygons": [[[0, 0], [1, 1], [0, 1]]], "face_boxes": [[5, 0, 2, 2]], "size": [2, 2]}',
        '{"mouth_polygons": [[[0, 0], [1, 1], [0, 1]]], "face_boxes": [], "size": [2, 2]}',
        '{"mouth_polygons": [[[0, 0], [1, 1], [0, 1]]], "face_boxes": [[0, 0, 2, 2]], "size": [2, 2], "fps": "1/0"}',
        '{"mouth_polygons": [[[0, 0], [1, 1], [0, 1]]], "face_boxes": [[0, 0, 2, 2]], "size": [2, 2], "fps": "1e9"}',
    ],
)
def test_a_report_of_another_form_is_refused(report, tmp_path):
    (tmp_path / "report.json").write_text(report)
    with pytest.raises(DittoError, match=r"report\.json"):
        FaceTrack.read(tmp_path / "report.json")


def test_a_track_of_another_video_is_refused(track, folder, reference):
    other = written(folder / "other.mp4", [p[:, :128].copy() for p in talk()[:5]], voice())
    with pytest.raises(DittoError, match="128x192"):
        compare_videos(other, other, track=FaceTrack.read(track))


@pytest.mark.parametrize("rate", [Fraction(30000, 1001), Fraction(50), Fraction(24)])
def test_the_track_of_a_retimed_render_follows_the_frames_that_are_shown(rate, tmp_path):
    """A mouth that moves: the aperture of each frame is that of the rendered frame that it shows."""
    left, top, right, bottom = MOUTH
    polygons = [[[left + i, top], [right + i, top], [right + i, bottom], [left + i, bottom]] for i in range(FRAMES)]
    rendered = np.zeros((FRAMES, SIDE, SIDE, 3), np.uint8)
    for i, ((x, y), *_) in enumerate(polygons):
        rendered[i] = 200
        rendered[i, y : y + 3 + i % 5, x : x + 6] = 10
    report = {"size": [SIDE, SIDE], "mouth_polygons": polygons, "face_boxes": [list(FACE)] * FRAMES}
    plain = FaceTrack.of_report(report)
    track = FaceTrack.of_report({**report, "source_fps": "25", "fps": str(rate)})
    shown = [shown_frame(i, Fraction(25), rate) for i in range(len(track))]
    apertures = []
    for chosen, frames in ((plain, range(FRAMES)), (track, shown)):
        meter = ClipMeter(chosen)
        for i in frames:
            meter.add(rendered[min(i, FRAMES - 1)])
        apertures.append(meter.courses().apertures)
    assert len(track) == frame_count(FRAMES, Fraction(25), rate) == len(apertures[1])
    assert apertures[1].tolist() == [apertures[0][min(i, FRAMES - 1)] for i in shown]


def test_a_cancelled_comparison_stops(reference):
    def cancel() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare_videos(reference, reference, check_cancelled=cancel)
