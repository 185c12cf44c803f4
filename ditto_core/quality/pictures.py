"""How far two pictures are from each other: PSNR, SSIM, differences. Brightness is luma as the videos are tagged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InvalidValueError

LUMA = (0.2126, 0.7152, 0.0722)
"""Weights of red, green and blue in brightness (ITU-R BT.709)."""
MAX_PSNR = 100.0
"""dB that stand for pictures without any difference."""
BLOCK = 32
"""Pixels of a block's side: small against a face, so that a glitch of the mouth alone shows."""

_SSIM_SIZE, _SSIM_SIGMA, _SSIM_VIEW = 11, 1.5, 256
_SSIM_C1, _SSIM_C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_BLUE_SPAN, _RED_SPAN = 1.8556, 1.5748


@dataclass(frozen=True, kw_only=True)
class PictureDifference:
    """Two pictures beside each other, in grey levels of 0 to 255.

    Attributes:
        squared_luma: mean squared difference of luma.
        squared_chroma: mean squared difference of Cb and Cr together.
        squared_rgb: mean squared difference of all three channels.
        ssim: structural similarity of luma, 1 for equal pictures.
        mean: mean absolute difference of all channels.
        largest: largest absolute difference of any channel.
        largest_block: largest mean absolute difference of luma in a block of 32 x 32 pixels.
    """

    squared_luma: float
    squared_chroma: float
    squared_rgb: float
    ssim: float
    mean: float
    largest: float
    largest_block: float


def luma(pictures: Tensor) -> Tensor:
    """Brightness of RGB pictures, (..., h, w, 3) in 0..255 -> (..., h, w) float32."""
    return pictures.float() @ torch.tensor(LUMA, device=pictures.device)


def psnr(squared: float) -> float:
    """Peak signal-to-noise ratio in dB of a mean squared difference on 0..255; at most MAX_PSNR."""
    peak = 255.0**2
    if squared <= peak * 10 ** (-MAX_PSNR / 10):
        return MAX_PSNR
    return float(10 * torch.tensor(peak / squared, dtype=torch.float64).log10())


def ssim(a: Tensor, b: Tensor) -> float:
    """Structural similarity of two brightness pictures (h, w) in 0..255.

    Wang, Bovik, Sheikh, Simoncelli 2004, section III.B: Gaussian windows of 11 x 11 pixels with a deviation of 1.5,
    K1 = 0.01, K2 = 0.03, the mean over all windows that lie inside. Large pictures are reduced first, by the whole
    factor that brings the shorter side next to 256 pixels, as the authors advise for ordinary viewing distances.

    Raises:
        InvalidValueError: a side is below 11 pixels.
    """
    if min(a.shape) < _SSIM_SIZE:
        raise InvalidValueError(
            f"SSIM of {a.shape[1]}x{a.shape[0]} pixels", remedy=f"use at least {_SSIM_SIZE}x{_SSIM_SIZE}"
        )
    factor = max(1, round(min(a.shape) / _SSIM_VIEW))
    x, y = F.avg_pool2d(torch.stack([a, b]).double()[:, None], factor)[:, 0]
    mean_x, mean_y, xx, yy, xy = _blurred(torch.stack([x, y, x * x, y * y, x * y]))
    var_x, var_y, covariance = xx - mean_x**2, yy - mean_y**2, xy - mean_x * mean_y
    likeness = (2 * mean_x * mean_y + _SSIM_C1) * (2 * covariance + _SSIM_C2)
    return float((likeness / ((mean_x**2 + mean_y**2 + _SSIM_C1) * (var_x + var_y + _SSIM_C2))).mean())


def _blurred(maps: Tensor) -> Tensor:
    """Means in the windows that lie inside, (k, h, w) -> (k, h - 10, w - 10); as products, faster than convolutions."""
    steps = torch.arange(_SSIM_SIZE, dtype=maps.dtype, device=maps.device) - _SSIM_SIZE // 2
    weights = torch.exp(-0.5 * (steps / _SSIM_SIGMA) ** 2)
    weights = weights / weights.sum()
    down, across = (
        torch.eye(side, dtype=maps.dtype, device=maps.device).unfold(0, _SSIM_SIZE, 1) @ weights
        for side in maps.shape[1:]
    )
    return down @ maps @ across.mT


def difference(a: Tensor, b: Tensor) -> PictureDifference:
    """All measures of two RGB pictures.

    Args:
        a: (h, w, 3) uint8, or float in 0..255.
        b: the same size.

    Raises:
        InvalidValueError: the sizes differ, or a side is below 11 pixels.
    """
    if a.shape != b.shape:
        raise InvalidValueError(f"pictures of {tuple(a.shape)} and {tuple(b.shape)}", remedy="compare equal sizes")
    brightness = luma(a), luma(b)
    apart = a.float() - b.float()
    luma_apart = brightness[0] - brightness[1]
    # Cb and Cr are linear, so that the difference of chroma is the chroma of the difference.
    chroma = torch.stack([(apart[..., 2] - luma_apart) / _BLUE_SPAN, (apart[..., 0] - luma_apart) / _RED_SPAN], dim=-1)
    return PictureDifference(
        squared_luma=float(luma_apart.square().mean(dtype=torch.float64)),
        squared_chroma=float(chroma.square().mean(dtype=torch.float64)),
        squared_rgb=float(apart.square().mean(dtype=torch.float64)),
        ssim=ssim(*brightness),
        mean=float(apart.abs().mean(dtype=torch.float64)),
        largest=float(apart.abs().max()),
        largest_block=largest_block(luma_apart),
    )


def largest_block(apart: Tensor) -> float:
    """Largest mean absolute value in a block of a map (h, w); blocks at the edges may be smaller."""
    blocks = F.avg_pool2d(apart.abs()[None, None], BLOCK, ceil_mode=True, count_include_pad=False)
    return float(blocks.max())


def thumbnail(brightness: Tensor, cells: int = 32) -> Tensor:
    """Mean brightness in a grid of at most cells x cells, (h, w) -> float32 (cells, cells)."""
    rows, columns = (min(cells, side) for side in brightness.shape)
    return F.adaptive_avg_pool2d(brightness[None, None], (rows, columns))[0, 0]
