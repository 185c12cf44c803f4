"""Motion vectors, rotation and key points against the original's values."""

from __future__ import annotations

import torch
from support import recipes
from support.golden import GoldenFile, cases
from torch import Tensor

from ditto_core.motion.keypoints import (
    degrees_from_logits,
    keypoints,
    pack,
    rotation_matrix,
    transform_keypoints,
    unpack,
)
from ditto_core.networks.motion_extractor import MotionParameters

TOLERANCE = 1e-4  # of each golden array's largest magnitude

FORMS = {
    "scale": ((1, 1), 0.05, 1.3),
    "pitch": ((1, 66), 1.5, 0.0),
    "yaw": ((1, 66), 1.5, 0.0),
    "roll": ((1, 66), 1.5, 0.0),
    "t": ((1, 3), 0.05, 0.0),
    "exp": ((1, 63), 0.05, 0.0),
    "kp": ((1, 63), 0.25, 0.0),
}


def motion(tag: str) -> MotionParameters:
    arrays = {name: recipes.normal(f"{tag}.{name}", *form) for name, form in FORMS.items()}
    return MotionParameters(**{name: torch.from_numpy(array) for name, array in arrays.items()})


def stack(items: list[MotionParameters]) -> MotionParameters:
    return MotionParameters(*(torch.cat(parts) for parts in zip(*items, strict=True)))


def test_degrees():
    golden = GoldenFile.open("geometry")
    logits = recipes.normal("geo.logits", (len(golden["degrees"]), 66), 2.0)
    golden.check("degrees", degrees_from_logits(torch.from_numpy(logits)), tolerance=TOLERANCE)


def test_rotation():
    golden = GoldenFile.open("geometry")
    golden.check("angles", recipes.uniform("geo.deg", golden["angles"].shape, 80, -40), tolerance=0)
    pitch, yaw, roll = torch.from_numpy(golden["angles"])
    golden.check("rot", rotation_matrix(pitch, yaw, roll), tolerance=TOLERANCE)


def test_keypoints_from_logits():
    golden = GoldenFile.open("geometry")
    count = len(golden["x_from_bins"])
    points = keypoints(stack([motion(f"geo.info{i}") for i in range(count)]))
    golden.check("x_from_bins", points, tolerance=TOLERANCE)


def test_keypoints_from_degrees():
    golden = GoldenFile.open("geometry")
    info = motion("geo.info0")
    pitch, yaw, roll = (torch.from_numpy(golden["angles"][i, :1]) for i in range(3))
    points = transform_keypoints(kp=info.kp, exp=info.exp, scale=info.scale, t=info.t, pitch=pitch, yaw=yaw, roll=roll)
    golden.check("x_from_degrees", points, tolerance=TOLERANCE)


def test_motion_vectors():
    golden = GoldenFile.open("geometry")
    count = len(golden["vec_no_kp"])
    infos = stack([motion(f"geo.info{i}") for i in range(count)])
    vectors = pack(infos)
    golden.check("vec_no_kp", vectors, tolerance=TOLERANCE)
    with_kp: Tensor = torch.cat([vectors[0], infos.kp[0]])
    golden.check("vec_with_kp", with_kp, tolerance=TOLERANCE)
    back = unpack(vectors[:1], infos.kp[:1])
    for name in cases("geometry", r"back_(\w+)"):
        golden.check(f"back_{name}", getattr(back, name), tolerance=TOLERANCE)
