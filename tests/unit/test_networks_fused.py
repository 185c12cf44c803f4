"""The fused networks compute what the plain ones do."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models import TINY
from torch import Tensor, nn

from ditto_core.checkpoints.models import build_network, recipe_weights
from ditto_core.networks import MINIATURE, OFFICIAL, Preset
from ditto_core.networks.fused import FusedPostWarp, FusedWarpDecode
from ditto_core.networks.fused_spade import FusedSpadeBlock
from ditto_core.networks.fused_warp import FusedWarp, WarpLayout, _DepthTaps, _TapOutputs, _without_background
from ditto_core.networks.layers import DepthTapConv3d
from ditto_core.networks.sampling import gather_samples, gather_shifted_copies, shifted_copies
from ditto_core.networks.spade import SpadeBlock
from ditto_core.networks.upsampled import UpsampledConv
from ditto_core.networks.warping import coordinate_axis, coordinate_grid, sample_volume

DEEP = dataclasses.replace(
    TINY,
    name="deep",
    appearance_widths=(8, 8, 8),
    volume_channels=4,
    volume_depth=16,
    motion_grid=(8, 32),
    mask_kernel=7,
    occlusion_kernel=7,
    pixel_shuffle=2,
)
"""A motion grid too deep to become channels, and a decoder whose condition is enlarged x4, as the official ones."""

LAYOUTS = [
    WarpLayout(),
    WarpLayout(fold_upsampling=False),
    WarpLayout(align=8, gather=True, mask_parts=(6, 1)),
]


def seeded(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def network(name: str, preset: Preset, dtype: torch.dtype) -> nn.Module:
    weights = {k: v.double() if v.is_floating_point() else v for k, v in recipe_weights(name, preset).items()}
    return build_network(name, preset, weights, origin="recipe").to(dtype)


def inputs(preset: Preset, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    size = preset.volume_size
    f_s = seeded(2, preset.volume_channels, preset.volume_depth, size, size, dtype=dtype)
    x_s = 0.4 * seeded(2, 21, 3, seed=1, dtype=dtype)
    return f_s, x_s, x_s + 0.3 * seeded(2, 21, 3, seed=2, dtype=dtype)


def difference(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


BOUNDS = [(torch.float64, 1e-9), (torch.float32, 1e-4)]


@settings(max_examples=12, deadline=None)
@given(factor=st.sampled_from([2, 4]), depth=st.sampled_from([0, 3]), height=st.integers(1, 5), width=st.integers(1, 5))
def test_convolution_of_an_enlarged_map(factor, depth, height, width):
    conv = (nn.Conv3d if depth else nn.Conv2d)(3, 5, 3, padding=1).double()
    x = seeded(2, 3, *[depth] * bool(depth), height, width)
    large = F.interpolate(x, scale_factor=[1.0] * bool(depth) + [float(factor)] * 2)
    with torch.no_grad():
        torch.testing.assert_close(UpsampledConv(conv, factor)(x), conv(large), atol=1e-12, rtol=0)


@settings(max_examples=12, deadline=None)
@given(shift=st.lists(st.floats(-2.5, 2.5), min_size=3, max_size=3), size=st.integers(2, 6), depth=st.integers(1, 4))
def test_shifted_copies_are_samples_of_shifted_grids(shift, size, depth):
    volume = seeded(1, 2, depth, size, size)
    shifts = torch.tensor([[shift, [0.0, 0.0, 0.0]]], dtype=torch.float64)
    line, deep = coordinate_axis(size, shifts), coordinate_axis(depth, shifts)
    points = coordinate_grid(depth, size, shifts) + shifts[:, :, None, None, None]
    wanted = torch.stack([sample_volume(volume, points[:, k]) for k in range(2)], dim=1)
    found = shifted_copies(volume, shifts, (line, line, deep))
    torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)
    gathered = gather_shifted_copies(volume, shifts, (line, line, deep)).permute(0, 4, 5, 1, 2, 3)
    torch.testing.assert_close(gathered, wanted, atol=1e-12, rtol=0)


def test_gathered_samples_are_grid_samples_also_outside():
    volume, points = seeded(2, 3, 4, 5, 6), 1.3 * seeded(2, 3, 2, 4, 3, seed=1)
    found = gather_samples(volume, points).permute(0, 4, 1, 2, 3)
    torch.testing.assert_close(found, sample_volume(volume, points), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("dtype", "bound"), BOUNDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("preset", [TINY, MINIATURE, DEEP], ids=lambda preset: preset.name)
def test_fused_warp(preset, layout, dtype, bound):
    plain = network("warp_network", preset, dtype)
    with torch.inference_mode():
        wanted = plain(*inputs(preset, dtype))
        assert difference(FusedWarp(plain, layout)(*inputs(preset, dtype)), wanted) < bound


@pytest.mark.parametrize(("dtype", "bound"), BOUNDS)
@pytest.mark.parametrize("preset", [TINY, MINIATURE, DEEP], ids=lambda preset: preset.name)
def test_fused_post_warp_and_whole(preset, dtype, bound):
    warp, decoder = (network(name, preset, dtype) for name in ("warp_network", "decoder"))
    with torch.inference_mode():
        deformed, occlusion = warp.deform(*inputs(preset, dtype))
        wanted = decoder(warp.project(deformed, occlusion))
        assert difference(FusedPostWarp(warp, decoder)(deformed, occlusion), wanted) < bound
        unfolded = FusedPostWarp(warp, decoder, fold_upsampling=False)
        assert difference(unfolded(deformed, occlusion), wanted) < bound
        assert difference(FusedWarpDecode(warp, decoder)(*inputs(preset, dtype)), wanted) < bound


def test_the_plain_networks_stay_as_they_are():
    warp, decoder = (network(name, TINY, torch.float64) for name in ("warp_network", "decoder"))
    with torch.inference_mode():
        before = decoder(warp(*inputs(TINY, torch.float64)))
        FusedWarpDecode(warp, decoder, LAYOUTS[-1])
        assert torch.equal(decoder(warp(*inputs(TINY, torch.float64))), before)


@pytest.mark.parametrize("enlarged", [2, 4])
def test_one_spade_block_at_official_width(enlarged):
    torch.manual_seed(0)
    preset = dataclasses.replace(OFFICIAL, spectral_norm=False)
    block = SpadeBlock(preset, 128 * enlarged, 64).double()
    x, condition = seeded(1, 128 * enlarged, 2 * enlarged, 2 * enlarged), seeded(1, 256, 4, 4, seed=1)
    with torch.no_grad():
        large, wide_condition = (F.interpolate(m, size=(4 * enlarged,) * 2) for m in (x, condition))
        wanted = block(large, wide_condition)
        assert difference(FusedSpadeBlock(block, enlarged)(x, condition), wanted) < 1e-12


@pytest.mark.parametrize("parts", [None, (6, 1)])
def test_mask_and_occlusion_at_official_width(parts):
    torch.manual_seed(0)
    layout = WarpLayout(align=8, mask_parts=parts)
    mask = DepthTapConv3d(142, 22, 7, padding=3).double()
    occlusion = nn.Conv2d(142 * 16, 1, 7, padding=3).double()
    x = seeded(1, 142, 16, 8, 8)
    padded = F.pad(x, (0, 0, 0, 0, 0, 0, 0, 2))
    with torch.no_grad():
        logits = F.pad(_DepthTaps(_without_background(mask), layout)(padded), (0, 0, 0, 0, 0, 0, 1, 0))
        torch.testing.assert_close(logits.softmax(1), mask(x).softmax(1), atol=1e-12, rtol=0)
        found = _TapOutputs(occlusion, 16, 8)(padded)
        torch.testing.assert_close(found, occlusion(x.flatten(1, 2)), atol=1e-12, rtol=0)


def test_half_precision_is_as_good_as_the_plain_networks():
    dtype = torch.bfloat16  # a CPU takes minutes in float16
    plain = [network(name, DEEP, torch.float32) for name in ("warp_network", "decoder")]
    half = [network(name, DEEP, dtype) for name in ("warp_network", "decoder")]
    f_s, x_s, x_d = inputs(DEEP, torch.float32)
    with torch.inference_mode():
        wanted = plain[1](plain[0](f_s, x_s, x_d))
        before = half[1](half[0](f_s.to(dtype), x_s, x_d)).float() - wanted
        after = FusedWarpDecode(*half, LAYOUTS[-1])(f_s.to(dtype), x_s, x_d).float() - wanted
    assert float(after.norm()) < 1.5 * float(before.norm())
