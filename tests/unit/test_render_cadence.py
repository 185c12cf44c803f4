"""Cadence 2: interpolation on the sphere, within one chunk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ditto_core.render.cadence import interpolate_chunk, spherical_midpoint

SHAPE = (3, 6, 8)


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """torch fills new memory with NaN before anything is written to it."""
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    assert torch.empty(4).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = before


def pictures(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(seed))


def slerp(a: Tensor, b: Tensor, t: float) -> Tensor:
    """The textbook form, in float64."""
    x, y = a.flatten().double(), b.flatten().double()
    angle = torch.arccos(x @ y / (x.norm() * y.norm()))
    return ((((1 - t) * angle).sin() * x + (t * angle).sin() * y) / angle.sin()).view(a.shape)


@settings(max_examples=50)
@given(st.integers(0, 2**31), st.floats(0.05, 1))
def test_midpoint_is_slerp_at_one_half(seed: int, contrast: float) -> None:
    a, b = 0.5 * pictures(1, seed), 0.5 * contrast * pictures(1, seed + 1)
    expected = slerp(a[0], b[0], 0.5)
    assert torch.allclose(spherical_midpoint(a, b)[0].double(), expected, atol=1e-6)


def test_each_frame_of_a_batch_has_its_own_angle() -> None:
    a, b = pictures(2), pictures(2, 1)
    together = spherical_midpoint(a, b)
    assert torch.equal(together, torch.cat([spherical_midpoint(a[i : i + 1], b[i : i + 1]) for i in range(2)]))


def test_equal_pictures_stay_and_black_ones_are_no_trouble() -> None:
    a, black = pictures(1), torch.zeros(1, *SHAPE)
    assert torch.allclose(spherical_midpoint(a, a), a, atol=1e-6)
    assert torch.equal(spherical_midpoint(black, black), black)
    assert torch.allclose(spherical_midpoint(a, black), a / 2, atol=1e-6)


def test_midpoint_keeps_contrast_where_the_mean_loses_it() -> None:
    a, b = 0.5 * pictures(1), 0.5 * pictures(1, 1)
    norm = (float(a.norm()) + float(b.norm())) / 2
    assert float(spherical_midpoint(a, b).norm()) == pytest.approx(norm, rel=0.01)
    assert float(((a + b) / 2).norm()) < 0.95 * norm


@pytest.mark.parametrize("frames", range(1, 10))
def test_chunks_of_all_lengths_use_written_memory_only(frames: int, poisoned_memory: None) -> None:
    keys = pictures((frames + 1) // 2)
    chunk = interpolate_chunk(keys, frames)
    assert chunk.shape == (frames, *SHAPE)
    assert chunk.isfinite().all()
    assert torch.equal(chunk[::2], keys)
    for i in range(1, frames - 1, 2):
        assert torch.equal(chunk[i], spherical_midpoint(keys[i // 2, None], keys[i // 2 + 1, None])[0])
    if frames % 2 == 0:  # no key frame follows the last frame
        assert torch.equal(chunk[-1], chunk[-2])
