"""Joining, smoothing and the motion stage against golden values; float32 within 1e-4 of each scale."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch
from support.golden import FOLDER, GoldenFile, cases
from support.recipes import normal
from torch import Tensor

from ditto_core.motion.conditions import Conditions, Emotion
from ditto_core.motion.generate import MotionStream, WindowSampler
from ditto_core.motion.keypoints import pack, unpack
from ditto_core.motion.order import source_index
from ditto_core.motion.smoothing import centred_mean
from ditto_core.motion.windows import Joined, clamp_motion, join, take, window_start
from ditto_core.networks.motion_extractor import MotionParameters
from ditto_core.pipeline.plan import Plan, named_plan

TOLERANCE = 1e-4
CLIPS = 4


def source_motion(tag: str, frames: int = 1) -> MotionParameters:
    """The recipe's motion of source frames; tags {tag}0, {tag}1, ... where it ends in ".x"."""
    shapes = {"pitch": 66, "yaw": 66, "roll": 66, "t": 3, "exp": 63, "scale": 1, "kp": 63}
    spread = {"pitch": 1.5, "yaw": 1.5, "roll": 1.5, "t": 0.05, "exp": 0.05, "scale": 0.05, "kp": 0.25}
    tags = [f"{tag}{i}" for i in range(frames)] if tag.endswith(".x") else [tag]
    rows = {
        key: np.concatenate(
            [normal(f"{t}.{key}", (1, size), spread[key], 1.3 if key == "scale" else 0.0) for t in tags]
        )
        for key, size in shapes.items()
    }
    return MotionParameters(**{key: torch.tensor(value) for key, value in rows.items()})


def fake_sampler(tag: str) -> WindowSampler:
    """The golden files' sampler: predictions of the recipe, moved by the start and the condition."""

    def sample(window: int, condition: Tensor, start: Tensor) -> Tensor:
        prediction = torch.tensor(normal(f"{tag}.pred{window}", (1, 80, 265)))
        return 0.3 * prediction + 0.25 * start[:, None] + 0.5 * condition[:, :, :265]

    return sample


def configured(name: str) -> Plan:
    """The plan of a configuration's name: online70_fix1, offline10_smo5, ..."""
    base, _, change = name.partition("_")
    kind, overlap = base.rstrip("0123456789"), int(base.lstrip("oflinex"))
    plan = dataclasses.replace(named_plan(f"upstream-{kind}", chunk=80 - overlap), reset_every=0, smooth_again=False)
    changes: dict[str, dict[str, Any]] = {
        "": {},
        "fix1": {"reset_every": 1, "reset_spares": (0, 202)},
        "fix2": {"reset_every": 2, "reset_spares": (0, 0)},
        "smo1": {"smoothing": 1},
        "smo5": {"smoothing": 5},
    }
    return dataclasses.replace(plan, **changes[change])


@pytest.mark.parametrize("name", cases("audio2motion", r"(.+)\.res"))
def test_windows_join_as_in_the_original(name: str) -> None:
    golden, plan, sample = GoldenFile.open("audio2motion"), configured(name), fake_sampler("a2m")
    source = pack(source_motion("a2m.source"))[0]
    golden.check("s_kp_cond", source[None], tolerance=TOLERANCE)
    state, rows, starts = Joined(), torch.zeros(0, 265), []
    for clip in range(CLIPS):
        starts.append(window_start(plan, state, source))
        condition = torch.tensor(normal(f"a2m.cond{clip}", (1, 80, 1103)))
        state = join(plan, state, sample(clip, condition, starts[-1][None])[0])
        golden.check(f"{name}.len{clip}", np.int64(state.end), tolerance=0)
        rows = torch.cat([rows[: state.first], state.rows])
        _, state = take(plan, state)
    golden.check_slice(f"{name}.res", rows[None], tolerance=TOLERANCE)
    golden.check(f"{name}.kp_cond_seen", torch.stack(starts), tolerance=TOLERANCE)
    golden.check(f"{name}.kp_cond_final", window_start(plan, state, source)[None], tolerance=TOLERANCE)


@pytest.mark.parametrize("span", cases("audio2motion", r"smo_(\d+_\d+)"))
def test_the_pose_is_smoothed_over_a_span(span: str) -> None:
    golden = GoldenFile.open("audio2motion")
    start, stop = map(int, span.split("_"))
    rows = torch.tensor(normal("a2m.smo_in", (1, 20, 265)))[0]
    rows[start:stop, :202] = centred_mean(rows[:, :202].clone(), 3, start, stop)
    golden.check(f"smo_{span}", rows[None], tolerance=TOLERANCE)


def test_motion_is_clamped_between_bounds() -> None:
    golden = GoldenFile.open("audio2motion")
    rows = torch.tensor(normal("a2m.clip_in", (1, 6, 265)))[0]
    clamped = clamp_motion(rows, torch.tensor(golden["clip_minmax"]))
    golden.check("clip_out_vec", clamped, tolerance=TOLERANCE)
    motion = unpack(clamped, torch.zeros(1, 63))
    golden.check("clip_out_scale", motion.scale[:, None], tolerance=TOLERANCE)
    golden.check("clip_out_exp", motion.exp[:, None], tolerance=TOLERANCE)


@pytest.mark.parametrize("width", cases("smooth_source", r"k(\d+)\.exp"))
def test_source_motion_is_smoothed(width: int) -> None:
    golden = GoldenFile.open("smooth_source")
    motion = source_motion("smooth.x", len(golden[f"k{width}.exp"]))
    for name, part in motion._asdict().items():
        golden.check(f"k{width}.{name}", centred_mean(part, width)[:, None], tolerance=TOLERANCE)


@pytest.mark.parametrize("count", cases("mirror_index", r"(\d+)"))
def test_source_frames_go_forth_and_back(count: int) -> None:
    golden = GoldenFile.open("mirror_index")
    frames = torch.arange(len(golden[str(count)]))
    golden.check(str(count), source_index(frames, count), tolerance=0)


def flow_stream(plan: Plan, source_frames: int) -> MotionStream:
    conditions = Conditions(
        source=pack(source_motion("flow.src.x", source_frames))[0],
        emotion=Emotion.of("neutral"),
        eye_open=torch.zeros(source_frames, 2),
        eye_ball=torch.zeros(source_frames, 6),
        canonical=torch.zeros(63),
    )
    return MotionStream(plan, conditions, fake_sampler("flow"), silence=torch.zeros(plan.silence, 1024))


def speech(rows: int) -> Tensor:
    return torch.tensor(normal("flow.feat", (400, 1024)))[:rows]


def run_all(stream: MotionStream) -> Tensor:
    rows = [torch.zeros(0, 265)]
    while (final := stream.step()) is not None:
        rows.append(final)
    return torch.cat(rows)


def table() -> dict[str, Any]:
    """The stored counts of the motion flow; {} where the folder lacks them."""
    path = FOLDER / "golden_motion_flow.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def flow_plan(name: str) -> Plan:
    """The plan of a case's name: online70_n50, online70_fix1_n55, online70_one_item_n200, ..."""
    base = name.partition("_")[0]
    if base == "offline10":
        return named_plan("upstream-offline")
    return configured(f"{base}_fix1" if "_fix1_" in name else base)


def check_vectors(name: str, rows: Tensor) -> None:
    golden = GoldenFile.open("motion_flow")
    if f"{name}.vec" in golden:
        golden.check_slice(f"{name}.vec", rows, tolerance=TOLERANCE)


@pytest.mark.parametrize("name", [name for name in table() if not name.startswith("onlinefile")])
def test_the_motion_stage_runs_as_the_original(name: str) -> None:
    case, plan = table()[name], flow_plan(name)
    counts = GoldenFile("motion_flow", case)
    source_frames = 1 + max(case["frame_idx"], default=0)
    stream = flow_stream(plan, source_frames)
    features = speech(case["n_feat"])
    shown_before, rows = [0], []
    for item in features.split(400 if "one_item" in name or "offline" in name else 5):
        stream.push(item)
        rows.append(run_all(stream))
        if len(item):
            shown_before.append(sum(map(len, rows)))
    stream.finish()
    rows.append(run_all(stream))
    shown = torch.cat(rows)
    counts.check("clips", np.int64(stream.windows), tolerance=0)
    counts.check("emitted", np.int64(len(shown)), tolerance=0)
    assert source_index(torch.arange(len(shown)), source_frames).tolist() == case["frame_idx"]
    if "frames_out_before_each_get" in case:
        counts.check("frames_out_before_each_get", np.array(shown_before), tolerance=0)
    check_vectors(name, shown)
    golden = GoldenFile.open("motion_flow")
    if f"{name}.d0" in golden:
        golden.check(f"{name}.d0", stream.reference, tolerance=TOLERANCE)


@pytest.mark.parametrize("name", [name for name in table() if name.startswith("onlinefile")])
def test_files_through_the_originals_online_worker(name: str) -> None:
    """The original's online worker for files runs a window less where the last one would only blend.

    75 rows: one window of 80 there; ours starts a second at row 70, so that rows 70..74 are blended like
    those of every other joint. The rows of as many windows are equal.
    """
    case = table()[name]
    rows_in = case["n_feat"]
    plan = dataclasses.replace(configured("offline10"), ending="exact")
    stream = flow_stream(plan, 1)
    stream.push(speech(rows_in))
    stream.finish()
    shown = run_all(stream)
    only_blending = rows_in > 10 and (rows_in - 1) % 70 < 10
    assert stream.windows == case["clips"] + only_blending
    assert len(shown) == case["emitted"] == rows_in
    same = 70 if only_blending else rows_in
    golden = GoldenFile.open("motion_flow")
    key = f"{name.replace('_not_online', '')}.vec"
    columns = -(-265 // golden[key].shape[1])
    GoldenFile("motion_flow", {key: golden[key][:same]}).check(key, shown[:same, ::columns], tolerance=TOLERANCE)


@pytest.mark.parametrize(("rows", "theirs"), [(5, 0), (10, 20), (25, 30), (50, 60)])
def test_our_plans_show_each_frame_of_the_sound_and_no_more(rows: int, theirs: int) -> None:
    """The original shows nothing of short sound, and more than there is of any other.

    Its first window only sets the reference; at the end it shows its whole last window, made from repeated
    features.
    """
    upstream = named_plan("upstream-online")
    exact = dataclasses.replace(upstream, ending="exact")
    shown = {}
    for plan in (upstream, exact):
        stream = flow_stream(plan, 1)
        stream.push(speech(rows))
        stream.finish()
        shown[plan.ending] = run_all(stream)
    assert len(shown["upstream-online"]) == theirs
    assert len(shown["exact"]) == rows
    common = min(theirs, rows - 10)
    if common > 0:
        assert torch.equal(shown["exact"][:common], shown["upstream-online"][:common])
