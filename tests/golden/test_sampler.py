"""The motion diffusion network, its schedule and its sampler against the original's values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support import recipes
from support.golden import GoldenFile, cases
from support.models import official
from torch import Tensor

from ditto_core.motion.diffusion import alphas_cumprod, estimated_noise, sample_window, schedule

TOLERANCE = 1e-4  # of each golden array's largest magnitude
ROWS = (1, 80, 265)


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array)


@pytest.fixture(autouse=True)
def _inference():
    with torch.inference_mode():
        yield


def test_noise_levels():
    golden = GoldenFile.open("ddim_tables")
    a = alphas_cumprod()
    golden.check("alphas_cumprod", a, tolerance=TOLERANCE)
    golden.check("sqrt_recipm1", np.sqrt(1 / a - 1), tolerance=TOLERANCE)
    # The original forms 1 - a from a in float32, which costs 3e-4 where a is close to 1; ours does not round.
    theirs = golden["alphas_cumprod"]
    golden.check("sqrt_recip1m", np.sqrt(1 / (np.float32(1) - theirs)), tolerance=TOLERANCE)
    assert 1e-4 < np.abs(golden["sqrt_recip1m"] / np.sqrt(1 / (1 - a)) - 1).max() < 1e-3


@pytest.mark.parametrize("steps", cases("ddim_tables", r"time_pairs_(\d+)"))
def test_schedule(steps):
    """The original's c is sqrt(1 - a' - sigma^2) in float32, all cancellation at the first step; ours is exact there.

    At 5 steps its first c is NaN (the root of a negative number), which makes a whole clip NaN.
    """
    golden, plan = GoldenFile.open("ddim_tables"), schedule(steps)
    golden.check(f"time_pairs_{steps}", np.stack([plan.times, np.append(plan.times[1:], -1)], axis=1), tolerance=0)
    golden.check(f"alpha_next_sqrt_{steps}", plan.next_signal[:-1], tolerance=TOLERANCE)
    for variant in ("", "np_"):
        golden.check(f"{variant}sigma_{steps}", plan.sigma[:-1], tolerance=TOLERANCE)
        theirs = golden[f"{variant}c_{steps}"]
        scale = np.nanmax(np.abs(theirs))
        np.testing.assert_allclose(plan.direction[1:-1], theirs[1:], rtol=0, atol=TOLERANCE * scale)
        # theirs is the root of a difference of numbers near 1, each rounded to float32
        rounding = 4 * float(np.finfo(np.float32).eps)
        assert plan.direction[0] > 0
        assert math.isnan(theirs[0]) or abs(theirs[0] ** 2 - plan.direction[0] ** 2) < rounding
    if steps == 5:
        assert math.isnan(golden["c_5"][0])
    assert plan.next_signal[-1] == 1 and plan.direction[-1] == 0 and plan.sigma[-1] == 0


def step_inputs(golden: GoldenFile) -> tuple[Tensor, Tensor, Tensor]:
    x = recipes.normal("lmdm.x", ROWS)
    cond = recipes.normal("lmdm.cond", (1, 80, official().preset.condition_size))
    golden.check_stats("x_stats", x, tolerance=1e-12)
    golden.check_stats("cond_stats", cond, tolerance=1e-12)
    return tensor(x), tensor(golden["cond_frame"]), tensor(cond)


@pytest.mark.parametrize("t", cases("lmdm_step", r"x_start_t(\d+)"))
def test_guided_step(t):
    golden, network = GoldenFile.open("lmdm_step"), official().lmdm
    x, start, cond = step_inputs(golden)
    clean = network.guided(x, start, network.encode(cond), torch.tensor([t]), 2.0)
    golden.check(f"x_start_t{t}", clean, tolerance=TOLERANCE)
    noise = estimated_noise(x, clean, float(alphas_cumprod()[t]))
    golden.check(f"pred_noise_t{t}", noise, tolerance=TOLERANCE)


@pytest.mark.parametrize("t", cases("lmdm_step", r"uncond_t(\d+)"))
def test_passes_of_a_step(t):
    golden, network = GoldenFile.open("lmdm_step"), official().lmdm
    x, start, cond = step_inputs(golden)
    encoded, time = network.encode(cond), torch.tensor([t])
    golden.check(f"uncond_t{t}", network(x, start, network.unconditioned(1), time), tolerance=TOLERANCE)
    golden.check(f"cond_t{t}", network(x, start, encoded, time), tolerance=TOLERANCE)
    for weight in cases("lmdm_step", rf"guided_t{t}_weight(\d+)"):
        guided = network.guided(x, start, encoded, time, float(weight))
        golden.check(f"guided_t{t}_weight{weight}", guided, tolerance=TOLERANCE)


def sample(steps: int, start: Tensor, cond: str, first_draw: int) -> Tensor:
    condition = recipes.normal(cond, (1, 80, official().preset.condition_size))
    draws = [first_draw, *range(steps - 1)]  # the starting x, then the step noises
    noise = (tensor(recipes.normal(f"lmdm.ddim{steps}.randn{i}", ROWS)) for i in draws)
    return sample_window(official().lmdm, tensor(condition), start, noise, steps=steps)


@pytest.mark.parametrize("steps", cases("lmdm_ddim", r"out_(\d+)"))
def test_sampled_window(steps):
    """Whole runs. Where the original's first c is NaN, the golden run had it set to 0; ours needs no such care."""
    golden = GoldenFile.open("lmdm_ddim")
    first = sample(steps, tensor(golden["cond_frame"]), "lmdm.cond", steps - 1)
    golden.check(f"out_{steps}", first, tolerance=TOLERANCE)
    raw = float(golden[f"raw_c0_{steps}"])
    assert math.isnan(raw) if steps == 5 else raw < 2e-3
    for clip in cases("lmdm_ddim", rf"out_{steps}_clip(\d+)"):
        # the original reuses the step noises for every clip; only the starting x is drawn anew
        following = sample(steps, first[:, -1], f"lmdm.cond_clip{clip}", steps + clip - 2)
        golden.check(f"out_{steps}_clip{clip}", following, tolerance=TOLERANCE)
