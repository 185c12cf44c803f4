"""Conditions, controls, blinks and fades against golden values; float32 within 1e-4 of each array's scale."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from support.golden import FOLDER, GoldenFile, cases
from support.motion import Source
from support.recipes import normal, uniform
from torch import Tensor

from ditto_core.checkpoints.models import recipe_weights
from ditto_core.motion.blink import Blink, blink_table
from ditto_core.motion.conditions import EMOTIONS, Conditions, Emotion
from ditto_core.motion.controls import MotionControls, MotionMixer
from ditto_core.motion.curves import Curve, fade_curve, sample
from ditto_core.motion.keypoints import pack
from ditto_core.networks import OFFICIAL, StitchingNetwork
from ditto_core.networks.motion_extractor import MotionParameters

TOLERANCE = 1e-4
SIZES = {"pitch": 66, "yaw": 66, "roll": 66, "t": 3, "exp": 63, "scale": 1, "kp": 63}
SPREAD = {"pitch": 1.5, "yaw": 1.5, "roll": 1.5, "t": 0.05, "exp": 0.05, "scale": 0.05, "kp": 0.25}


def motion(*tags: str) -> MotionParameters:
    """The recipe's motion of frames."""
    rows = {
        key: np.concatenate(
            [normal(f"{tag}.{key}", (1, size), SPREAD[key], 1.3 if key == "scale" else 0.0) for tag in tags]
        )
        for key, size in SIZES.items()
    }
    return MotionParameters(**{key: torch.tensor(value) for key, value in rows.items()})


def record(tag: str, frames: int) -> Source:
    """The recipe's source record."""
    eye_open = [uniform(f"{tag}.eo{i}", (1, 2), 0.5, 0.3) for i in range(frames)]
    eye_ball = [normal(f"{tag}.eb{i}", (1, 6), 0.02) for i in range(frames)]
    return Source(
        motion=motion(*(f"{tag}.x{i}" for i in range(frames))),
        canonical=torch.tensor(normal(f"{tag}.sc", (63,), 0.25)),
        eye_open=torch.tensor(np.concatenate(eye_open)),
        eye_ball=torch.tensor(np.concatenate(eye_ball)),
        is_image=frames == 1,
    )


def emotion(name: str) -> Any:
    table = uniform("ch.emo", (600, 8), 1.0)
    named = {
        "list34": [3, 4],
        "tuple": (1, 2, 6),
        "listlist": [[4], [3, 4], [3], [3, 4, 5]],
        "array600": table,
        "array1": table[:1],
    }
    return int(name[3:]) if name.startswith("int") else named[name]


def extras(conditions: Conditions, rows: int, first: int) -> Tensor:
    return conditions.rows(torch.zeros(rows, 1024), torch.arange(first, first + rows))[:, 1024:]


@pytest.mark.parametrize("key", cases("condition_handler", r"(\w+\.\w+\.(?:n|f0)\.\d+@-?\d+)"))
def test_condition_rows(key: str) -> None:
    source, spoken, eyes, rows, first = re.fullmatch(r"(\w+)\.(\w+)\.(\w+)\.(\d+)@(-?\d+)", key).groups()
    avatar = record(f"ch.{source}", 7 if source == "video" else 1)
    conditions = Conditions.of(avatar, emotion(spoken), first_frame_eyes=eyes == "f0")
    actual = extras(conditions, int(rows), int(first))[::3]
    GoldenFile.open("condition_handler").check(key, actual, tolerance=TOLERANCE)


@pytest.mark.parametrize("source", cases("condition_handler", r"(\w+)\.ch_info"))
def test_conditions_of_another_character_and_emotion(source: str) -> None:
    golden = GoldenFile.open("condition_handler")
    avatar = record(f"ch.{source}", 7 if source == "video" else 1)
    surprised = extras(Conditions.of(avatar, 6), 80, 0)
    golden.check(f"{source}.override_emo6", surprised[::9], tolerance=TOLERANCE)
    other = extras(Conditions.of(record("ch.other", 3)), 80, 0)
    golden.check(f"{source}.ch_info", other, tolerance=TOLERANCE)


def test_one_label_each_and_parts_left_out() -> None:
    golden = GoldenFile.open("condition_handler")
    golden.check("emo_onehot", torch.cat([Emotion.of(name).table for name in EMOTIONS]), tolerance=TOLERANCE)
    whole = Conditions.of(record("ch.image", 1))
    eyes = ["eye_open", "eye_ball"]
    left_out = {"use_emo": ["emotion"], "use_sc": ["canonical"], "use_eye_open_use_eye_ball": eyes}
    for name, parts in left_out.items():
        rows = extras(dataclasses.replace(whole, **dict.fromkeys(parts)), 3, 0)
        golden.check(f"dim_{name}", np.int64(1024 + rows.shape[1]), tolerance=0)


def table(name: str) -> dict[str, Any]:
    path = FOLDER / f"golden_{name}.json"
    return json.loads(path.read_text()) if path.is_file() else {}


@pytest.mark.parametrize("key", table("blink_tables"))
def test_blink_times(key: str) -> None:
    count, pauses = re.fullmatch(r"N(\d+)_open(.*)", key).groups()
    drawn = re.fullmatch(r"0_random\.seed\((\d+)\)", pauses)
    if drawn:
        ours = blink_table(int(count), 15, None, int(drawn[1]))
    else:
        value = ast.literal_eval(pauses)
        never = value == -1
        given = tuple(value) if isinstance(value, list) else (value,)
        ours = blink_table(int(count), 15, () if never else given)
    GoldenFile.open("blink_tables").check(key, ours, tolerance=0)


@pytest.mark.parametrize("key", table("fade_tables"))
def test_fades(key: str) -> None:
    """The original lets the fall replace the rise, so that a short video starts at more than 0, with a jump.

    Ours takes the lower one: both ends are at 0.
    """
    golden = GoldenFile.open("fade_tables")
    count, rise, fall = (int(n) for n in re.fullmatch(r"N(\d+)_in(-?\d+)_out(-?\d+)", key).groups())
    entries = golden[key].items()
    stored = {int(frame): entry["fade_alpha"] for frame, entry in entries if "fade_alpha" in entry}
    frames = torch.tensor(sorted(set(stored) | set(range(count))))
    expected = np.array([stored.get(int(frame), 1.0) for frame in frames])
    upstream = sample(fade_curve(count, rise, fall, upstream=True), frames)
    GoldenFile("fade_tables", {key: expected}).check(key, upstream, tolerance=TOLERANCE)
    ours = fade_curve(count, rise, fall)
    if rise > 0:
        assert ours.at(0) == 0
    if rise + fall < count:
        assert torch.equal(sample(ours, frames), upstream)


def is_image(case: str) -> bool:
    return case.startswith("image")


def stitch_options(case: str, n: int, golden: GoldenFile) -> dict[str, Any]:
    """A case's options as controls; the table of the golden files' manifest."""
    blink = {"image_delta_eye": ((5, 3), 60), "image_delta_eye_fix": ((8,), 60)}
    blink |= {"image_released_like": ((6, 4), 60), "video_delta_eye": ((5,), 50)}
    scaled = {"exp": 0.8, "pitch": 0.5, "yaw": 0.5, "roll": 0.5, "t": 0.3}
    fading: dict[str, Any] = {"fade": Curve.of([1 - i / (n - 1) for i in range(n)])} if "fade" in case else {}
    if "fade_s" in case:
        fading["fade_to"] = "source"
    character = {"character_scale": float(motion("ms.ch_source").scale)}
    options: dict[str, dict[str, Any]] = {
        "image_absolute": {"relative": False},
        "image_no_drive_eye": {"drive_eyes": False},
        "image_keys_dict": {"drive": scaled},
        "image_keys_dict_abs": {"drive": scaled, "relative": False},
        "image_keys_exp": {"drive": ("exp",)},
        "image_fade_none": {"fade": 1.0},
        "image_fade_s_keys": {"fade_parts": ("exp", "t", "pitch", "yaw", "roll", "scale")},
        "image_vad": {"voice": 0.4},
        "image_delta_pose": {"pitch": 2.0, "yaw": -5.0, "roll": 3.5},
        "image_alpha_pose": {"pitch_factor": 0.5, "yaw_factor": 1.5, "roll": 4.0, "roll_factor": 0.5},
        "image_delta_exp": {"expression_delta": torch.tensor(normal("ms.delta_exp", (1, 63), 0.03))[0]},
        "image_ch_info": character,
        "image_ch_info_dict": character | {"drive": {"exp": 0.8, "t": 0.3}},
        "image_released_like": character
        | {"pitch": 2.0, "fade": Curve.of([1 - i / (n - 1) for i in range(n)]), "fade_parts": ("exp",)},
        "video_drive_eye": {"drive_eyes": True},
        "video_delta_eye": {"drive_eyes": True},
        "video_absolute_pose": {"relative": False, "drive": ("exp", "pitch", "yaw", "roll", "t")},
    }
    chosen = fading | options.get(case, {})
    if case in blink:
        pauses, period = blink[case]
        chosen["blink"] = Blink(delta=torch.tensor(golden["delta_eye"]), pauses=pauses, period=period)
    return chosen


def stitch_source(case: str) -> Source:
    first = motion("ms.source")
    if is_image(case):
        rows = first
    else:
        moves = {
            key: np.concatenate(
                [np.zeros((1, size), np.float32)]
                + [normal(f"ms.vid{j}.{key}", (1, size), 0.0 if key == "kp" else 0.02) for j in range(1, 7)]
            )
            for key, size in SIZES.items()
        }
        rows = MotionParameters(**{key: getattr(first, key) + torch.tensor(move) for key, move in moves.items()})
    zeros = torch.zeros(len(rows.exp), 6)
    return Source(rows, first.kp[0], zeros[:, :2], zeros, is_image(case))


def recipe_stitching() -> StitchingNetwork:
    network = StitchingNetwork(OFFICIAL).eval()
    network.load_state_dict(recipe_weights("stitch_network", OFFICIAL))
    return network


@pytest.mark.parametrize("case", cases("motion_stitch", r"(.+)\.x_d"))
def test_driving_key_points(case: str) -> None:
    golden = GoldenFile.open("motion_stitch")
    n = len(golden[f"{case}.x_d"])
    driving = pack(motion(*(f"ms.d{i}" for i in range(n))))
    controls = MotionControls(**stitch_options(case, n, golden), upstream=True)
    mixer = MotionMixer(stitch_source(case), controls, reference=driving[0], first=driving[0])
    x_s, x_d = mixer(driving, torch.arange(n))
    if "no_stitch" not in case:
        with torch.inference_mode():
            x_d = recipe_stitching()(x_s, x_d)
    golden.check(f"{case}.x_s", x_s[:1] if is_image(case) else x_s, tolerance=TOLERANCE)
    golden.check(f"{case}.x_d", x_d, tolerance=TOLERANCE)
