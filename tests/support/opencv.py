"""How OpenCV 4 samples pictures, for golden pictures that went through it.

Its warp rounds positions to 1/32 pixel and, for bytes, weights to 15 bits; its resize rounds weights to 11 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_POSITION_BITS = 10
_FRACTION_BITS = 5
_WEIGHT_BITS = 15


def warp_affine(picture: NDArray[Any], output_to_input: NDArray[np.floating], size: tuple[int, int]) -> NDArray[Any]:
    """cv2.warpAffine, bilinear, black outside.

    Args:
        picture: (H, W, c) uint8, or floats.
        output_to_input: (2 or 3, 3) from pixels of the result to pixels of the picture.
        size: height and width of the result.
    """
    total: Any = 0
    for weight, pixels in _corners(picture, np.asarray(output_to_input, np.float64)[:2], size):
        if picture.dtype == np.uint8:
            weight = np.rint(weight * (1 << _WEIGHT_BITS)).astype(np.int64)
        total = total + weight[..., None] * pixels
    if picture.dtype == np.uint8:
        return ((total + (1 << (_WEIGHT_BITS - 1))) >> _WEIGHT_BITS).clip(0, 255).astype(np.uint8)
    return total.astype(picture.dtype)


def _corners(
    picture: NDArray[Any], matrix: NDArray[np.float64], size: tuple[int, int]
) -> Iterator[tuple[NDArray[np.float64], NDArray[Any]]]:
    """Weights and pixels of the four neighbours of each position."""
    columns, rows = np.arange(size[1]), np.arange(size[0])[:, None]
    half = 1 << (_POSITION_BITS - _FRACTION_BITS - 1)
    positions = [
        (np.rint(axis[0] * columns) + np.rint(axis[1] * rows + axis[2]) + half).astype(np.int64)
        >> (_POSITION_BITS - _FRACTION_BITS)
        for axis in matrix * (1 << _POSITION_BITS)
    ]
    (x, fx), (y, fy) = ((p >> _FRACTION_BITS, (p & 31) / 32) for p in positions)
    height, width = picture.shape[:2]
    wide = np.int64 if picture.dtype == np.uint8 else np.float64
    for down, wy in ((0, 1 - fy), (1, fy)):
        for right, wx in ((0, 1 - fx), (1, fx)):
            row, column = y + down, x + right
            inside = (0 <= row) & (row < height) & (0 <= column) & (column < width)
            found = picture[row.clip(0, height - 1), column.clip(0, width - 1)].astype(wide)
            yield wy * wx, np.where(inside[..., None], found, 0)


def resize_rows(picture: NDArray[np.uint8], height: int) -> NDArray[np.uint8]:
    """cv2.resize, bilinear, of the rows alone."""
    rows = len(picture)
    position = ((np.arange(height) + 0.5) * (rows / height) - 0.5).astype(np.float32)
    first = np.floor(position).astype(int)
    share = position - first
    upper, lower = (
        np.rint(weight * 2048).astype(np.int64)[:, None, None] * picture[row.clip(0, rows - 1)].astype(np.int64) >> 9
        for weight, row in ((1 - share, first), (share, first + 1))
    )
    return ((upper + lower + 2) >> 2).clip(0, 255).astype(np.uint8)
