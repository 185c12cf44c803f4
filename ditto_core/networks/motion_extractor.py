"""Motion extractor: head pose, expression and canonical key points of a picture."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import wide
from .presets import KEYPOINTS, Preset

ANGLE_BINS = 66


class MotionParameters(NamedTuple):
    """What the extractor reads off a picture; never in half precision.

    Attributes:
        pitch: (b, 66) logits over angle bins, as are yaw and roll.
        yaw: see pitch.
        roll: see pitch.
        t: (b, 3) translation.
        exp: (b, 63) expression, 21 points x 3.
        scale: (b, 1).
        kp: (b, 63) canonical key points, 21 points x 3.
    """

    pitch: Tensor
    yaw: Tensor
    roll: Tensor
    t: Tensor
    exp: Tensor
    scale: Tensor
    kp: Tensor


class _ChannelsFirstNorm(nn.LayerNorm):
    """Layer norm over the channels of a (b, c, h, w) map."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _GlobalResponseNorm(nn.Module):
    """ConvNeXt V2's norm (arXiv:2301.00808, section 3.2), on (b, h, w, c)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, 1, channels))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, channels))

    def forward(self, x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x.to(wide(x.dtype)), dim=(1, 2), keepdim=True)
        response = norm / (norm.mean(-1, keepdim=True) + 1e-6)
        return self.gamma * (x * response.to(x.dtype)) + self.beta + x


class _Block(nn.Module):
    """ConvNeXt V2 block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.grn = _GlobalResponseNorm(4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.dwconv(x).permute(0, 2, 3, 1)  # (b, h, w, c)
        y = self.grn(F.gelu(self.pwconv1(self.norm(y))))
        return x + self.pwconv2(y).permute(0, 3, 1, 2)


class _ConvNeXtV2(nn.Module):
    """ConvNeXt-V2 with seven linear heads."""

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        widths = preset.extractor_widths
        stem = nn.Sequential(nn.Conv2d(3, widths[0], 4, stride=4), _ChannelsFirstNorm(widths[0], eps=1e-6))
        halving = (
            nn.Sequential(_ChannelsFirstNorm(a, eps=1e-6), nn.Conv2d(a, b, 2, stride=2))
            for a, b in itertools.pairwise(widths)
        )
        self.downsample_layers = nn.ModuleList([stem, *halving])
        self.stages = nn.ModuleList(
            nn.Sequential(*(_Block(width) for _ in range(depth)))
            for width, depth in zip(widths, preset.extractor_depths, strict=True)
        )
        self.norm = nn.LayerNorm(widths[-1], eps=1e-6)
        self.fc_kp = nn.Linear(widths[-1], 3 * KEYPOINTS)
        self.fc_scale = nn.Linear(widths[-1], 1)
        self.fc_pitch = nn.Linear(widths[-1], ANGLE_BINS)
        self.fc_yaw = nn.Linear(widths[-1], ANGLE_BINS)
        self.fc_roll = nn.Linear(widths[-1], ANGLE_BINS)
        self.fc_t = nn.Linear(widths[-1], 3)
        self.fc_exp = nn.Linear(widths[-1], 3 * KEYPOINTS)

    def forward(self, image: Tensor) -> MotionParameters:
        x = image
        for downsample, stage in zip(self.downsample_layers, self.stages, strict=True):
            x = stage(downsample(x))
        x = self.norm(x.mean((2, 3)))  # (b, width)
        heads = {name: getattr(self, f"fc_{name}")(x) for name in MotionParameters._fields}
        return MotionParameters(**{name: value.to(wide(value.dtype)) for name, value in heads.items()})


class MotionExtractor(nn.Module):
    """A picture -> its motion parameters (LivePortrait, arXiv:2407.03168, section 3.1: M)."""

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        self.detector = _ConvNeXtV2(preset)

    def forward(self, image: Tensor) -> MotionParameters:
        """Reads pose, expression and canonical key points off a picture.

        Args:
            image: (b, 3, 256, 256) RGB in 0..1.

        Returns:
            The seven heads' values, float32 at least.
        """
        return self.detector(image)
