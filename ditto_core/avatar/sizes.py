"""The working size of a source picture: bounded, and even, as 4:2:0 video needs it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..errors import InvalidValueError

LONGEST_SIDE = 1920
SHORTEST_SIDE = 32
"""Below this, a picture holds no usable face."""


def fitted_size(height: int, width: int, longest: int | None = LONGEST_SIDE) -> tuple[int, int]:
    """The working size of a picture.

    Args:
        height: of the picture, in pixels.
        width: of the picture, in pixels.
        longest: what the longer side is reduced to, where it exceeds that (the other side is rounded, ties to
            even); None keeps the size. Then odd sides lose one pixel.

    Returns:
        Height and width, both even.

    Raises:
        InvalidValueError: a side ends up shorter than SHORTEST_SIDE.
    """
    reduced = _reduced_size(height, width, longest)
    even = reduced[0] // 2 * 2, reduced[1] // 2 * 2
    if min(even) < SHORTEST_SIDE:
        raise InvalidValueError(
            f"picture of {width} x {height} pixels (worked on as {even[1]} x {even[0]})",
            remedy=f"use one with at least {SHORTEST_SIDE} pixels a side and a less extreme aspect ratio",
        )
    return even


def fit_picture(picture: NDArray[np.uint8], longest: int | None = LONGEST_SIDE) -> NDArray[np.uint8]:
    """A picture at its working size: reduced with an antialiasing filter, then cut to even sides.

    Args:
        picture: (H, W, 3) uint8.
        longest: see `fitted_size`.

    Returns:
        (h, w, 3) uint8, contiguous; the picture itself where nothing changes.

    Raises:
        InvalidValueError: see `fitted_size`.
    """
    height, width = picture.shape[:2]
    even = fitted_size(height, width, longest)
    reduced = _reduced_size(height, width, longest)
    if reduced != (height, width):
        planes = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None]
        smaller = F.interpolate(planes, reduced, mode="bilinear", antialias=True)
        picture = smaller[0].permute(1, 2, 0).numpy()
    return np.ascontiguousarray(picture[: even[0], : even[1]])


def reduction(height: int, width: int, longest: int | None = LONGEST_SIDE) -> tuple[float, float]:
    """What `fit_picture` multiplies y and x with (without the cut to even sides)."""
    reduced = _reduced_size(height, width, longest)
    return reduced[0] / height, reduced[1] / width


def _reduced_size(height: int, width: int, longest: int | None) -> tuple[int, int]:
    longer = max(height, width)
    if longest is None or longer <= longest:
        return height, width
    # Fraction rounds ties to even, and exactly
    return round(Fraction(height * longest, longer)), round(Fraction(width * longest, longer))
