"""A session's frames for players: time stamps, two rows that go on by themselves, and what is dropped when late."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import numpy as np
import pytest
import torch

from ditto_core.errors import InvalidValueError
from ditto_core.pipeline.live_items import LiveFrame
from ditto_core.pipeline.live_media import MediaFrames, PacedFrames, audio_frame
from ditto_core.pipeline.live_source import ContinuousSound


def live_frame(number: int, rate: int = 16000, channels: int = 1) -> LiveFrame:
    count = rate // 25
    sound = np.arange(number * count, (number + 1) * count, dtype=np.float32) / 32767
    return LiveFrame(
        number=number, segment=0, picture=torch.full((96, 64), number % 256, dtype=torch.uint8), face_box=(0, 0, 1, 1),
        mouth=torch.zeros(6, 2), sound=np.tile(sound, (channels, 1)), rate=rate, sound_pts=Fraction(number, 25),
        made_at=0.0,
    )  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.time = 3.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += max(0.0, seconds)

    async def pause(self, seconds: float) -> None:
        self.sleep(seconds)


class Frames:
    """A session whose frame n is made at a time of its own."""

    def __init__(self, clock: Clock, made_at) -> None:
        self.clock, self.made_at, self.next = clock, [3.0 + t for t in made_at], 0

    def take(self) -> LiveFrame | None:
        if self.next == len(self.made_at) or self.made_at[self.next] > self.clock.now():
            return None
        self.next += 1
        return live_frame(self.next - 1)

    def __iter__(self):
        while self.next < len(self.made_at):
            self.clock.sleep(self.made_at[self.next] - self.clock.now())
            yield self.take()

    async def __aiter__(self):
        for frame in self:
            await asyncio.sleep(0)
            yield frame


def test_pictures_and_sound_are_taken_each_at_its_own_pace() -> None:
    media = MediaFrames(Frames(Clock(), [0.0] * 10))
    video, audio = media.video_frames(), media.audio_frames()
    pictures = [next(video) for _ in range(6)]
    sounds = list(audio)
    pictures += list(video)
    assert [frame.pts * frame.time_base for frame in pictures] == [Fraction(i, 25) for i in range(10)]
    assert pictures[3].format.name == "nv12" and pictures[3].to_ndarray()[0, 0] == 3
    assert [frame.pts for frame in sounds] == [640 * i for i in range(10)] and sounds[0].sample_rate == 16000
    assert np.array_equal(np.concatenate([f.to_ndarray()[0] for f in sounds]), np.arange(6400))


def test_two_tasks_of_an_event_loop_get_everything() -> None:
    async def collect() -> list[list[int]]:
        media = MediaFrames(Frames(Clock(), [0.0] * 10))

        async def row(take) -> list[int]:
            found = []
            while (frame := await take()) is not None:
                found.append(frame.pts)
            return found

        return list(await asyncio.gather(row(media.next_video), row(media.next_audio)))

    assert asyncio.run(collect()) == [list(range(10)), [640 * i for i in range(10)]]


def test_frames_in_time_are_shown_at_theirs() -> None:
    clock = Clock()
    player = PacedFrames(Frames(clock, [0.0] * 50), clock)
    shown = [(frame.number, round(clock.now() - 3.0, 6)) for frame in player]
    assert shown == [(i, i / 25) for i in range(50)] and player.dropped == 0


def test_a_slow_player_catches_up_and_loses_no_sound() -> None:
    clock = Clock()
    player = PacedFrames(Frames(clock, [0.0] * 100), clock, late_s=0.1)
    shown, heard = [], []
    for frame in player:
        shown.append(frame.number)
        heard.append(frame.sound)
        assert clock.now() - 3.0 - frame.pts < 0.1 + 1e-6
        clock.time += 0.07
    assert shown[0] == 0 and len(shown) < 70 and player.dropped == 100 - len(shown)
    assert np.array_equal(np.rint(np.concatenate(heard, axis=1)[0] * 32767), np.arange(64000))


@pytest.mark.parametrize("work_s", [0.0, 0.07])
def test_an_event_loop_shows_the_same_frames_at_the_same_time(work_s) -> None:
    """Also where the player is slow; picture and sound stay in step through what is dropped."""

    def player() -> tuple[PacedFrames, Clock]:
        clock = Clock()
        return PacedFrames(Frames(clock, [0.0] * 100), clock), clock

    async def shown_by_a_loop() -> list[tuple[int, float]]:
        frames, clock = player()
        shown = []
        async for frame in frames:
            shown.append((frame.number, clock.now()))
            clock.time += work_s
        return shown

    async def media() -> tuple[list[Fraction], int]:
        frames, clock = player()
        row = MediaFrames(frames)
        pictures, samples = [], 0
        while (picture := await row.next_video()) is not None:
            pictures.append(picture.pts * picture.time_base)
            sound = await row.next_audio()
            samples += sound.samples
            assert (sound.pts + sound.samples) * sound.time_base == pictures[-1] + Fraction(1, 25)
            clock.time += work_s
        return pictures, samples

    frames, clock = player()
    wanted = []
    for frame in frames:
        wanted.append((frame.number, clock.now()))
        clock.time += work_s
    assert asyncio.run(shown_by_a_loop()) == wanted
    pictures, samples = asyncio.run(media())
    assert pictures == [Fraction(number, 25) for number, _ in wanted] and samples == 64000


def test_a_late_frame_is_shown_where_nothing_newer_is_made() -> None:
    clock = Clock()
    made_at = [max(i / 25, 1.0 if i >= 10 else 0.0) for i in range(50)]
    player = PacedFrames(Frames(clock, made_at), clock)
    shown = [frame.number for frame in player]
    assert shown[:10] == list(range(10)) and shown[-1] == 49
    assert 10 not in shown and player.dropped == 50 - len(shown) <= 15


def test_silence_fills_the_gaps_between_speech() -> None:
    clock = Clock()
    sound = ContinuousSound(16000, 1, clock)
    speech = np.random.default_rng(0).normal(0, 0.1, 1000).astype(np.float32)
    heard = []
    for number, (block, rate) in enumerate(sound):
        assert rate == 16000 and block.shape == (1, 640) and abs(clock.now() - 3.0 - (number + 1) / 25) < 1e-9
        heard.append(block[0])
        if number == 3:
            sound.push(speech[:700])
            sound.push(speech[700:])
        if number == 9:
            sound.push(speech)
            sound.end()
    wanted = np.zeros(12 * 640, np.float32)
    wanted[4 * 640 : 4 * 640 + 1000] = wanted[10 * 640 : 10 * 640 + 1000] = speech
    assert np.array_equal(np.concatenate(heard), wanted)
    sound.push(speech)
    sound.clear()
    assert list(sound) == []
    with pytest.raises(InvalidValueError, match="shape"):
        sound.push(np.zeros((2, 5), np.float32))


def test_what_can_not_be_played_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="3 channels"):
        audio_frame(live_frame(0, channels=3))
    with pytest.raises(InvalidValueError, match="late after -1"):
        PacedFrames(Frames(Clock(), []), Clock(), late_s=-1)
