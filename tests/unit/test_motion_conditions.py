"""Emotions as users write them, and the rows that the sampler reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.errors import InvalidValueError
from ditto_core.motion.conditions import EMOTIONS, Conditions, Emotion


def row(value: Any) -> torch.Tensor:
    return Emotion.of(value).at(torch.tensor([0]))[0]


@pytest.mark.parametrize("name", EMOTIONS)
def test_a_name_its_number_and_its_whole_weight_are_one(name: str) -> None:
    number = EMOTIONS.index(name)
    assert float(row(name)[number]) == pytest.approx(0.99766, abs=1e-5)
    for same in (number, np.int64(number), {name: 3.0}, [name]):
        assert torch.equal(row(same), row(name))


@given(st.floats(0.01, 1))
def test_a_blend_lies_between_its_emotions(share: float) -> None:
    blend = row({"happy": share, "sad": 1 - share})
    torch.testing.assert_close(blend, row("happy") * share + row("sad") * (1 - share), atol=1e-6, rtol=0)
    assert float(blend.sum()) == pytest.approx(1, abs=1e-5)


def test_a_schedule_passes_from_one_emotion_to_the_next() -> None:
    emotion = Emotion.at_seconds({1.0: "neutral", 3.0: "happy"}, fade=0.16)
    happy = emotion.at(torch.arange(100))[:, EMOTIONS.index("happy")]
    assert float(happy[:75].max()) < 0.001
    assert happy[75:79].diff().min() > 0.1
    assert float(happy[79:].min()) == pytest.approx(0.99766, abs=1e-5)
    assert float(Emotion.at_frames({5: "sad"}).at(torch.tensor([0]))[0, EMOTIONS.index("sad")]) > 0.99


def test_a_table_repeats() -> None:
    table = torch.rand(3, 8)
    assert torch.equal(Emotion.of(table.numpy()).at(torch.tensor([0, 4, 8])), table[[0, 1, 2]])


@pytest.mark.parametrize(
    "wrong",
    [
        "cheerful",
        8,
        -1,
        True,
        [],
        {},
        {"happy": -1.0},
        {"happy": 0.0},
        {"happy": float("nan")},
        np.zeros((3, 7)),
        np.full((3, 8), np.nan),
        [["happy"], []],
        None,
    ],
)
def test_wrong_emotions_are_refused_with_the_names(wrong: Any) -> None:
    with pytest.raises(InvalidValueError, match="Give|Name one of angry"):
        Emotion.of(wrong)


def test_wrong_schedules_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="fade"):
        Emotion.at_frames({0: "happy", 3: "sad"}, fade=5)
    with pytest.raises(InvalidValueError, match="without"):
        Emotion.at_frames({})
    with pytest.raises(InvalidValueError, match="times"):
        Emotion(table=torch.zeros(2, 8), starts=(0,))


def test_eyes_follow_the_source_frame_and_silence_uses_the_first() -> None:
    conditions = Conditions(
        source=torch.zeros(265),
        emotion=None,
        eye_open=torch.tensor([[0.1, 0.1], [0.2, 0.2]]),
        eye_ball=None,
        canonical=None,
    )
    rows = conditions.rows(torch.zeros(6, 4), torch.arange(-2, 4))
    assert rows.shape == (6, 6)
    assert rows[:, 4].tolist() == pytest.approx([0.1, 0.1, 0.1, 0.2, 0.2, 0.1])
