"""Affine sampling and area reduction of pictures, in torch, batched, on any device."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def affine_warp(pictures: Tensor, sampling: Tensor, size: tuple[int, int]) -> Tensor:
    """Samples pictures bilinearly at exact positions; black outside.

    Pixel (x, y) stands for its centre: the identity matrix gives the picture back. OpenCV's warpAffine has
    the same convention, but may round positions to 1/32 pixel.

    Args:
        pictures: (b, c, H, W), uint8 or float.
        sampling: (b, 3, 3) affine matrices from output pixels to picture pixels.
        size: height and width of the output.

    Returns:
        (b, c, *size), float32 at least, in the pictures' own range, not rounded.
    """
    # a grid in half precision would be off by whole pixels
    values = pictures.to(torch.promote_types(pictures.dtype, torch.float32))
    height, width = values.shape[-2:]
    rows = torch.arange(size[0], device=values.device, dtype=torch.float64)
    columns = torch.arange(size[1], device=values.device, dtype=torch.float64)
    # positions in float64: float32 would lose 1e-4 pixel at 1920 pixels, in every product
    m = sampling.to(values.device, torch.float64)[:, :2, :, None, None]  # (b, 2, 3, 1, 1)
    position = m[:, :, 0] * columns + m[:, :, 1] * rows[:, None] + m[:, :, 2]  # (b, 2, h, w): x, y
    limits = torch.tensor([width, height], device=values.device, dtype=torch.float64)
    grid = (2 * position.permute(0, 2, 3, 1) + 1) / limits - 1
    return F.grid_sample(values, grid.to(values.dtype), mode="bilinear", padding_mode="zeros", align_corners=False)


def to_bytes(pictures: Tensor) -> Tensor:
    """Pictures in 0..255 rounded to uint8."""
    return pictures.round().clamp(0, 255).to(torch.uint8)


def halve(pictures: Tensor) -> Tensor:
    """Area reduction to half the size: the mean of 2 x 2 pixels, halves rounded up.

    Args:
        pictures: (b, c, H, W) uint8, even sides.

    Returns:
        (b, c, H/2, W/2) uint8.
    """
    x = pictures.to(torch.int16)
    total = x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]
    return ((total + 2) >> 2).to(torch.uint8)
