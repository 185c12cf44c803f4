"""The evaluation of streaming: jumps at borders, lips that come late, and the whole command once."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from tools.miniature import evaluate_streaming
from tools.miniature.evaluate import NEW
from tools.miniature.evaluate_streaming import border_frames, border_goals, borders, lip_goals, plans

PLANS = plans((4, 8, 16, 25))


def steps(frames: int = 200) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1, frames)


def all_met(course: np.ndarray, chunk: int, cadence: int) -> bool:
    found = borders([course], PLANS[f"low-latency, chunk {chunk}"], cadence)
    return all(item["met"] for item in border_goals("run", found))


@pytest.mark.parametrize("chunk", [4, 8, 16, 25])
@pytest.mark.parametrize("cadence", [1, 2])
def test_a_jump_at_a_chunks_border_is_caught_and_one_elsewhere_is_not(chunk, cadence):
    assert all_met(steps(), chunk, cadence)
    jumping, moving = steps(), steps()
    jumping[5 * chunk] = 1.5
    assert not all_met(jumping, chunk, cadence)
    moving[6 * chunk - 2] = 1.5
    assert all_met(moving, chunk, cadence)


def test_at_cadence_2_the_borders_of_pieces_count_too():
    plan = PLANS["low-latency, chunk 4"]
    assert np.flatnonzero(border_frames(17, plan, 1)).tolist() == [4, 8, 12, 16]
    assert np.flatnonzero(border_frames(17, plan, 2)).tolist() == [3, 4, 7, 8, 11, 12, 15, 16]


def test_a_jump_within_a_blend_is_caught_where_a_blend_ends():
    course = steps()
    course[3 * 25 + 4] = 1.5
    assert not all_met(course, 25, 1) and all_met(course, 4, 1)


def test_lips_that_lose_more_than_the_offline_plan_meet_no_goal():
    good = {"r": 0.90, "lag_frames": 0, "closed": 1.0, "wrongly_shut": 0.0}
    bad = {"r": 0.86, "lag_frames": 2, "closed": 0.8, "wrongly_shut": 0.1}
    assert all(item["met"] for item in lip_goals("run", {NEW: {**good, "r": 0.88}}, {NEW: good}, "r"))
    assert not any(item["met"] for item in lip_goals("run", {NEW: bad}, {NEW: good}, "r"))
    assert not lip_goals("run", {NEW: {**good, "lag_frames": None}}, {NEW: good}, "r")[1]["met"]


@pytest.mark.long
def test_the_command_measures_plans_and_chunks(tmp_path, monkeypatch):
    out = tmp_path / "streaming.json"
    monkeypatch.setattr(sys, "argv", ["streaming", "--small", "--out", str(out)])
    evaluate_streaming.main()
    report = json.loads(out.read_text())
    names = {"offline, chunk 70", "upstream-online, chunk 10", "low-latency, chunk 8", "low-latency, chunk 16"}
    assert set(report["by_key_points"]) == names
    assert set(report["by_pictures"]) == names | {
        f"{name}, cadence 2" for name in names if not name.startswith("upstream")
    }
    for row in report["by_key_points"].values():
        assert row["lips"][NEW]["r_open"] > 0.8
    assert {row["frames"] for row in report["by_pictures"].values()} == {
        report["by_pictures"]["offline, chunk 70"]["frames"]
    }
