"""The miniature's evaluation: what counts as a goal met, and the whole command once."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from ditto_core.media import read_image
from ditto_core.quality import FaceTrack, opening
from tools.miniature import evaluate
from tools.miniature.corpus import ROW_SAMPLES, TARGETS
from tools.miniature.evaluate_motion import Speech
from tools.reports import goal


def told(frames: int = 300) -> Speech:
    """Syllables, with a closure now and then."""
    time = np.arange(frames) / 25
    targets = np.zeros((frames, len(TARGETS)), np.float32)
    targets[:, 0] = np.clip(0.5 + 0.4 * np.sin(2 * np.pi * (2.3 * time + np.sin(time))), 0.15, 1)
    for frame in range(12, frames, 17):
        targets[frame - 1 : frame + 2, 0] = 0.05, 0, 0.05
        targets[frame, TARGETS.index("closed")] = 1
    return Speech(samples=np.zeros(frames * ROW_SAMPLES, np.float32), targets=targets)


def goals_met(apertures: np.ndarray) -> list[bool]:
    found = evaluate.lips([told()], [opening(apertures)])
    return [item["met"] for item in evaluate.lip_goals(evaluate.NEW, found)]


def test_only_a_mouth_that_speaks_in_time_meets_the_lip_goals():
    """r, lag, closures, frames wrongly shut."""
    meant = 300 * told().targets[:, 0]
    assert goals_met(meant) == [True] * 4
    assert goals_met(np.zeros_like(meant)) == [False] * 4  # no dark pixel in any frame
    assert goals_met(np.full_like(meant, 200)) == [False, False, False, True]
    assert not all(goals_met(np.roll(meant, 2)))
    assert not all(goals_met(np.repeat(meant[::10], 10)))  # a mouth that is drawn every tenth frame only


def test_a_value_that_is_missing_meets_no_goal():
    assert not goal("lag", None, most=1)["met"]
    assert goal("lag", 1, most=1) == {"goal": "lag", "limit": "<= 1", "value": 1, "met": True}
    assert not goal("r", 0.89, least=0.9)["met"]


def test_the_opening_of_key_points_is_counted_from_shut_lips():
    shut = np.array([[0, 10], [10, 5], [20, 10], [10, 15.0]])
    mouths = np.stack([shut + np.array([[0, 0], [0, 0], [0, 0], [0, drop]]) for drop in (0, 0, 5, 20)])
    assert evaluate.lip_opening(FaceTrack(mouths=mouths)).round(1).tolist() == [0, 0, 0.3, 1.1]


@pytest.mark.long
def test_the_command_measures_the_whole_chain(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["evaluate", "--small", "--out", str(tmp_path)])
    evaluate.main()
    report = json.loads((tmp_path / "evaluation.json").read_text())
    assert json.loads(capsys.readouterr().out) == report
    goals = {item["goal"]: item for item in report["goals"]}
    assert len(goals) == 16
    assert goals["psnr in dB: itself"]["value"] > 28
    assert goals["mean step across the paste border above that beside it"]["met"]
    for kind in (evaluate.NEW, evaluate.OTHER):
        assert report["lips_by_key_points"][kind]["r"] > 0.7
        assert abs(report["lips_by_key_points"][kind]["lag_frames"]) <= 1
    for name in ("held_out.png", "emotions.png"):
        assert min(read_image(tmp_path / name).shape[:2]) > 500
