"""Live sessions: the whole-file driver's frames however the sound comes, and an end that never hangs."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models import write_folder

from ditto_core.avatar import Avatar, CropRequest, register
from ditto_core.backends import TorchBackend
from ditto_core.checkpoints import DittoModels, load_models
from ditto_core.errors import InvalidValueError
from ditto_core.media import read_image
from ditto_core.motion.controls import MotionControls
from ditto_core.pipeline.motion import MotionOptions
from ditto_core.pipeline.plan import Plan, named_plan
from ditto_core.pipeline.session import Session, SessionError
from ditto_core.pipeline.speech_frames import SpeechFrames
from ditto_core.pipeline.stream_frames import StreamFrames
from ditto_core.render import RenderOptions
from ditto_core.speech import Sound, recipe_hubert

PRESENTER = Path(__file__).parents[2] / "ditto_core" / "bundled" / "presenter.png"


def plan_of(name: str, chunk: int) -> Plan:
    return dataclasses.replace(named_plan(name, chunk=chunk), ending="exact")


QUICK = MotionOptions(plan=plan_of("low-latency", 8), steps=1)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> DittoModels:
    return load_models(write_folder(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def parts(models) -> dict[str, object]:
    picture = np.ascontiguousarray(read_image(PRESENTER)[100:740:10, 112:752:10])
    avatar: Avatar = register(picture, models, crop=CropRequest.parse("full"))
    return {
        "models": models,
        "encoder": recipe_hubert(models.preset.speech_features, "miniature"),
        "backend": TorchBackend(models),
        "avatar": avatar,
    }


def noise(frames: float, *, rate: int = 16000, channels: int = 1, seed: int = 1) -> np.ndarray:
    shape = channels, round(frames * rate / 25)
    return np.random.default_rng(seed).normal(0, 0.1, shape).astype(np.float32)


def whole(parts, sound: np.ndarray, rate: int, **options) -> torch.Tensor:
    recipe = SpeechFrames(**parts, sound=Sound(sound, rate), **options)
    return torch.cat([chunk.pictures for chunk in recipe.pull(colour="nv12")])


def streamed(parts, sound: np.ndarray, rate: int, cuts: list[int], **options) -> list:
    with Session(**parts, **options) as session:
        edges = sorted({0, *(cut % sound.shape[1] for cut in cuts), sound.shape[1]})
        for start, stop in zip(edges, edges[1:], strict=False):
            session.push_audio(sound[:, start:stop], rate)
        session.finish()
        return list(session)


def settle(session: Session) -> None:
    """Waits until no stage has anything to do."""
    changed = session._crew.changed
    while True:
        with changed:
            session._crew.check()
            if len(changed._waiters) == 3:  # speech, motion and render; who was told of a change is none of them
                return
        time.sleep(0.001)


@settings(max_examples=8, deadline=None)
@given(
    frames=st.sampled_from((0.01, 1, 7.5, 18, 26)),
    form=st.sampled_from(((16000, 1), (48000, 2), (44100, 1), (11025, 1))),
    name=st.sampled_from(("low-latency", "upstream-online", "offline")),
    chunk=st.integers(1, 70),
    hop=st.integers(1, 5),
    cadence=st.sampled_from((1, 2)),
    cuts=st.lists(st.integers(0, 100_000), max_size=6),
)
def test_frames_are_those_of_the_whole_file_bit_for_bit(parts, frames, form, name, chunk, hop, cadence, cuts) -> None:
    rate, channels = form
    plan = dataclasses.replace(plan_of(name, chunk), hop=hop)
    sound = noise(frames, rate=rate, channels=channels)
    options = {
        "motion": dataclasses.replace(QUICK, plan=plan),
        "options": RenderOptions(cadence=cadence),
        "controls": MotionControls(yaw=5.0),
    }
    found = streamed(parts, sound, rate, cuts, **options)
    wanted = whole(parts, sound, rate, **options)
    assert torch.equal(torch.stack([frame.picture for frame in found]), wanted)
    assert [frame.pts for frame in found] == [Fraction(i, 25) for i in range(len(wanted))]
    heard = np.concatenate([frame.sound for frame in found], axis=1)
    assert np.array_equal(heard[:, : sound.shape[1]], sound) and not heard[:, sound.shape[1] :].any()
    assert all(abs(frame.sound_pts - frame.pts) * rate <= 1 for frame in found)


@pytest.mark.parametrize("cadence", [1, 2])
def test_a_recipe_of_a_stream_gives_the_whole_files_frames(parts, cadence) -> None:
    options = {"motion": QUICK, "sound": Sound(noise(19.5), 16000), "options": RenderOptions(cadence=cadence)}
    stream, file = StreamFrames(**parts, **options), SpeechFrames(**parts, **options)
    found, wanted = (
        [torch.cat(values) for values in zip(*((c.pictures, c.mouths) for c in recipe.pull()), strict=True)]
        for recipe in (stream, file)
    )
    assert torch.equal(found[0], wanted[0]) and torch.equal(found[1], wanted[1]) and len(stream) == 20
    assert torch.equal(torch.cat([c.pictures for c in stream.pull(wanted=range(9, 12))]), wanted[0][9:12])


def test_pushes_of_one_sample_make_no_difference(parts) -> None:
    sound = noise(3, rate=8000)
    with Session(**parts, motion=QUICK) as session:
        for i in range(sound.shape[1]):
            session.push_audio(sound[0, i : i + 1], 8000)
        session.finish()
        found = torch.stack([frame.picture for frame in session])
    assert torch.equal(found, whole(parts, sound, 8000, motion=QUICK))


@pytest.mark.parametrize(
    "name, chunk, hop",
    [("low-latency", 8, 5), ("low-latency", 3, 1), ("upstream-online", 10, 4), ("upstream-online", 4, 5)],
)
def test_frames_come_with_the_sample_that_the_plan_names(parts, name, chunk, hop) -> None:
    """Not a sample earlier, although the session has done all that it can; and without waiting for the end."""
    plan = dataclasses.replace(plan_of(name, chunk), hop=hop)
    sound, pushed, taken = noise(60), 0, 0
    with Session(**parts, motion=dataclasses.replace(QUICK, plan=plan)) as session:
        while taken <= plan.chunk:
            needed = plan.samples_needed(taken)
            for stop in (needed - 1, needed):
                settle(session)
                assert session.take() is None
                session.push_audio(sound[:, pushed:stop], 16000)
                pushed = stop
            settle(session)
            ready = plan.reached(needed).frames
            for number in range(taken, ready):
                while (frame := session.take()) is None:  # more than the session holds at once
                    settle(session)
                assert frame.number == number
            taken = ready


def test_sound_with_gaps_and_bursts_gives_the_same_frames(parts) -> None:
    """Between two pushes everything comes to rest, and some pushes are empty."""
    sound, found = noise(40), []
    with Session(**parts, motion=QUICK) as session:
        for start, stop in ((0, 1), (1, 9000), (9000, 9000), (9000, 9640), (9640, 25000), (25000, 25600)):
            session.push_audio(sound[:, start:stop], 16000)
            settle(session)
            while (frame := session.take()) is not None:
                found.append(frame)
                settle(session)
        session.finish()
        found += session
    assert torch.equal(torch.stack([frame.picture for frame in found]), whole(parts, sound, 16000, motion=QUICK))


def test_segments_follow_each_other_without_a_jump(parts) -> None:
    """Frames, time stamps and motion go on; without the joint the step would be as large as between two sounds."""
    first, second = noise(20), noise(20, seed=2, rate=24000)
    with Session(**parts, motion=QUICK) as session:
        session.push_audio(first, 16000)
        session.end_segment()
        session.end_segment()
        session.push_audio(second, 24000)
        session.finish()
        found = list(session)
    assert [frame.number for frame in found] == list(range(40))
    assert [frame.segment for frame in found] == [0] * 20 + [1] * 20
    assert found[20].sound_pts == Fraction(20, 25) and found[20].rate == 24000
    luma = torch.stack([frame.picture for frame in found]).float()
    steps = (luma[1:] - luma[:-1]).abs().mean((1, 2))
    alone = whole(parts, second, 24000, motion=dataclasses.replace(QUICK, seed=1)).float()
    jump = float((alone[0] - luma[19]).abs().mean())
    assert float(steps[19]) < 0.5 * jump


def test_an_interrupt_goes_on_after_the_last_frame_taken(parts) -> None:
    with Session(**parts, motion=QUICK) as session:
        session.push_audio(noise(60), 16000)
        frames = iter(session)
        taken = [next(frames) for _ in range(11)]
        assert session.interrupt() == Fraction(11, 25) and session.pending == 0
        session.push_audio(noise(9, seed=3), 16000)
        session.finish()
        after = list(frames)
    assert [frame.number for frame in taken + after] == list(range(20))
    assert {frame.segment for frame in after} == {1}
    assert np.array_equal(np.concatenate([frame.sound for frame in after], axis=1), noise(9, seed=3))


def test_an_interrupt_goes_back_to_the_last_frame_played(parts) -> None:
    with Session(**parts, motion=QUICK) as session:
        session.push_audio(noise(60), 16000)
        frames = iter(session)
        taken = [next(frames) for _ in range(11)]
        with pytest.raises(InvalidValueError, match="of 11 taken"):
            session.played(Fraction(11, 25))
        session.played(taken[4].pts)
        assert session.interrupt() == Fraction(5, 25)
        session.push_audio(noise(9), 16000)
        session.finish()
        assert [frame.number for frame in frames] == list(range(5, 14))


def test_an_event_loop_gets_the_same_frames(parts) -> None:
    async def collect() -> torch.Tensor:
        found = []
        with Session(**parts, motion=QUICK) as session:
            session.push_audio(noise(20), 16000)
            session.finish()
            async for frame in session:
                found.append(frame.picture)
        return torch.stack(found)

    assert torch.equal(asyncio.run(collect()), whole(parts, noise(20), 16000, motion=QUICK))


def test_two_sessions_on_one_model_do_not_disturb_each_other(parts) -> None:
    sounds = noise(20), noise(20, seed=2)
    with Session(**parts, motion=QUICK) as a, Session(**parts, motion=QUICK) as b:
        for session, sound in ((a, sounds[0]), (b, sounds[1])):
            session.push_audio(sound, 16000)
            session.finish()
        pairs = list(zip(a, b, strict=True))
    for i in (0, 1):
        found = torch.stack([pair[i].picture for pair in pairs])
        assert torch.equal(found, whole(parts, sounds[i], 16000, motion=QUICK))


class Broken(Exception):
    pass


def failing_encoder(encoder):
    class Encoder:
        features, executed_by, fingerprint = encoder.features, "", encoder.fingerprint
        calls = 0

        def encode(self, windows):
            self.calls += 1
            if self.calls > 30:  # more windows than the silence before the sound has
                raise Broken("speech")
            return encoder.encode(windows)

    return Encoder()


class FailingBackend(TorchBackend):
    calls = 0

    def faces(self, f_s, x_s, x_d):
        self.calls += 1
        if self.calls > 2:
            raise Broken("render")
        return super().faces(f_s, x_s, x_d)


@pytest.mark.parametrize("stage", ["speech", "motion", "render"])
def test_a_stage_that_fails_stops_the_others_and_its_error_arrives(parts, monkeypatch, stage) -> None:
    threads = threading.active_count()
    broken = dict(parts)
    if stage == "speech":
        broken["encoder"] = failing_encoder(parts["encoder"])
    if stage == "render":
        broken["backend"] = FailingBackend(parts["models"])
    session = Session(**broken, motion=QUICK)
    if stage == "motion":
        calls = iter(range(2))

        def forward(*args, **kwargs):
            if next(calls, None) is None:
                raise Broken("motion")
            return inner(*args, **kwargs)

        inner = session._motion_stage._sampler._denoiser.step
        monkeypatch.setattr(session._motion_stage._sampler._denoiser, "step", forward)
    session.push_audio(noise(200), 16000)
    with pytest.raises(Broken, match=stage):
        list(session)
    with pytest.raises(Broken, match=stage):
        session.push_audio(noise(1), 16000)
    session.close()
    assert threading.active_count() == threads


def test_closing_in_the_midst_ends_all_threads(parts) -> None:
    """Nobody takes a frame: every queue is full, and every stage waits or works."""
    threads = threading.active_count()
    for taken in range(6):
        session = Session(**parts, motion=QUICK)
        session.push_audio(noise(200), 16000)
        frames = iter(session)
        for _ in range(taken):
            next(frames)
        if taken % 2:
            session.interrupt()
        session.close()
        session.close()
        assert list(frames) == []
        with pytest.raises(SessionError, match="closed"):
            session.push_audio(noise(1), 16000)
    assert threading.active_count() == threads


@pytest.mark.long
def test_many_sessions_leave_nothing_behind(parts) -> None:
    threads = threading.active_count()
    for i in range(200):
        with Session(**parts, motion=QUICK) as session:
            session.push_audio(noise(30), 16000)
            if i % 2:
                next(iter(session))
            session.interrupt()
    assert threading.active_count() == threads


def test_a_pusher_that_waits_holds_little_sound(parts) -> None:
    """Whoever pushes from a pipe is as fast as the one who takes."""
    with Session(**parts, motion=QUICK) as session:
        most: list[float] = []

        def push() -> None:
            for block in np.split(noise(100)[0], 50):
                session.push_audio(block, 16000, wait=True)
                most.append(session.pending)
            session.finish()

        thread = threading.Thread(target=push)
        thread.start()
        count = len(list(session))
        thread.join()
    held = 2 + QUICK.plan.look_ahead / 16000
    assert count == 100 and max(most) < held + 0.2


@pytest.mark.parametrize(
    "samples, rate, match",
    [
        (np.zeros(100, np.float32), 8000, "in a segment of 16000"),
        (np.zeros((2, 100), np.float32), 16000, "2 channels"),
        (np.zeros(100, np.int16), 16000, "samples of int16"),
        (np.full(100, np.nan, np.float32), 16000, "NaN"),
        (np.zeros((1, 1, 9), np.float32), 16000, "shape"),
        (np.zeros(100, np.float32), 100, "sample rate"),
    ],
)
def test_wrong_sound_is_refused_and_the_session_goes_on(parts, samples, rate, match) -> None:
    with Session(**parts, motion=QUICK) as session:
        session.push_audio(noise(1), 16000)
        with pytest.raises(InvalidValueError, match=match):
            session.push_audio(samples, rate)
        session.push_audio(noise(1), 16000)
        session.finish()
        assert len(list(session)) == 2
        with pytest.raises(SessionError, match="finished"):
            session.push_audio(noise(1), 16000)
