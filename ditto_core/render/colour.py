"""Colour: RGB pictures and NV12 planes, BT.709 in TV range.

NV12 is what encoders take: a plane of luma (Y), then one of chroma (U and V in turn) with half the rows and
columns. Pictures lie in one tensor (n, 3 H / 2, W), the chroma's rows below the luma's.

A chroma sample sits between two rows, on the left one of its two columns: "left" siting, the default of H.264
and H.265 (ITU-T H.264, figure E-1). It is the mean of two rows, with weights 1, 2, 1 over three columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidValueError

_KR, _KB = 0.2126, 0.0722
_KG = 1 - _KR - _KB

LUMA = tuple(219 / 255 * k for k in (_KR, _KG, _KB))
"""Weights of red, green and blue (0..255) in Y - 16 (ITU-R BT.709-6, items 3.2 to 3.5 at 8 bits)."""
CHROMA = (
    tuple(224 / 255 * k / (2 - 2 * _KB) for k in (-_KR, -_KG, 1 - _KB)),
    tuple(224 / 255 * k / (2 - 2 * _KR) for k in (1 - _KR, -_KG, -_KB)),
)
"""The same for U - 128 and V - 128."""
BLACK, GREY = 16.0, 128.0
"""Y of black; U and V without colour."""

_BLOCK_ROWS = 64  # so that a block's floats stay in a processor's cache; a GPU takes the whole picture at once


def nv12_planes(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Luma and chroma as views.

    Args:
        pictures: (..., 3 H / 2, W) uint8.

    Returns:
        (..., H, W) and (..., H / 2, W / 2, 2).
    """
    rows, width = pictures.shape[-2:]
    height = rows * 2 // 3
    return pictures[..., :height, :], pictures[..., height:, :].unflatten(-1, (width // 2, 2))


def weighted(rgb: Tensor, weights: tuple[float, ...]) -> Tensor:
    """(..., 3, h, w) floats -> (..., h, w), the sum of the channels by weight.

    Term by term, so that a picture's last bits do not depend on the others in the batch.
    """
    total = rgb.select(-3, 0) * weights[0]
    for channel in (1, 2):
        total.add_(rgb.select(-3, channel), alpha=weights[channel])
    return total


def subsample(samples: Tensor) -> Tensor:
    """(..., h, w) floats -> (..., h / 2, w / 2): chroma with left siting; the first column repeats at its left."""
    rows = samples[..., 0::2, :] + samples[..., 1::2, :]
    even, odd = rows[..., 0::2], rows[..., 1::2]
    before = torch.cat([even[..., :1], odd[..., :-1]], -1)
    return (even * 2 + odd + before) / 8


def yuv(rgb: Tensor) -> tuple[Tensor, Tensor]:
    """Colours of a part of a picture, not yet rounded.

    Args:
        rgb: (..., 3, h, w) floats in 0..255, h and w even.

    Returns:
        Y (..., h, w) in 16..235, and U and V (..., 2, h / 2, w / 2) in 16..240.
    """
    return weighted(rgb, LUMA).add_(BLACK), colour_difference(rgb).add_(GREY)


def colour_difference(rgb: Tensor) -> Tensor:
    """(..., 3, h, w) floats in 0..255 -> U - 128 and V - 128, (..., 2, h / 2, w / 2)."""
    half = subsample(rgb)
    return torch.stack([weighted(half, weights) for weights in CHROMA], -3)


def rgb_to_nv12(pictures: Tensor) -> Tensor:
    """Whole pictures in NV12.

    Args:
        pictures: (n, H, W, 3) uint8 RGB, H and W even.

    Returns:
        (n, 3 H / 2, W) uint8 on the same device, rounded to nearest.

    Raises:
        InvalidValueError: another shape or type.
    """
    if pictures.dtype != torch.uint8 or pictures.ndim != 4 or pictures.shape[-1] != 3 or _odd(pictures.shape[1:3]):
        raise InvalidValueError(
            f"pictures of shape {tuple(pictures.shape)} and type {pictures.dtype}",
            remedy="give uint8 RGB of shape (n, height, width, 3) with even sides",
        )
    count, height, width = pictures.shape[:3]
    made = pictures.new_empty(count, height * 3 // 2, width)
    luma, chroma = nv12_planes(made)
    block = _BLOCK_ROWS if pictures.device.type == "cpu" else height
    for picture, y, uv in zip(pictures, luma, chroma, strict=True):
        for top in range(0, height, block):
            rows, half = slice(top, top + block), slice(top // 2, (top + block) // 2)
            exact_y, exact_uv = yuv(picture[rows].permute(2, 0, 1).contiguous().float())
            y[rows] = exact_y + 0.5  # assignment truncates
            uv[half] = exact_uv.permute(1, 2, 0) + 0.5
    return made


def nv12_to_rgb(pictures: Tensor) -> Tensor:
    """Pictures to look at: chroma is repeated, not interpolated.

    Args:
        pictures: (n, 3 H / 2, W) uint8 NV12.

    Returns:
        (n, H, W, 3) uint8 RGB.
    """
    luma, chroma = nv12_planes(pictures)
    y = (luma.float() - BLACK) / 219
    blue, red = ((chroma.float() - GREY) / 224).repeat_interleave(2, 1).repeat_interleave(2, 2).unbind(-1)
    r, b = y + red * (2 - 2 * _KR), y + blue * (2 - 2 * _KB)
    g = (y - _KR * r - _KB * b) / _KG
    return (torch.stack([r, g, b], -1).clamp(0, 1) * 255).round().to(torch.uint8)


def _odd(sides: Any) -> bool:
    return any(side % 2 for side in sides)
