"""`python -m ditto_core render` and `doctor`, as a user runs them, on the bundled presenter and sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from ditto_core.cli import main

ROOT = Path(__file__).parents[2]
PRESENTER = ROOT / "ditto_core" / "bundled" / "presenter.png"
NEWS = ROOT / "ditto_core" / "bundled" / "news.wav"


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Path:
    """The first 0.9 s of the news sentence, in stereo at 44.1 kHz: 23 frames, the last one begun."""
    path = tmp_path_factory.mktemp("sound") / "short.wav"
    with av.open(str(NEWS)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream("pcm_s16le", rate=44100, layout="stereo")
        resampler = av.AudioResampler("s16", "stereo", 44100)
        left = round(0.9 * 44100)
        for frame in source.decode(audio=0):
            for part in resampler.resample(frame):
                samples = part.to_ndarray()[:, : 2 * left]
                left -= samples.shape[1] // 2
                if samples.size:
                    cut = av.AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
                    cut.sample_rate = 44100
                    target.mux(stream.encode(cut))
        target.mux(stream.encode(None))
    return path


def render(out: Path, *options: str, speech: Path = NEWS, avatar: Path = PRESENTER) -> int:
    arguments = ["render", "--avatar", str(avatar), "--speech", str(speech), "--out", str(out), "--quiet"]
    return main([*arguments, "--device", "cpu", "--steps", "2", *options])


def decoded(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


@pytest.fixture(scope="module")
def video(short, tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("video")
    assert render(folder / "video.mp4", "--report", str(folder / "report.json"), speech=short) == 0
    return folder / "video.mp4", json.loads((folder / "report.json").read_text())


def test_picture_and_sound_are_of_one_length(video):
    path, report = video
    with av.open(str(path)) as container:
        (picture,), (sound,) = container.streams.video, container.streams.audio
        frames = list(container.decode(picture))
        assert (picture.codec.name, sound.codec.name, sound.rate, sound.layout.name) == ("h264", "aac", 48000, "stereo")
        assert picture.average_rate == 25 and len(frames) == report["frames"] == 23
        video_end = Fraction(len(frames), 25)
        sound_end = Fraction(sound.duration) * sound.time_base
    assert abs(video_end - sound_end) < Fraction(1, 25)


def test_the_report_says_what_was_done(video):
    _, report = video
    expected = {
        "frames", "fps", "duration_s", "wall_s", "ttff_ms", "realtime_factor", "encoder", "executed_by", "seed", "plan",
        "models", "stages_ms", "peak_memory_mb", "mouth_polygons", "face_boxes", "eyes_measured",
    }  # fmt: skip
    assert expected <= set(report)
    assert report["plan"]["name"] == "offline" and report["seed"] == 0 and report["steps"] == 2
    assert len(report["mouth_polygons"]) == len(report["face_boxes"]) == report["frames"]
    assert 0 < report["ttff_ms"] <= report["wall_s"] * 1000
    assert report["executed_by"]["render"].startswith("torch on CPU")
    left, top, right, bottom = report["face_boxes"][0]
    for x, y in report["mouth_polygons"][0]:
        assert left <= x <= right and top <= y <= bottom


def test_the_same_seed_gives_the_same_frames(video, short, tmp_path):
    assert render(tmp_path / "again.mp4", speech=short) == 0
    assert render(tmp_path / "other.mp4", "--seed", "1", speech=short) == 0
    first, again, other = decoded(video[0]), decoded(tmp_path / "again.mp4"), decoded(tmp_path / "other.mp4")
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_picture_outside_the_face_is_the_source(video, tmp_path):
    from ditto_core.media import read_image

    assert (
        render(tmp_path / "video.mp4", "--crop", "300,400,256", "--quality", "broadcast", speech=short_of(video)) == 0
    )
    frames, source = decoded(tmp_path / "video.mp4"), read_image(PRESENTER)
    height, width = frames.shape[1:3]
    assert (height, width) == tuple(n - n % 2 for n in source.shape[:2])
    outside = np.ones((height, width), bool)
    outside[390:670, 290:570] = False
    difference = np.abs(frames[5].astype(int) - source[:height, :width])[outside]
    assert difference.mean() < 1.5
    inside = np.abs(frames[5].astype(int) - source[:height, :width])[420:620, 320:520]
    assert inside.mean() > 3 * difference.mean()  # drawn anew


def short_of(video) -> Path:
    """A sound of the length of the rendered video: its own."""
    return video[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--crop", "somewhere"], "somewhere"),
        (["--crop", "0,0,99999"], "99999"),
        (["--steps", "0"], "0 sampler steps"),
        (["--overlap", "80"], "overlap of 80"),
        (["--batch", "0"], "batch of 0"),
        (["--backend", "tensorrt"], "tensorrt"),
        (["--engine", "post_warp.engine"], "post_warp.engine"),
        (["--models", "/nowhere"], "no such folder"),
        (["--precision", "fp16"], "fp16 on a CPU"),
        (["--out", "video.avi"], "video.avi"),
        (["--out", "/nowhere/video.mp4"], "can't be written"),
        (["--avatar", "/nowhere.png"], "nowhere.png"),
        (["--speech", str(PRESENTER)], "presenter.png"),
        (["--encoder", "h264_nvenc"], "h264_nvenc"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(options, message, tmp_path, capsys):
    code = render(tmp_path / "video.mp4", *options)
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    assert captured.err.startswith("error: ") and message in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_face_that_nobody_looks_for_is_refused(tmp_path, capsys):
    assert render(tmp_path / "video.mp4", "--face", "3") == 2
    assert "face 3 with models without face detectors" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["render"], ["stream"], ["compare"], ["engine", "build"]])
def test_a_report_that_can_not_be_written_is_refused_before_the_work(command, capsys):
    parser_needs = {"compare": ["a.mp4", "b.mp4"], "engine": []}
    needed = parser_needs.get(command[0], ["--avatar", "a.png", "--speech", "a.wav", "--out", "a.mp4"])
    for report in ("/nowhere/report.json", "/"):
        with pytest.raises(SystemExit) as ended:
            main([*command, *needed, "--report", report])
        assert ended.value.code == 2 and f"{report!r} can't be written" in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["0", "-25", "nan", "25/0", "inf"])
def test_a_frame_rate_is_a_number_above_0(rate, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        render(tmp_path / "video.mp4", f"--fps={rate}")
    assert ended.value.code == 2 and f"{rate!r} is no frame rate" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["x.mov", "folder"])
def test_settings_of_an_encoder_are_refused_for_pictures_with_alpha(out, short, tmp_path, capsys):
    settings = ["--encoder", "h264_nvenc", "--crf", "3", "--quality", "live", "--fragmented"]
    assert render(tmp_path / out, *settings, speech=short) == 2
    assert "--encoder, --quality, --crf, --fragmented for" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_forgotten_ending_is_named(short, tmp_path, capsys):
    assert render(tmp_path / "q", speech=short) == 2
    told = capsys.readouterr().err
    assert "no ending" in told and "PNG files with alpha" in told and "presenter before a green screen" in told


def test_alpha_without_a_green_screen_says_what_it_needs(short, tmp_path, capsys):
    assert render(tmp_path / "video.mov", speech=short) == 2
    told = capsys.readouterr().err
    assert "needs a presenter before a green screen" in told and "rite an .mp4" in told
    assert render(tmp_path / "video.mp4", "--background", str(PRESENTER), speech=short) == 2
    assert "a background needs a presenter before a green screen" in capsys.readouterr().err


def test_a_saved_avatar_renders_the_same(video, short, tmp_path):
    from ditto_core.avatar import register
    from ditto_core.checkpoints import load_models

    register(PRESENTER, load_models()).save(tmp_path / "presenter.safetensors")
    assert render(tmp_path / "video.mp4", avatar=tmp_path / "presenter.safetensors", speech=short) == 0
    assert np.array_equal(decoded(video[0]), decoded(tmp_path / "video.mp4"))


def test_cadence_2_is_reported(short, tmp_path):
    report = tmp_path / "report.json"
    assert render(tmp_path / "video.mp4", "--cadence", "2", "--report", str(report), speech=short) == 0
    assert "cadence 2" in json.loads(report.read_text())["executed_by"]["render"]


def test_rendering_starts_no_process(short, tmp_path):
    """From loading to the closed file: an audit hook sees every way in which Python starts one."""
    code = f"""
import sys
from ditto_core.cli import main
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")
started = []
sys.addaudithook(lambda event, arguments: started.append((event, arguments)) if event in STARTS else None)
code = main(["render", "--avatar", {str(PRESENTER)!r}, "--speech", {str(short)!r}, "--out", "video.mp4",
             "--device", "cpu", "--steps", "2"])
print(code, started)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300
    )
    lines = done.stdout.splitlines()
    assert lines[-1] == "0 []", done.stderr
    assert lines[0].startswith("video.mp4: 23 frames, 0.92 s")


@pytest.mark.long
def test_a_compiled_backend_starts_no_process_once_it_is_warm(short, tmp_path):
    """The tool chain runs in the warm-up, before the first frame; from then on to the closed file there is none."""
    code = f"""
import sys
from ditto_core.backends import CompiledBackend
from ditto_core.cli import main
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")
warmed, started, plain = [], [], CompiledBackend.warm_up
def warm_up(backend, batch, progress=None):
    plain(backend, batch, progress)
    warmed.append(batch)
CompiledBackend.warm_up = warm_up
sys.addaudithook(lambda event, arguments: started.append((event, arguments)) if event in STARTS and warmed else None)
code = main(["render", "--avatar", {str(PRESENTER)!r}, "--speech", {str(short)!r}, "--out", "video.mp4",
             "--device", "cpu", "--backend", "compiled", "--precision", "fp32", "--steps", "2"])
print(code, warmed, started)
"""
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | {
        "PYTHONPATH": str(ROOT),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=900
    )
    assert done.stdout.splitlines()[-1] == "0 [8] []", done.stderr


def test_doctor_says_what_will_be_used(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["encoders"]["libx264"] == "opens"
    assert set(found["use"]) == {"device", "backend", "precision", "encoder"}
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "libx264" in text and "what will be used" in text and "TensorRT" in text


def test_doctor_looks_at_models_and_goes_on_where_there_are_none(capsys):
    assert main(["doctor", "--models", "miniature", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"]["miniature"]["lmdm"] == "found"
    assert main(["doctor", "--models", "/nowhere"]) == 0
    text = capsys.readouterr().out
    assert "models /nowhere: not usable: /nowhere: no such folder" in text and "what will be used" in text


def test_doctor_says_nothing_but_what_it_found(tmp_path):
    """Not what encoders tell of themselves when they are opened."""
    environment = {name: value for name, value in os.environ.items() if name != "SVT_LOG"} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ditto_core", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert done.returncode == 0 and done.stderr == "" and json.loads(done.stdout)["encoders"]


@pytest.fixture(scope="module")
def green(tmp_path_factory) -> Path:
    """A presenter before a green screen."""
    from tools.miniature.presenter import render as draw
    from tools.miniature.presenter_cast import cast
    from tools.miniature.presenter_geometry import BUST
    from tools.miniature.presenter_parameters import Motion
    from tools.miniature.presenter_sheet import to_bytes, write_png

    path = tmp_path_factory.mktemp("green") / "green.png"
    write_png(path, to_bytes(draw(cast(["erik"]), Motion.neutral(), BUST)[0]))
    return path


def test_a_background_replaces_the_green_screen(green, short, tmp_path):
    from tools.miniature.presenter_sheet import write_png

    write_png(tmp_path / "red.png", np.full((40, 30, 3), (200, 30, 40), np.uint8))
    out = tmp_path / "video.mp4"
    assert (
        render(out, "--background", str(tmp_path / "red.png"), "--quality", "broadcast", avatar=green, speech=short)
        == 0
    )
    frame = decoded(out)[10].astype(int)
    assert np.abs(frame[:60, :60] - (200, 30, 40)).max() < 8
    assert (frame[..., 1] > frame[..., [0, 2]].max(-1) + 40).mean() < 0.001  # no green anywhere
    middle = frame[400:420, 420:440].mean((0, 1))
    assert np.abs(middle - (200, 30, 40)).max() > 30  # the presenter is there


def test_a_green_screen_becomes_alpha(green, short, tmp_path):
    assert render(tmp_path / "video.mov", avatar=green, speech=short) == 0
    with av.open(str(tmp_path / "video.mov")) as container:
        frames = [frame.to_ndarray(format="rgba") for frame in container.decode(video=0)]
        assert container.streams.video[0].codec_context.name == "prores" and container.streams.audio
    assert len(frames) == 23
    alpha = frames[10][..., 3]
    assert alpha[:60, :60].max() == 0 and alpha[400:420, 420:440].min() == 255


def test_another_frame_rate_keeps_the_length(video, short, tmp_path):
    assert render(tmp_path / "video.mp4", "--fps", "30000/1001", speech=short) == 0
    with av.open(str(tmp_path / "video.mp4")) as container:
        stream = container.streams.video[0]
        assert stream.average_rate == Fraction(30000, 1001)
        assert abs(stream.duration * stream.time_base - Fraction(23, 25)) <= Fraction(1001, 30000)


def test_a_source_without_a_green_screen_is_refused(short, tmp_path, capsys):
    assert render(tmp_path / "video.mov", speech=short) == 2
    assert "green" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
