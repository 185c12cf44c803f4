"""Warping network: moves the appearance volume from the source to the driving key points."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import ConvNorm2d, ConvNorm3d, DepthTapConv3d, wide
from .presets import KEYPOINTS, Preset

_MOTIONS = KEYPOINTS + 1  # the background stays where it is


def coordinate_axis(n: int, like: Tensor) -> Tensor:
    """The n cell centres from -1 to 1, end points included.

    The sampler below takes -1 and 1 as the cells' outer edges. The two conventions disagree in the original too,
    and the weights were trained that way.
    """
    return torch.linspace(-1, 1, n, device=like.device, dtype=wide(like.dtype))


def coordinate_grid(depth: int, size: int, like: Tensor) -> Tensor:
    """(depth, size, size, 3) points (x right, y down, z inwards) in -1..1."""
    line, deep = coordinate_axis(size, like), coordinate_axis(depth, like)
    z, y, x = torch.meshgrid(deep, line, line, indexing="ij")
    return torch.stack((x, y, z), dim=-1)


def sample_volume(volume: Tensor, points: Tensor) -> Tensor:
    """Trilinear samples, zero outside; computed in float32 at least.

    Args:
        volume: (b, c, d, h, w).
        points: (b, d', h', w', 3) in -1..1.

    Returns:
        (b, c, d', h', w') of the volume's type.
    """
    sampled = F.grid_sample(volume.to(points.dtype), points, padding_mode="zeros", align_corners=False)
    return sampled.to(volume.dtype)


def pool_planes(x: Tensor, step: int) -> Tensor:
    """Average pooling of height and width; as 2-D pooling, which the CPU has in half precision too."""
    return F.avg_pool2d(x.flatten(1, 2), step).unflatten(1, x.shape[1:3])


class _DownBlock(ConvNorm3d):
    """Convolution, norm, ReLU, and pooling that halves height and width."""

    def forward(self, x: Tensor) -> Tensor:
        return pool_planes(super().forward(x), 2)


class _UpBlock(ConvNorm3d):
    """Nearest enlargement of height and width, convolution, norm, ReLU."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.interpolate(x, scale_factor=(1.0, 2.0, 2.0), mode="nearest"))


class _HourglassEncoder(nn.Module):
    def __init__(self, channels_in: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.down_blocks = nn.ModuleList(_DownBlock(a, b) for a, b in itertools.pairwise((channels_in, *widths)))

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = [x]
        for block in self.down_blocks:
            maps.append(block(maps[-1]))
        return maps


class _HourglassDecoder(nn.Module):
    folds = {"conv": "norm"}

    def __init__(self, channels_in: int, widths: tuple[int, ...], channels_out: int) -> None:
        super().__init__()
        outputs = (*reversed(widths[:-1]), channels_out)
        skips = (0, *reversed(widths[:-1]))  # each block but the first also reads the skip of its size
        inputs = (widths[-1], *outputs[:-1])
        self.up_blocks = nn.ModuleList(_UpBlock(a + skip, b) for a, skip, b in zip(inputs, skips, outputs, strict=True))
        self.channels = channels_out + channels_in
        self.conv = nn.Conv3d(self.channels, self.channels, 3, padding=1)
        self.norm: nn.Module = nn.BatchNorm3d(self.channels)

    def forward(self, maps: list[Tensor]) -> Tensor:
        *skips, x = maps
        for block in self.up_blocks:
            x = torch.cat([block(x), skips.pop()], dim=1)
        return F.relu(self.norm(self.conv(x)))


class _Hourglass(nn.Module):
    """U-Net over height and width; depth keeps its size."""

    def __init__(self, channels_in: int, widths: tuple[int, ...], channels_out: int) -> None:
        super().__init__()
        self.encoder = _HourglassEncoder(channels_in, widths)
        self.decoder = _HourglassDecoder(channels_in, widths, channels_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


class DenseMotion(NamedTuple):
    """Where every cell of the warped volume comes from.

    Attributes:
        deformation: (b, depth, size, size, 3) points of the source volume in -1..1, at the volume's size.
        occlusion: (b, 1, size, size) in 0..1, at the volume's size.
        mask: (b, 22, d, h, w) weights of the sparse motions, at the motion grid's size; they sum to 1.
    """

    deformation: Tensor
    occlusion: Tensor
    mask: Tensor


class DenseMotionNetwork(nn.Module):
    """Mixes 22 rigid shifts (21 key points and the background) into one dense deformation."""

    folds = {"compress": "norm"}

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        self.grid = preset.motion_grid
        self.volume = (preset.volume_depth, preset.volume_size)
        self.variances = (preset.heatmap_variance, preset.heatmap_variance, preset.heatmap_depth_variance)
        channels = _MOTIONS * (1 + preset.motion_channels)
        self.compress = nn.Conv3d(preset.volume_channels, preset.motion_channels, 1)
        self.norm: nn.Module = nn.BatchNorm3d(preset.motion_channels)
        self.hourglass = _Hourglass(channels, preset.hourglass_widths, preset.hourglass_out)
        width = self.hourglass.decoder.channels
        self.mask = DepthTapConv3d(width, _MOTIONS, preset.mask_kernel, padding=preset.mask_kernel // 2)
        kernel = preset.occlusion_kernel
        self.occlusion = nn.Conv2d(width * self.grid[0], 1, kernel, padding=kernel // 2)

    def forward(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> DenseMotion:
        """Estimates the deformation that takes x_s to x_d.

        Args:
            f_s: (b, c, depth, size, size) appearance volume.
            x_s: (b, 21, 3) source key points.
            x_d: (b, 21, 3) driving key points.

        Returns:
            Deformation and occlusion at the volume's size, and the mask.
        """
        grid = coordinate_grid(*self.grid, like=x_d)  # (d, h, w, 3)
        shifts = F.pad(x_s - x_d, (0, 0, 1, 0))  # (b, 22, 3): the background's is zero
        heat = self.heat_difference(x_s, x_d)
        samples = self._shifted_volumes(self.compressed(f_s), grid, shifts)  # (b, 22, c', d, h, w)
        x = torch.cat([heat[:, :, None].to(f_s.dtype), samples], dim=2).flatten(1, 2)
        x = self.hourglass(x)  # (b, width, d, h, w)
        logits = self.mask(x)
        mask = logits.to(wide(logits.dtype)).softmax(1)
        return self.motion(mask, shifts, torch.sigmoid(self.occlusion(x.flatten(1, 2))))

    def compressed(self, f_s: Tensor) -> Tensor:
        """The volume at the motion grid's size, with fewer channels: (b, c', d, h, w)."""
        (depth, size), (volume_depth, volume_size) = self.grid, self.volume
        if volume_depth != depth:
            f_s = f_s.unflatten(2, (depth, -1)).mean(3)
        if volume_size != size:
            f_s = pool_planes(f_s, volume_size // size)
        return F.relu(self.norm(self.compress(f_s)))

    def heat_difference(self, x_s: Tensor, x_d: Tensor) -> Tensor:
        """(b, 22, d, h, w): heat maps of the driving points less those of the source; the background's is zero."""
        return F.pad(self._heatmaps(x_d) - self._heatmaps(x_s), (0, 0, 0, 0, 0, 0, 1, 0))

    def motion(self, mask: Tensor, shifts: Tensor, occlusion: Tensor) -> DenseMotion:
        """Mixes the shifts (b, 22, 3) by the mask; the result is at the volume's size.

        The masks sum to 1, so that the mean of shifted grids is the grid and the mean shift.
        """
        grid = coordinate_grid(*self.grid, like=shifts)
        deformation = grid + torch.einsum("bkdhw,bkc->bdhwc", mask, shifts)
        return DenseMotion(*self._at_volume_size(deformation, occlusion), mask)

    def _heatmaps(self, points: Tensor) -> Tensor:
        """(b, 21, d, h, w): Gaussians around the points, as products of one Gaussian an axis."""
        depth, size = self.grid
        factors = [
            torch.exp(-0.5 / variance * (coordinate_axis(n, like=points) - points[..., axis, None]) ** 2)
            for axis, (n, variance) in enumerate(zip((size, size, depth), self.variances, strict=True))
        ]
        x, y, z = factors  # (b, 21, n) each
        return z[..., :, None, None] * y[..., None, :, None] * x[..., None, None, :]

    def _shifted_volumes(self, compressed: Tensor, grid: Tensor, shifts: Tensor) -> Tensor:
        """(b, 22, c', d, h, w): the compressed volume, sampled at each of the 22 shifted grids."""
        # one call with the grids stacked along depth: the volume is not copied 22 times
        points = (grid + shifts[:, :, None, None, None]).flatten(1, 2)  # (b, 22 d, h, w, 3)
        sampled = sample_volume(compressed, points)  # (b, c', 22 d, h, w)
        return sampled.unflatten(2, (_MOTIONS, -1)).transpose(1, 2)

    def _at_volume_size(self, deformation: Tensor, occlusion: Tensor) -> tuple[Tensor, Tensor]:
        if self.grid == self.volume:
            return deformation, occlusion
        # end points are cell centres here, so that enlarging the plain grid gives the plain grid
        depth, size = self.volume
        points = deformation.permute(0, 4, 1, 2, 3)
        points = F.interpolate(points, (depth, size, size), mode="trilinear", align_corners=True)
        occlusion = F.interpolate(occlusion, (size, size), mode="bilinear", align_corners=True)
        return points.permute(0, 2, 3, 4, 1), occlusion


class WarpingNetwork(nn.Module):
    """Appearance volume and key points -> the feature map that the decoder draws (LivePortrait, section 3.1: W)."""

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        self.dense_motion_network = DenseMotionNetwork(preset)
        self.third = ConvNorm2d(preset.volume_channels * preset.volume_depth, preset.feature_channels)
        self.fourth = nn.Conv2d(preset.feature_channels, preset.feature_channels, 1)

    def deform(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> tuple[Tensor, Tensor]:
        """The volume, deformed.

        Args:
            f_s: (b, c, depth, size, size) appearance volume.
            x_s: (b, 21, 3) source key points.
            x_d: (b, 21, 3) driving key points.

        Returns:
            deformed (b, c * depth, size, size) and occlusion (b, 1, size, size) in 0..1.
        """
        motion = self.dense_motion_network(f_s, x_s, x_d)
        return sample_volume(f_s, motion.deformation).flatten(1, 2), motion.occlusion

    def project(self, deformed: Tensor, occlusion: Tensor) -> Tensor:
        """The deformed volume as a feature map.

        Args:
            deformed: (b, c * depth, size, size).
            occlusion: (b, 1, size, size) in 0..1.

        Returns:
            (b, feature_channels, size, size).
        """
        x = F.leaky_relu(self.third(deformed), 0.01)
        return self.fourth(x) * occlusion

    def forward(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """`deform`, then `project`: (b, feature_channels, size, size); official (b, 256, 64, 64)."""
        return self.project(*self.deform(f_s, x_s, x_d))
