"""The networks at official size, with recipe weights, folded, against the original's outputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import recipes
from support.golden import GoldenFile, cases
from support.models import official
from torch import Tensor

from ditto_core.motion.keypoints import degrees_from_logits, keypoints

# of each golden array's largest magnitude; the original differs from itself by up to 6.4e-5 between thread counts
TOLERANCE = 1e-4


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array)


@pytest.fixture(autouse=True)
def _inference():
    with torch.inference_mode():
        yield


def check_image(golden: GoldenFile, suffix: str, image: Tensor) -> None:
    """A decoder's picture: strided slice, statistics, and a patch at rows 200.., columns 300.. ."""
    golden.check_slice(f"image_sub{suffix}", image, tolerance=TOLERANCE)
    golden.check_stats(f"image_stats{suffix}", image, tolerance=TOLERANCE)
    height, width = golden[f"image_patch{suffix}"].shape[2:]
    golden.check(f"image_patch{suffix}", image[:, :, 200 : 200 + height, 300 : 300 + width], tolerance=TOLERANCE)


def test_appearance_extractor():
    golden = GoldenFile.open("appearance_extractor")
    image = recipes.image_chw("appearance.image")
    golden.check_stats("image_stats", image, tolerance=1e-12)
    f_s = official().appearance_extractor(tensor(image))
    golden.check_slice("f_s_sub", f_s, tolerance=TOLERANCE)
    golden.check_stats("f_s_stats", f_s, tolerance=TOLERANCE)
    golden.check("f_s_channel_mean", f_s.mean((0, 2, 3, 4)), tolerance=TOLERANCE)
    golden.check("f_s_channel_std", f_s.std((0, 2, 3, 4), correction=0), tolerance=TOLERANCE)


@pytest.mark.parametrize("i", cases("motion_extractor", r"pitch_(\d+)"))
def test_motion_extractor(i):
    golden = GoldenFile.open("motion_extractor")
    image = recipes.image_chw(f"motion.image{i}")
    golden.check_stats(f"image{i}_stats", image, tolerance=1e-12)
    for name, value in official().motion_extractor(tensor(image))._asdict().items():
        golden.check(f"{name}_{i}", value, tolerance=TOLERANCE)


@pytest.mark.parametrize("i", cases("stitch_network", r"x_s(\d+)"))
def test_stitching(i):
    golden = GoldenFile.open("stitch_network")
    x_s, x_d = tensor(golden[f"x_s{i}"]), tensor(golden[f"x_d{i}"])
    before = x_d.clone()
    golden.check(f"out{i}", official().stitch_network(x_s, x_d), tolerance=TOLERANCE)
    assert torch.equal(x_d, before), "the driving key points given were changed"


@pytest.mark.parametrize("i", cases("warp_network", r"x_s(\d+)"))
def test_warp(i):
    golden = GoldenFile.open("warp_network")
    volume = recipes.normal("warp.f_s", (1, 32, 16, 64, 64), 1.5)
    golden.check_stats("f_s_stats", volume, tolerance=1e-12)
    f_s, x_s, x_d = tensor(volume), tensor(golden[f"x_s{i}"]), tensor(golden[f"x_d{i}"])
    network = official().warp_network
    motion = network.dense_motion_network(f_s, x_s, x_d)
    golden.check_slice(f"deformation_sub{i}", motion.deformation, tolerance=TOLERANCE)
    golden.check_stats(f"deformation_stats{i}", motion.deformation, tolerance=TOLERANCE)
    golden.check(f"occlusion{i}", motion.occlusion, tolerance=TOLERANCE)
    golden.check_slice(f"mask_sub{i}", motion.mask, tolerance=TOLERANCE)
    deformed, occlusion = network.deform(f_s, x_s, x_d)
    # the volume is white noise: a shift of 1e-5 of a cell shows, and the original's own rounding takes 5e-5
    golden.check_slice(f"deformed_sub{i}", deformed, tolerance=TOLERANCE, stats=f"deformed_stats{i}")
    golden.check_stats(f"deformed_stats{i}", deformed, tolerance=TOLERANCE)
    feature = network.project(deformed, occlusion)
    golden.check_slice(f"out_sub{i}", feature, tolerance=TOLERANCE)
    golden.check_stats(f"out_stats{i}", feature, tolerance=TOLERANCE)


@pytest.mark.parametrize("i", cases("decoder", r"image_sub(\d+)"))
def test_decoder(i):
    golden = GoldenFile.open("decoder")
    feature = recipes.normal(f"decoder.feature{i}", (1, 256, 64, 64))
    golden.check_stats(f"feature_stats{i}", feature, tolerance=1e-12)
    check_image(golden, str(i), official().decoder(tensor(feature)))


def test_tail():
    """What a fused engine computes: third, fourth, occlusion, decoder."""
    golden = GoldenFile.open("tail")
    deformed = recipes.normal("tail.deformed", (1, 512, 64, 64), 1.2)
    golden.check_stats("deformed_stats", deformed, tolerance=1e-12)
    feature = official().warp_network.project(tensor(deformed), tensor(golden["occlusion"]))
    golden.check_slice("feature_sub", feature, tolerance=TOLERANCE)
    golden.check_stats("feature_stats", feature, tolerance=TOLERANCE)
    check_image(golden, "", official().decoder(feature))


def test_chain():
    """Two pictures through all networks that draw: the source's identity with the driving picture's motion."""
    golden, models = GoldenFile.open("chain"), official()
    image, driving_image = tensor(recipes.image_chw("chain.source")), tensor(recipes.image_chw("chain.driving"))
    source, driving = models.motion_extractor(image), models.motion_extractor(driving_image)
    for name, motion in (("source", source), ("driving", driving)):
        angles = torch.cat([degrees_from_logits(a) for a in (motion.pitch, motion.yaw, motion.roll)])
        golden.check(f"degrees_{name}", angles, tolerance=TOLERANCE)
    x_s = keypoints(source)
    x_d = keypoints(source._replace(exp=driving.exp, pitch=driving.pitch, yaw=driving.yaw, roll=driving.roll))
    golden.check("x_s", x_s, tolerance=TOLERANCE)
    golden.check("x_d", x_d, tolerance=TOLERANCE)
    x_d = models.stitch_network(x_s, x_d)
    golden.check("x_d_stitched", x_d, tolerance=TOLERANCE)
    feature = models.warp_network(models.appearance_extractor(image), x_s, x_d)
    golden.check_slice("warp_sub", feature, tolerance=TOLERANCE)
    golden.check_stats("warp_stats", feature, tolerance=TOLERANCE)
    check_image(golden, "", models.decoder(feature))
