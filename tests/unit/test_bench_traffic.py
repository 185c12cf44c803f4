"""Counted traffic to device memory: known answers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ditto_core.bench.traffic import moved_mbytes

MAP = torch.zeros(1, 4, 500, 500)
"""4 MB."""
CONV = nn.Conv2d(4, 4, 1, bias=False)
"""Its weights are 64 bytes."""


@pytest.mark.parametrize(
    ("function", "alone", "fused"),
    [
        (lambda x: x.relu() + 1, 16, 8),
        (lambda x: CONV(x), 8, 8),
        # written by the first convolution, read and written between, read and written by the second
        (lambda x: CONV(CONV(x).relu().sigmoid()), 32, 24),
        # a view costs nothing; half of a map is read and written
        (lambda x: x[:, :2].relu(), 4, 4),
        # read for the sum, read again for the difference
        (lambda x: x - x.mean(), 12, 12),
        # what is repeated is read once
        (lambda x: x[:, :1].expand(-1, 4, -1, -1) * 2, 5, 5),
    ],
)
def test_bytes_of_small_functions(function, alone, fused) -> None:
    with torch.no_grad():
        assert moved_mbytes(function, (MAP,), fused=False) == pytest.approx(alone, abs=0.05)
        assert moved_mbytes(function, (MAP,), fused=True) == pytest.approx(fused, abs=0.05)
