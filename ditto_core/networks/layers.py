"""Layers that several networks share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def wide(dtype: torch.dtype) -> torch.dtype:
    """float32 for the half types, else the type itself: for what must not lose precision."""
    return torch.promote_types(dtype, torch.float32)


def instance_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Instance norm without affine parameters; its statistics are never in half precision.

    Two means instead of var_mean: on channels-last CPU tensors that is 5 to 10 times faster.

    Args:
        x: (b, c, h, w).
        eps: added to the biased variance.

    Returns:
        (b, c, h, w) of x's type.
    """
    y = x.to(wide(x.dtype))
    y = y - y.mean((2, 3), keepdim=True)
    y = y * torch.rsqrt(y.square().mean((2, 3), keepdim=True) + eps)
    return y.to(x.dtype)


class ConvNorm2d(nn.Module):
    """3x3 convolution and batch norm; the activation is the caller's."""

    folds = {"conv": "norm"}

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.norm: nn.Module = nn.BatchNorm2d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels_in, h, w) -> (b, channels_out, h, w)."""
        return self.norm(self.conv(x))


class ConvNorm3d(nn.Module):
    """3x3x3 convolution, batch norm and ReLU."""

    folds = {"conv": "norm"}

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, 3, padding=1)
        self.norm: nn.Module = nn.BatchNorm3d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels_in, d, h, w) -> (b, channels_out, d, h, w)."""
        return F.relu(self.norm(self.conv(x)))


class SpectralNormConv2d(nn.Module):
    """Convolution whose file holds the weight before spectral norm, with its singular vectors.

    The weight in use is weight_orig / (u^T W v), W being weight_orig as a (out, rest) matrix; u and v are taken as
    stored (Miyato et al., arXiv:1802.05957, eq. 8; in evaluation there is no power iteration).
    """

    weight_u: Tensor
    weight_v: Tensor

    def __init__(self, channels_in: int, channels_out: int, kernel: int, *, bias: bool = True) -> None:
        super().__init__()
        self.padding = kernel // 2
        self.weight_orig = nn.Parameter(torch.empty(channels_out, channels_in, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(channels_out)) if bias else None
        self.register_buffer("weight_u", torch.empty(channels_out))
        self.register_buffer("weight_v", torch.empty(channels_in * kernel * kernel))

    def normalised_weight(self) -> Tensor:
        """The weight in use, (out, in, k, k)."""
        high = wide(self.weight_orig.dtype)
        weight = self.weight_orig.to(high)
        sigma = torch.dot(self.weight_u.to(high), torch.mv(weight.flatten(1), self.weight_v.to(high)))
        return (weight / sigma).to(self.weight_orig.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(b, in, h, w) -> (b, out, h, w)."""
        return F.conv2d(x, self.normalised_weight(), self.bias, padding=self.padding)


class DepthTapConv3d(nn.Conv3d):
    """Cubic convolution computed as one 2-D convolution of all depth slices, then a shifted sum over depth.

    The depth taps become output channels of the 2-D convolution. That is the same sum in another order, and suits a
    large kernel with few outputs: no library has a good 3-D kernel for it, and in float64 the CPU's would unfold the
    input kernel^3 times.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(b, in, d, h, w) -> (b, out, d, h, w)."""
        taps, depth, margin = self.kernel_size[0], x.shape[2], self.kernel_size[0] // 2
        weight = self.weight.permute(2, 0, 1, 3, 4).flatten(0, 1)  # (taps * out, in, k, k)
        slices = F.conv2d(x.transpose(1, 2).flatten(0, 1), weight, padding=margin)
        slices = slices.unflatten(1, (taps, -1)).unflatten(0, (-1, depth))  # (b, d, taps, out, h, w)
        slices = F.pad(slices, (0, 0) * 4 + (margin, margin))
        total = slices[:, :depth, 0]
        for tap in range(1, taps):
            total = total + slices[:, tap : tap + depth, tap]
        if self.bias is not None:
            total = total + self.bias[:, None, None]
        return total.transpose(1, 2)
