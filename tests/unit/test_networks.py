"""What the networks promise beside their golden values: folding, precision, batches, small sizes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from support import recipes
from support.models import TINY
from torch import Tensor, nn

from ditto_core.checkpoints import layout
from ditto_core.checkpoints.models import build_network, recipe_weights
from ditto_core.motion.diffusion import sample_window, window_noise
from ditto_core.networks import MINIATURE, OFFICIAL
from ditto_core.networks.layers import SpectralNormConv2d

STATE_DICTS = Path(__file__).parents[1] / "golden" / "state_dicts.json"


def network(name: str, preset=TINY, *, folded: bool = True, dtype: torch.dtype = torch.float32) -> nn.Module:
    return build_network(name, preset, recipe_weights(name, preset), origin="recipe", folded=folded).to(dtype)


def inputs(name: str, preset=TINY, dtype: torch.dtype = torch.float32, batch: int = 1) -> tuple[Tensor, ...]:
    """Inputs of a network: pictures and volumes in its type, coordinates in float32 at least."""
    wide = torch.promote_types(dtype, torch.float32)
    size = preset.volume_size
    if name in ("appearance_extractor", "motion_extractor"):
        return (torch.from_numpy(recipes.image_chw("precision.image")).to(dtype).expand(batch, -1, -1, -1),)
    points = tuple(
        torch.from_numpy(recipes.normal(f"precision.{side}", (batch, 21, 3), 0.3)).to(wide) for side in ("x_s", "x_d")
    )
    if name == "stitch_network":
        return points
    if name == "warp_network":
        shape = (batch, preset.volume_channels, preset.volume_depth, size, size)
        return (torch.from_numpy(recipes.normal("precision.f_s", shape)).to(dtype), *points)
    return (
        torch.from_numpy(recipes.normal("precision.feature", (batch, preset.feature_channels, size, size))).to(dtype),
    )


def outputs(module: nn.Module, *args: Tensor) -> tuple[Tensor, ...]:
    with torch.inference_mode():
        out = module(*args)
    return (out,) if isinstance(out, Tensor) else tuple(out)


def denoise(module: nn.Module, preset=TINY) -> Tensor:
    condition = torch.from_numpy(recipes.normal("precision.condition", (1, 80, preset.condition_size)))
    return sample_window(module, condition, torch.zeros(1, 265), window_noise(7, 0), steps=2)


def error(actual: Tensor, expected: Tensor) -> float:
    return float((actual.double() - expected.double()).abs().max() / expected.double().abs().max())


DRAWING = ["appearance_extractor", "motion_extractor", "warp_network", "decoder", "stitch_network"]


@pytest.mark.parametrize("name", layout.NETWORKS)
def test_official_names_and_shapes(name):
    listing = json.loads(STATE_DICTS.read_text())[name]
    found = {key: list(value.shape) for key, value in layout.empty_network(name, OFFICIAL).state_dict().items()}
    assert found == {key: shape for key, shape, _ in listing["entries"]}


@pytest.mark.parametrize("name", DRAWING)
def test_folding_changes_nothing(name):
    plain = network(name, folded=False, dtype=torch.float64)
    weights = {k: v.double() if v.is_floating_point() else v for k, v in recipe_weights(name, TINY).items()}
    folded = build_network(name, TINY, weights, origin="recipe")
    for a, b in zip(
        outputs(folded, *inputs(name, dtype=torch.float64)),
        outputs(plain, *inputs(name, dtype=torch.float64)),
        strict=True,
    ):
        assert error(a, b) < 1e-12


@pytest.mark.parametrize("name", layout.NETWORKS)
def test_nothing_is_left_to_fold(name):
    left = (nn.BatchNorm2d, nn.BatchNorm3d, SpectralNormConv2d)
    assert not [module for module in network(name).modules() if isinstance(module, left)]


# relative to each output's largest magnitude; twice what was seen
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 2e-5), (torch.bfloat16, 0.12), (torch.float16, 0.02)])
@pytest.mark.parametrize("name", DRAWING)
def test_precisions_agree_with_float32(name, dtype, bound):
    expected = outputs(network(name), *inputs(name))
    for value, reference in zip(outputs(network(name, dtype=dtype), *inputs(name, dtype=dtype)), expected, strict=True):
        assert torch.isfinite(value).all()
        assert error(value, reference) < bound


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-4), (torch.bfloat16, 0.1), (torch.float16, 0.02)])
def test_sampler_precisions_agree_with_float32(dtype, bound):
    result = denoise(network("lmdm", dtype=dtype))
    assert result.dtype == torch.float32
    assert error(result, denoise(network("lmdm"))) < bound


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_coordinates_stay_float32_in_half_precision(dtype):
    warp = network("warp_network", dtype=dtype)
    with torch.inference_mode():
        motion = warp.dense_motion_network(*inputs("warp_network", dtype=dtype))
        deformed, _ = warp.deform(*inputs("warp_network", dtype=dtype))
    assert motion.deformation.dtype == motion.mask.dtype == torch.float32
    assert deformed.dtype == dtype
    assert float((motion.mask.sum(1) - 1).abs().max()) < 1e-6
    motion_parameters = outputs(network("motion_extractor", dtype=dtype), *inputs("motion_extractor", dtype=dtype))
    assert {value.dtype for value in motion_parameters} == {torch.float32}
    assert outputs(network("stitch_network", dtype=dtype), *inputs("stitch_network"))[0].dtype == torch.float32


def test_equal_key_points_leave_the_face_where_it_is():
    """With x_d = x_s every sparse motion is the plain grid, whatever the mask says."""
    warp = network("warp_network", dtype=torch.float64)
    f_s, x_s, _ = inputs("warp_network", dtype=torch.float64)
    with torch.inference_mode():
        deformation = warp.dense_motion_network(f_s, x_s, x_s).deformation
    axis = torch.linspace(-1, 1, TINY.volume_size, dtype=torch.float64)
    assert torch.allclose(deformation[0, 0, :, :, 0], axis.expand(TINY.volume_size, -1), atol=1e-12)
    assert torch.allclose(deformation[0, 0, :, :, 1], axis[:, None].expand(-1, TINY.volume_size), atol=1e-12)


@pytest.mark.parametrize("name", ["warp_network", "decoder"])
def test_frames_of_a_batch_do_not_mix(name):
    module, batch = network(name, dtype=torch.float64), inputs(name, dtype=torch.float64, batch=3)
    (together,) = outputs(module, *batch)
    (alone,) = outputs(module, *(x[1:2] for x in batch))
    assert error(together[1:2], alone) < 1e-12


@pytest.mark.parametrize("preset", [MINIATURE, TINY], ids=lambda p: p.name)
def test_small_presets_draw_a_face(preset):
    feature = outputs(network("warp_network", preset), *inputs("warp_network", preset, batch=2))
    (face,) = outputs(network("decoder", preset), *feature)
    assert face.shape == (2, 3, 512, 512)
    assert 0 <= float(face.min()) < float(face.max()) <= 1


def test_wider_depth_heat_maps_show_points_between_planes():
    """At depth 4 a point halfway between two planes nearly vanishes, unless its heat map is wider along depth."""
    points = torch.zeros(1, 21, 3)  # planes of the grid stand at -1, -1/3, 1/3, 1
    peaks = {}
    for variance in (0.01, 0.25):
        preset = dataclasses.replace(MINIATURE, motion_grid=(4, 64), heatmap_depth_variance=variance)
        peaks[variance] = float(network("warp_network", preset).dense_motion_network._heatmaps(points).max())
    assert peaks[0.01] < 0.01 and peaks[0.25] > 0.7
