"""Smoothing of motion along time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InvalidValueError


def centred_mean(x: Tensor, width: int, start: int = 0, stop: int | None = None) -> Tensor:
    """Mean of each row and its neighbours; at the ends, of those that exist.

    The same rows give the same bits whatever else the array holds.

    Args:
        x: (n, c).
        width: rows of a mean, odd.
        start: first row wanted.
        stop: row after the last one wanted; n where left out.

    Returns:
        (stop - start, c).

    Raises:
        InvalidValueError: the width is even or not above 0.
    """
    if width < 1 or width % 2 == 0:
        raise InvalidValueError(f"smoothing over {width} rows", remedy="choose an odd number above 0")
    n, half = len(x), width // 2
    stop = n if stop is None else stop
    padded = F.pad(x, (0, 0, half, half))
    total = torch.zeros_like(x[start:stop])
    for shift in range(width):
        total = total + padded[start + shift : stop + shift]
    i = torch.arange(start, stop, device=x.device)
    count = (i + half).clamp(max=n - 1) - (i - half).clamp(min=0) + 1
    return total / count[:, None]
