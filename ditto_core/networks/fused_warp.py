"""The warping network with the same numbers in fewer operations, made from a loaded one.

The 22 shifted copies of the volume are matrix products. Convolutions of enlarged maps run at the maps' own size. A very
shallow motion grid becomes channels, so that all its convolutions are 2-D. The mask's cubic convolution is a 2-D one
with its depth taps as outputs, and the occlusion's square one a matrix product with its taps as outputs. A softmax does
not change when one logit is subtracted from all: the background's mask is never computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import wide
from .sampling import gather_samples, gather_shifted_copies, shifted_copies
from .upsampled import UpsampledConv, convolution
from .warping import DenseMotion, DenseMotionNetwork, WarpingNetwork, coordinate_axis, pool_planes, sample_volume

_SHALLOW = 3
Convolution = nn.Conv2d | nn.Conv3d


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarpLayout:
    """How the fused warping network is laid out; every choice computes the same.

    Attributes:
        align: channels are padded with zeros to a multiple of this; 8 lets a GPU's matrix units read them.
        gather: samples are written as gathers in channels-last order, for a compiler to fuse.
        fold_upsampling: convolutions of enlarged maps run at the maps' own size.
        mask_parts: depth taps of the mask in each convolution; their sum is the mask's kernel. None is all in one.
    """

    align: int = 1
    gather: bool = False
    fold_upsampling: bool = True
    mask_parts: tuple[int, ...] | None = None


PLAIN_LAYOUT = WarpLayout()


class _FusedHourglass(nn.Module):
    def __init__(
        self, network: DenseMotionNetwork, convert: Callable[[nn.Conv3d], Convolution], layout: WarpLayout
    ) -> None:
        super().__init__()
        encoder, decoder = network.hourglass.encoder, network.hourglass.decoder
        down, up = (
            [convert(cast(nn.Conv3d, block.conv)) for block in blocks]
            for blocks in (encoder.down_blocks, decoder.up_blocks)
        )
        last = convert(decoder.conv)
        self.fold = layout.fold_upsampling
        self.down = nn.ModuleList([_padded(down[0], layout.align, outputs=False), *down[1:]])
        self.up = nn.ModuleList(UpsampledConv(conv, 2) if self.fold else conv for conv in up)
        self.last = _padded(last, layout.align)

    def forward(self, x: Tensor) -> Tensor:
        maps = [x]
        for conv in self.down:
            maps.append(_halved(F.relu(conv(maps[-1]))))
        *skips, x = maps
        for conv in self.up:
            x = conv(x if self.fold else _twice(x))
            x = torch.cat([F.relu(x), skips.pop()], dim=1)
        return F.relu(self.last(x))


class _DepthTaps(nn.Module):
    """A cubic convolution as 2-D ones with the depth taps as outputs, then a sum over shifted slices."""

    def __init__(self, conv: nn.Conv3d, layout: WarpLayout) -> None:
        super().__init__()
        taps, margin = conv.kernel_size[0], conv.kernel_size[1] // 2
        self.parts = layout.mask_parts if layout.mask_parts and sum(layout.mask_parts) == taps else (taps,)
        self.outputs = conv.out_channels
        self.bias = conv.bias
        weights = conv.weight.permute(2, 0, 1, 3, 4).split(self.parts)  # (taps of the part, out, in, k, k)
        convs = (convolution(weight.flatten(0, 1), None, (margin, margin)) for weight in weights)
        self.convs = nn.ModuleList(_padded(c, layout.align) for c in convs)

    def forward(self, x: Tensor) -> Tensor:
        """(b, in, d, h, w) -> (b, out, d, h, w), float32 at least."""
        depth = x.shape[2]
        slices = x.transpose(1, 2).flatten(0, 1)  # (b d, in, h, w)
        margin = sum(self.parts) // 2
        total = cast(Tensor, self.bias)[:, None, None, None].to(wide(x.dtype))
        tap = 0
        for conv, part in zip(self.convs, self.parts, strict=True):
            made = conv(slices)[:, : part * self.outputs].unflatten(0, (-1, depth)).unflatten(2, (part, self.outputs))
            for i in range(part):
                total = total + _shifted(made[:, :, i].transpose(1, 2), tap - margin)
                tap += 1
        return total


class _TapOutputs(nn.Module):
    """A square convolution over all depth slices, with one output: each tap's product first, then their sum."""

    def __init__(self, conv: nn.Conv2d, depth: int, align: int) -> None:
        super().__init__()
        self.kernel = conv.kernel_size[0]
        weight = conv.weight[0].unflatten(0, (-1, depth)).permute(2, 3, 0, 1).flatten(0, 1)  # (taps, in, d)
        self.products = _padded(convolution(weight[..., None, None], None, (0, 0, 0)), align)
        self.bias = conv.bias

    def forward(self, x: Tensor) -> Tensor:
        """(b, in, d, h, w) -> (b, 1, h, w)."""
        kernel, (height, width) = self.kernel, x.shape[-2:]
        products = self.products(x)[:, : kernel**2, 0].to(wide(x.dtype))
        products = F.pad(products, (kernel // 2,) * 4)
        total = cast(Tensor, self.bias).to(products.dtype)
        for tap in range(kernel**2):
            row, column = divmod(tap, kernel)
            total = total + products[:, tap : tap + 1, row : row + height, column : column + width]
        return total


class FusedDenseMotion(nn.Module):
    """Deformation and occlusion; see `DenseMotionNetwork`.

    Args:
        network: the loaded, folded network.
        layout: how it is laid out.
    """

    def __init__(self, network: DenseMotionNetwork, layout: WarpLayout) -> None:
        super().__init__()
        self.plain, self.layout = network, layout
        depth = network.grid[0]
        self.shallow = depth <= _SHALLOW
        mask = _without_background(network.mask)
        self.mask: nn.Module
        self.occlusion: nn.Module
        if self.shallow:
            self.hourglass = _FusedHourglass(network, lambda conv: _depth_as_channels(conv, depth), layout)
            self.mask = _padded(_depth_as_channels(mask, depth), layout.align, outputs=False)
            self.occlusion = _padded(network.occlusion, layout.align, outputs=False)
        else:
            self.hourglass = _FusedHourglass(network, lambda conv: conv, layout)
            self.mask = _DepthTaps(mask, layout)
            self.occlusion = _TapOutputs(network.occlusion, depth, layout.align)

    def compress(self, f_s: Tensor) -> Tensor:
        """(b, c, depth, size, size) -> (b, c', d, h, w), the part of `forward` that depends on the source alone."""
        return self.plain.compressed(f_s)

    def forward(self, compressed: Tensor, x_s: Tensor, x_d: Tensor) -> DenseMotion:
        """Estimates the deformation; arguments beside `compress`'s result as of `DenseMotionNetwork`."""
        depth, size = self.plain.grid
        shifts = F.pad(x_s - x_d, (0, 0, 1, 0))  # (b, 22, 3): the background's is zero
        x = self.hourglass(self._hourglass_input(compressed, shifts, self.plain.heat_difference(x_s, x_d)))
        logits = self.mask(x)
        occlusion = torch.sigmoid(self.occlusion(x))
        if self.shallow:
            logits = logits.unflatten(1, (-1, depth))
        logits = F.pad(logits.to(wide(logits.dtype)), (0, 0, 0, 0, 0, 0, 1, 0))
        mask = logits.softmax(1)
        return self.plain.motion(mask, shifts, occlusion.to(compressed.dtype))

    def _hourglass_input(self, compressed: Tensor, shifts: Tensor, heat: Tensor) -> Tensor:
        """(b, 22 (1 + c'), d, h, w), channels padded; depth as channels where it is shallow."""
        depth, size = self.plain.grid
        line = coordinate_axis(size, like=shifts)
        axes = line, line, coordinate_axis(depth, like=shifts)
        heat = heat[:, :, None].to(compressed.dtype)  # (b, 22, 1, d, h, w)
        if self.layout.gather:
            samples = gather_shifted_copies(compressed, shifts, axes)  # (b, d, h, w, 22, c')
            x = torch.cat([heat.permute(0, 3, 4, 5, 1, 2), samples], dim=-1).flatten(-2).permute(0, 4, 1, 2, 3)
        else:
            samples = shifted_copies(compressed, shifts, axes)  # (b, 22, c', d, h, w)
            x = torch.cat([heat, samples], dim=2).flatten(1, 2)
        if self.shallow:
            x = x.flatten(1, 2)
        spare = -x.shape[1] % self.layout.align
        return F.pad(x, (0, 0) * (x.ndim - 2) + (0, spare)) if spare else x


class FusedWarp(nn.Module):
    """Appearance volume and key points -> the feature map that the decoder draws; see `WarpingNetwork`.

    Args:
        network: the loaded, folded network.
        layout: how it is laid out.
    """

    def __init__(self, network: WarpingNetwork, layout: WarpLayout = PLAIN_LAYOUT) -> None:
        super().__init__()
        self.gather = layout.gather
        self.dense_motion = FusedDenseMotion(network.dense_motion_network, layout)
        self.fourth = network.fourth
        third, depth = network.third.conv, network.dense_motion_network.volume[0]
        self.third = _channels_innermost(third, depth) if self.gather else third

    def prepare(self, f_s: Tensor) -> tuple[Tensor, Tensor]:
        """What the frames of one source picture share.

        Args:
            f_s: (b, c, depth, size, size) appearance volumes.

        Returns:
            The volumes compressed for dense motion, and the volumes in the order in which they are sampled.
        """
        order = torch.channels_last_3d if self.gather else torch.contiguous_format
        return self.dense_motion.compress(f_s), f_s.contiguous(memory_format=order)

    def deform(self, compressed: Tensor, volume: Tensor, x_s: Tensor, x_d: Tensor) -> tuple[Tensor, Tensor]:
        """The deformed volume (b, c * depth, size, size), in this module's own channel order, and the occlusion."""
        motion = self.dense_motion(compressed, x_s, x_d)
        if not self.gather:
            return sample_volume(volume, motion.deformation).flatten(1, 2), motion.occlusion
        samples = gather_samples(volume, motion.deformation.permute(0, 2, 3, 1, 4))  # (b, h, w, d, c)
        return samples.flatten(3).permute(0, 3, 1, 2), motion.occlusion

    def project(self, deformed: Tensor, occlusion: Tensor) -> Tensor:
        """The deformed volume as a feature map (b, feature_channels, size, size)."""
        return self.fourth(F.leaky_relu(self.third(deformed), 0.01)) * occlusion

    def forward(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """As `WarpingNetwork.forward`."""
        return self.project(*self.deform(*self.prepare(f_s), x_s, x_d))


def _without_background(mask: nn.Conv3d) -> nn.Conv3d:
    """The mask's logits but the first, less the first."""
    weight, bias = mask.weight.double(), cast(Tensor, mask.bias).double()
    difference = (weight[1:] - weight[:1]).to(mask.weight.dtype)
    return cast(nn.Conv3d, convolution(difference, bias[1:] - bias[:1], mask.padding))


def _depth_as_channels(conv: nn.Conv3d, depth: int) -> nn.Conv2d:
    """A convolution of (b, in, d, h, w) as one of (b, in * d, h, w)."""
    kernel, weight = conv.kernel_size[0], conv.weight
    outputs, inputs, _, height, width = weight.shape
    planes = weight.new_zeros(outputs, depth, inputs, depth, height, width)
    for to in range(depth):
        for source in range(depth):
            tap = source - to + kernel // 2
            if 0 <= tap < kernel:
                planes[:, to, :, source] = weight[:, :, tap]
    bias = None if conv.bias is None else conv.bias.repeat_interleave(depth)
    return cast(nn.Conv2d, convolution(planes.flatten(2, 3).flatten(0, 1), bias, (height // 2, width // 2)))


def _padded(conv: Convolution, align: int, *, outputs: bool = True) -> Convolution:
    """The convolution with zeros for further input channels, and for further outputs."""
    more_in = -conv.in_channels % align
    more_out = -conv.out_channels % align if outputs else 0
    if not more_in and not more_out:
        return conv
    weight = F.pad(conv.weight, (0, 0) * (conv.weight.ndim - 2) + (0, more_in, 0, more_out))
    bias = None if conv.bias is None else F.pad(conv.bias, (0, more_out))
    return convolution(weight, bias, conv.padding)


def _channels_innermost(conv: nn.Conv2d, depth: int) -> nn.Conv2d:
    """The convolution for inputs in the order (depth, channel) in place of (channel, depth)."""
    weight = conv.weight.unflatten(1, (-1, depth)).transpose(1, 2).flatten(1, 2)
    return cast(nn.Conv2d, convolution(weight, conv.bias, conv.padding))


def _shifted(x: Tensor, shift: int) -> Tensor:
    """(b, c, d, h, w) whose slice i is x's slice i + shift, or zero."""
    if shift >= 0:
        return F.pad(x[:, :, shift:], (0, 0, 0, 0, 0, shift))
    return F.pad(x[:, :, :shift], (0, 0, 0, 0, -shift, 0))


def _halved(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 2) if x.ndim == 4 else pool_planes(x, 2)


def _twice(x: Tensor) -> Tensor:
    factors = (2.0, 2.0) if x.ndim == 4 else (1.0, 2.0, 2.0)
    return F.interpolate(x, scale_factor=factors, mode="nearest")
