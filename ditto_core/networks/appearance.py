"""Appearance extractor: the source picture as a volume of features."""

from __future__ import annotations

import itertools
from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn

from .layers import ConvNorm2d
from .presets import Preset


class _DownBlock(ConvNorm2d):
    """Convolution, norm, ReLU, and average pooling that halves the size."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(F.relu(super().forward(x)), 2)


class _ResidualBlock3d(nn.Module):
    """Norm, ReLU, convolution, twice, beside the identity."""

    folds = {"conv1": "norm2"}  # norm1 follows a sum

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv3d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv3d(channels, channels, 3, padding=1)
        self.norm1: nn.Module = nn.BatchNorm3d(channels)
        self.norm2: nn.Module = nn.BatchNorm3d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.relu(self.norm1(x)))
        y = self.conv2(F.relu(self.norm2(y)))
        return x + y


class AppearanceExtractor(nn.Module):
    """The source picture -> f_s, its appearance volume (LivePortrait, arXiv:2407.03168, section 3.1: F)."""

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        widths = preset.appearance_widths
        self.channels, self.depth = preset.volume_channels, preset.volume_depth
        self.first = ConvNorm2d(3, widths[0])
        self.down_blocks = nn.ModuleList(_DownBlock(a, b) for a, b in itertools.pairwise(widths))
        self.second = nn.Conv2d(widths[-1], self.channels * self.depth, 1)
        blocks = (_ResidualBlock3d(self.channels) for _ in range(preset.appearance_blocks))
        self.resblocks_3d = nn.Sequential(OrderedDict((f"3dr{i}", block) for i, block in enumerate(blocks)))

    def forward(self, image: Tensor) -> Tensor:
        """Extracts the volume.

        Args:
            image: (b, 3, 256, 256) RGB in 0..1.

        Returns:
            f_s (b, channels, depth, size, size); official (b, 32, 16, 64, 64).
        """
        x = F.relu(self.first(image))
        for block in self.down_blocks:
            x = block(x)
        x = self.second(x)  # (b, channels * depth, size, size): channel-major, then depth
        x = x.unflatten(1, (self.channels, self.depth))
        return self.resblocks_3d(x)
