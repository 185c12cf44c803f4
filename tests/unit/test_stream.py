"""From a session to a file, and the command `stream`."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from pathlib import Path

import av
import numpy as np
import pytest
from support.models import write_folder

from ditto_core.avatar import CropRequest, register
from ditto_core.backends import TorchBackend
from ditto_core.checkpoints import load_models
from ditto_core.cli.main import main
from ditto_core.media import read_image
from ditto_core.pipeline.motion import MotionOptions
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.session import Session, SessionError
from ditto_core.pipeline.stream import paced, starved, stream_video
from ditto_core.speech import Sound, recipe_hubert
from ditto_core.video import EncoderOptions
from ditto_core.video.sinks import SinkError

PRESENTER = Path(__file__).parents[2] / "ditto_core" / "bundled" / "presenter.png"
LIVE = EncoderOptions(encoder="libx264", quality="live")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def parts(folder) -> dict[str, object]:
    models = load_models(folder)
    picture = np.ascontiguousarray(read_image(PRESENTER)[100:740:10, 112:752:10])
    return {
        "models": models,
        "encoder": recipe_hubert(models.preset.speech_features, "miniature"),
        "backend": TorchBackend(models),
        "avatar": register(picture, models, crop=CropRequest.parse("full")),
        "motion": MotionOptions(plan=named_plan("low-latency", chunk=8), steps=1),
    }


def noise(frames: int, rate: int = 16000, channels: int = 1) -> Sound:
    samples = np.random.default_rng(1).normal(0, 0.1, (channels, frames * rate // 25)).astype(np.float32)
    return Sound(samples, rate)


def blocks(sound: Sound, size: int):
    return [(sound.samples[:, i : i + size], sound.rate) for i in range(0, sound.samples.shape[1], size)]


def test_a_stream_writes_picture_and_sound_in_step(parts, tmp_path) -> None:
    sound = noise(30, 48000, 2)
    with Session(**parts) as session:
        report = stream_video(session, blocks(sound, 700), tmp_path / "live.mp4", video=LIVE)
    with av.open(str(tmp_path / "live.mp4")) as file:
        assert sum(1 for _ in file.decode(video=0)) == 30
    with av.open(str(tmp_path / "live.mp4")) as file:
        heard = np.concatenate([frame.to_ndarray() for frame in file.decode(audio=0)], axis=1)
    assert heard.shape[0] == 2 and abs(heard.shape[1] - 30 * 1920) <= 1024
    assert json.loads(json.dumps(report))["frames"] == 30 and report["live_ttff_ms"] is None
    assert set(report["stages_ms"]) == {"speech", "motion", "render", "encode"}
    first = report["first_ms"]
    assert first["speech"] < first["motion"] < first["render"] < report["ttff_ms"]


def test_a_feed_that_fails_and_a_target_that_breaks_end_the_stream(parts) -> None:
    def broken():
        yield from blocks(noise(5), 640)
        raise OSError("the line is dead")

    with Session(**parts) as session, pytest.raises(OSError, match="the line is dead"):
        stream_video(session, broken(), io.BytesIO(), video=LIVE)

    def refuse(data: bytes) -> None:
        raise BrokenPipeError("gone")

    threads = threading.active_count()
    with Session(**parts) as session, pytest.raises(SinkError, match="gone"):
        stream_video(session, blocks(noise(500), 640), refuse, video=LIVE)
    for thread in threading.enumerate():
        if thread.name == "ditto feed":
            thread.join(10)
    assert threading.active_count() <= threads
    with Session(**parts) as session, pytest.raises(SessionError, match="without a frame"):
        stream_video(session, [], io.BytesIO(), video=LIVE)


class Counting(TorchBackend):
    drawn = 0

    def faces(self, f_s, x_s, x_d):
        self.drawn += 1
        return super().faces(f_s, x_s, x_d)


def test_a_slow_target_holds_everything_up_and_loses_nothing(parts) -> None:
    """While it takes nothing, the feed and all stages come to a halt; then the whole stream arrives."""
    backend, goes_on, taken = Counting(parts["models"]), threading.Event(), io.BytesIO()

    def slow(data: bytes) -> None:
        if not goes_on.wait(60):
            goes_on.set()
        taken.write(data)

    def at_rest(session: Session) -> bool:
        with session._crew.changed:
            return len(session._drawn) == 4 and len(session._crew.changed._waiters) == 4

    with Session(**{**parts, "backend": backend}) as session:
        source = blocks(noise(200), 640)
        stream = threading.Thread(target=stream_video, args=(session, source, slow), kwargs={"video": LIVE})
        stream.start()
        while not at_rest(session):
            assert stream.is_alive()
            time.sleep(0.01)
        assert session.pending < 2.5 and backend.drawn < 15
        goes_on.set()
        stream.join()
    with av.open(io.BytesIO(taken.getvalue())) as file:
        assert sum(1 for _ in file.decode(video=0)) == 200


class ManualClock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.time = 5.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += max(0.0, seconds)


def test_paced_sound_comes_when_it_was_spoken() -> None:
    clock, sound = ManualClock(), noise(25)
    moments = []
    for samples, rate in paced(sound, clock):
        moments.append(clock.now() - 5.0)
        assert rate == 16000 and samples.shape == (1, 640)
        clock.time += 0.01  # the work of a slow pusher does not add up
    assert np.allclose(moments, np.arange(1, 26) / 25)


def test_late_frames_are_counted() -> None:
    times = np.arange(100) / 25
    assert starved(times) == 0 and starved(times + np.where(np.arange(100) < 50, 0, 0.041)) == 50
    assert starved(times * 0) == 0 and starved([]) == 0


def command(folder, *words: str) -> list[str]:
    return [
        "stream", "--avatar", str(PRESENTER), "--crop", "112,100,640", "--models", str(folder), "--device", "cpu",
        "--steps", "1", "--encoder", "libx264", *words,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def with_speech(folder) -> Path:
    """The models' folder with a speech encoder in it."""
    recipe = recipe_hubert(load_models(folder).preset.speech_features, "miniature")
    recipe.model.save_pretrained(folder / "hubert")
    return folder


@pytest.mark.parametrize("plan", ["low-latency", "upstream"])
def test_raw_sound_on_standard_input_becomes_a_video(with_speech, tmp_path, monkeypatch, capsys, plan) -> None:
    pcm = (noise(12, 8000, 2).samples.T * 32767).astype("<i2").tobytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pcm + b"x")))
    words = ("--speech", "-", "--rate", "8000", "--channels", "2", "--chunk", "4", "--plan", plan)
    report = tmp_path / "report.json"
    code = main(command(with_speech, *words, "--out", str(tmp_path / "a.ts"), "--report", str(report)))
    assert code == 0, capsys.readouterr().err
    with av.open(str(tmp_path / "a.ts")) as file:
        assert sum(1 for _ in file.decode(video=0)) == 12
    found = json.loads(report.read_text())
    assert found["plan"]["chunk"] == 4 and found["quality"] == "live" and found["starved_frames"] >= 0
    assert "12 frames" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, problem",
    [
        (("--speech", "-", "--paced"), "which has its own pace"),
        (("--speech", "-", "--rate", "5"), "sample rate of 5"),
        (("--speech", "-", "--channels", "0"), "0 channels"),
        (("--speech", "missing.wav"), "missing.wav"),
        (("--speech", "-", "--chunk", "0"), "chunk of 0"),
        (("--speech", "-", "--out", "http://me:secret@host/x.avi"), "http://host/x.avi"),
    ],
)
def test_wrong_words_are_refused(folder, tmp_path, capsys, words, problem) -> None:
    assert main(command(folder, "--out", str(tmp_path / "a.mp4"), *words)) == 2
    error = capsys.readouterr().err
    assert problem in error and "secret" not in error
