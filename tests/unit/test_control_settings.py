"""Settings of controls, emotions as text, and where somebody speaks: what the canvas and the command line ask for."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.errors import InvalidValueError
from ditto_core.motion.conditions import EMOTIONS, Emotion
from ditto_core.motion.controls import MotionControls
from ditto_core.motion.schedule import read_schedule
from ditto_core.motion.settings import ControlSettings
from ditto_core.speech import Sound
from ditto_core.speech.activity import speech_activity


def tone_between(start: float, stop: float, seconds: float, level: float = 0.3) -> Sound:
    """A tone from `start` to `stop`, else faint noise 54 dB below."""
    times = np.arange(round(seconds * 24000)) / 24000
    sound = np.where((times >= start) & (times < stop), level * np.sin(times * 2000), 0)
    noise = np.random.default_rng(0).normal(0, level * 0.002, len(times))
    return Sound((sound + noise).astype(np.float32)[None], 24000)


def test_without_settings_nothing_is_changed() -> None:
    assert ControlSettings().controls(50, tone_between(0, 1, 2)) == MotionControls()


settings_of_any = st.builds(
    ControlSettings,
    pitch=st.integers(-30, 30).map(float),
    expression_scale=st.sampled_from((0.5, 1.0, 2.0)),
    fade_in=st.sampled_from((0.0, 0.4)),
    blinks=st.booleans(),
    rest_in_pauses=st.booleans(),
)


@given(settings_of_any, settings_of_any, settings_of_any)
def test_settings_add_up_in_any_grouping(a: ControlSettings, b: ControlSettings, c: ControlSettings) -> None:
    assert a.then(b).then(c) == a.then(b.then(c)) and a.then(ControlSettings()) == a == ControlSettings().then(a)
    both = a.then(b)
    assert both.pitch == a.pitch + b.pitch and both.expression_scale == a.expression_scale * b.expression_scale


def test_fades_reach_over_their_seconds() -> None:
    fade = ControlSettings(fade_in=0.4, fade_out=0.2).controls(50, tone_between(0, 1, 2)).fade
    assert [fade.at(frame) for frame in (0, 5, 10, 44, 49)] == [0, 0.5, 1, 1, 0]


def test_eyes_without_blinks_stay_the_sources() -> None:
    blink = ControlSettings(blinks=False).controls(50, tone_between(0, 1, 2)).blink
    assert not blink.at(torch.arange(3000)).any()


def test_lips_rest_in_pauses() -> None:
    voice = ControlSettings(rest_in_pauses=True).controls(100, tone_between(1, 2, 4)).voice
    assert voice.at(10) == 0 and voice.at(37) == 1 and voice.at(90) == 0


@pytest.mark.parametrize("settings", [{"pitch": float("nan")}, {"fade_in": -1.0}, {"fade_out": float("inf")}])
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(settings))):
        ControlSettings(**settings)


@given(start=st.integers(1, 20), length=st.integers(4, 20), level=st.sampled_from((0.01, 0.1, 0.9)))
def test_activity_covers_the_tone_with_some_margin(start: int, length: int, level: float) -> None:
    begin, end = start / 5, (start + length) / 5
    activity = speech_activity(tone_between(begin, end, end + 2, level))
    inside = slice(round(begin * 25), round(end * 25))
    assert activity[inside].min() == 1 and len(activity) == round((end + 2) * 25)
    assert not activity[round(end * 25) + 8 :].any() and not activity[: max(0, inside.start - 8)].any()
    assert activity.min() >= 0 and activity.max() <= 1


def test_silence_is_no_speech() -> None:
    assert not speech_activity(Sound(np.zeros((1, 16000), np.float32), 16000)).any()


def test_a_schedule_is_read() -> None:
    text = "# start\n0 neutral\n\n 2.5 happy   # now\n4 happy 0.6, sad 0.2"
    frames = torch.tensor([0, 62, 63, 99, 100, 500])
    wanted = Emotion.at_seconds({0.0: "neutral", 2.5: "happy", 4.0: {"happy": 0.6, "sad": 0.2}}, fade=0.4)
    assert torch.equal(read_schedule(text, fade=0.4).at(frames), wanted.at(frames))
    assert int(wanted.at(torch.tensor([500]))[0].argmax()) == EMOTIONS.index("happy")


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "without emotions"),
        ("# nothing", "without emotions"),
        ("0", "line 1"),
        ("0 neutral\nsoon happy", "line 2 of the emotions, 'soon happy'"),
        ("-1 happy", "line 1"),
        ("nan happy", "line 1"),
        ("0 happy\n0 sad", "line 2"),
        ("0 happy 0.5, happy 0.5", "line 1"),
        ("0 happy 0.5 sad", "line 1"),
        ("0 glad", "emotion 'glad'"),
        ("0 happy -1, sad 1", "emotion weights"),
        ("0 happy\n0.1 sad", "fade of 10 frames"),
        ("0 happy\n" * 1001, "1001 lines"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_told(text: str, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        read_schedule(text, fade=0.4)


def test_settings_never_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ControlSettings().pitch = 3.0
