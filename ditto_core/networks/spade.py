"""SPADE decoder: the warped feature map as a picture."""

from __future__ import annotations

import itertools
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import SpectralNormConv2d, instance_norm
from .presets import Preset


def _conv(preset: Preset, channels_in: int, channels_out: int, kernel: int, *, bias: bool = True) -> nn.Module:
    if preset.spectral_norm:
        return SpectralNormConv2d(channels_in, channels_out, kernel, bias=bias)
    return nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, bias=bias)


class Spade(nn.Module):
    """Instance norm, then a scale and shift for every pixel from the condition (arXiv:1903.07291, eq. 1)."""

    def __init__(self, preset: Preset, channels: int) -> None:
        super().__init__()
        self.mlp_shared = nn.Sequential(
            nn.Conv2d(preset.feature_channels, preset.spade_hidden, 3, padding=1), nn.ReLU()
        )
        self.mlp_gamma = nn.Conv2d(preset.spade_hidden, channels, 3, padding=1)
        self.mlp_beta = nn.Conv2d(preset.spade_hidden, channels, 3, padding=1)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(b, channels, h, w) and the condition at the same size -> (b, channels, h, w)."""
        shared = self.mlp_shared(condition)
        return instance_norm(x) * (1 + self.mlp_gamma(shared)) + self.mlp_beta(shared)


class SpadeBlock(nn.Module):
    """Residual block of two SPADE norms and convolutions; the shortcut has its own where widths differ."""

    def __init__(self, preset: Preset, channels_in: int, channels_out: int) -> None:
        super().__init__()
        middle = min(channels_in, channels_out)
        self.conv_0 = _conv(preset, channels_in, middle, 3)
        self.conv_1 = _conv(preset, middle, channels_out, 3)
        self.norm_0 = Spade(preset, channels_in)
        self.norm_1 = Spade(preset, middle)
        self.learned_shortcut = channels_in != channels_out
        if self.learned_shortcut:
            self.conv_s = _conv(preset, channels_in, channels_out, 1, bias=False)
            self.norm_s = Spade(preset, channels_in)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(b, in, h, w) and the condition of any size -> (b, out, h, w)."""
        y = self.conv_0(F.leaky_relu(self.norm_0(x, condition), 0.2))
        y = self.conv_1(F.leaky_relu(self.norm_1(y, condition), 0.2))
        if self.learned_shortcut:
            x = self.conv_s(self.norm_s(x, condition))
        return x + y


class SpadeDecoder(nn.Module):
    """Feature map -> face picture (LivePortrait, arXiv:2407.03168, section 3.1: G)."""

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        width, ups = preset.decoder_width, preset.upsample_widths
        self.fc = nn.Conv2d(preset.feature_channels, width, 3, padding=1)
        self._middle = [f"G_middle_{i}" for i in range(preset.middle_blocks)]
        self._ups = [f"up_{i}" for i in range(len(ups))]
        for name in self._middle:
            self.add_module(name, SpadeBlock(preset, width, width))
        for name, (a, b) in zip(self._ups, itertools.pairwise((width, *ups)), strict=True):
            self.add_module(name, SpadeBlock(preset, a, b))
        factor = preset.pixel_shuffle
        self.conv_img = nn.Sequential(
            nn.Conv2d((width, *ups)[-1], 3 * factor**2, 3, padding=1), nn.PixelShuffle(factor)
        )

    def blocks(self) -> tuple[list[SpadeBlock], list[SpadeBlock]]:
        """The middle blocks, and those that each follow an enlargement."""
        middle, ups = ([cast(SpadeBlock, self.get_submodule(n)) for n in names] for names in (self._middle, self._ups))
        return middle, ups

    def forward(self, feature: Tensor) -> Tensor:
        """Draws the face.

        Args:
            feature: (b, feature_channels, size, size) from the warping network.

        Returns:
            (b, 3, 512, 512) RGB in 0..1.
        """
        x = self.fc(feature)
        middle, ups = self.blocks()
        for block in middle:
            x = block(x, feature)
        for block in ups:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            condition = F.interpolate(feature, size=x.shape[2:], mode="nearest")
            x = block(x, condition)
        return torch.sigmoid(self.conv_img(F.leaky_relu(x, 0.2)))
