"""The fused sampler draws what the plain one does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from support.models import TINY
from torch import Tensor

from ditto_core.checkpoints.models import build_network, recipe_weights
from ditto_core.motion.diffusion import sample_window, schedule, window_noise
from ditto_core.motion.sampler import FusedSampler, step_factors
from ditto_core.networks import MINIATURE, MotionDiffusion, Preset


def denoiser(preset: Preset, dtype: torch.dtype) -> MotionDiffusion:
    network = build_network("lmdm", preset, recipe_weights("lmdm", preset), origin="recipe").to(dtype)
    assert isinstance(network, MotionDiffusion)
    return network


def window(preset: Preset, dtype: torch.dtype, batch: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    condition = torch.randn((batch, 80, preset.condition_size), generator=generator, dtype=torch.float64)
    return condition.to(dtype), torch.randn((batch, 265), generator=generator, dtype=torch.float64).to(dtype)


def noise(batch: int, dtype: torch.dtype) -> Iterator[Tensor]:
    return (draw.expand(batch, -1, -1) for draw in window_noise(3, 0, dtype=dtype))


def difference(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("preset", "steps", "batch"), [(TINY, 1, 1), (TINY, 7, 2), (MINIATURE, 10, 1)])
def test_fused_sampler(preset, steps, batch, dtype, bound):
    network = denoiser(preset, dtype)
    sampler = FusedSampler(network, steps=steps)
    for seed in range(2):  # the second window finds the first one's buffers
        given = window(preset, dtype, batch, seed)
        wanted = sample_window(network, *given, noise(batch, dtype), steps=steps)
        assert difference(sampler(*given, noise(batch, dtype)), wanted) < bound


@pytest.mark.parametrize("guidance", [0.0, 1.0, 3.5])
def test_guidance(guidance):
    network, given = denoiser(TINY, torch.float64), window(TINY, torch.float64, 1)
    wanted = sample_window(network, *given, noise(1, torch.float64), steps=3, guidance=guidance)
    found = FusedSampler(network, steps=3, guidance=guidance)(*given, noise(1, torch.float64))
    assert difference(found, wanted) < 1e-12


def test_half_products_keep_the_motion():
    network, given = denoiser(MINIATURE, torch.float32), window(MINIATURE, torch.float32, 1)
    wanted = FusedSampler(network, steps=10)(*given, noise(1, torch.float32))
    found = FusedSampler(network, steps=10, dtype=torch.bfloat16)(*given, noise(1, torch.float32))
    assert found.dtype == torch.float32
    assert 0 < difference(found, wanted) < 0.02


def test_another_batch_and_a_closed_sampler_begin_anew():
    network, sampler = denoiser(TINY, torch.float32), FusedSampler(denoiser(TINY, torch.float32), steps=3)
    results = [sampler(*window(TINY, torch.float32, batch), noise(batch, torch.float32)) for batch in (1, 2, 1)]
    sampler.close()
    results.append(sampler(*window(TINY, torch.float32, 1), noise(1, torch.float32)))
    assert torch.equal(results[0], results[2]) and torch.equal(results[0], results[3])
    wanted = sample_window(network, *window(TINY, torch.float32, 2), noise(2, torch.float32), steps=3)
    assert difference(results[1], wanted) < 1e-5


def test_a_cancel_is_obeyed_between_steps_and_leaves_the_sampler_usable():
    sampler, seen = FusedSampler(denoiser(TINY, torch.float32), steps=5), []

    def cancel_at_third() -> None:
        seen.append(None)
        if len(seen) == 3:
            raise KeyboardInterrupt

    given = window(TINY, torch.float32, 1)
    wanted = sampler(*given, noise(1, torch.float32))
    with pytest.raises(KeyboardInterrupt):
        sampler(*given, noise(1, torch.float32), cancel_at_third)
    assert torch.equal(sampler(*given, noise(1, torch.float32)), wanted)


def test_the_last_step_is_the_estimate_itself():
    for steps in (1, 2, 50, 1000):
        assert step_factors(schedule(steps))[-1].tolist() == [1, 0, 0]
