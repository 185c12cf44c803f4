"""Stitching network: small shifts of the driving key points that keep the shoulders in place."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .layers import wide
from .presets import KEYPOINTS, Preset


class StitchingNetwork(nn.Module):
    """Source and driving key points -> corrected driving key points (LivePortrait, section 3.3: S)."""

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        del preset  # the same size in every preset
        self.mlp = nn.Sequential(
            nn.Linear(2 * 3 * KEYPOINTS, 128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 3 * KEYPOINTS + 2),
        )

    def forward(self, x_s: Tensor, x_d: Tensor) -> Tensor:
        """Corrects the driving key points.

        Args:
            x_s: (b, 21, 3) source key points.
            x_d: (b, 21, 3) driving key points; left as they are.

        Returns:
            (b, 21, 3): x_d plus a shift of each point and one shift of all in x and y; float32 at least.
        """
        weight: Tensor = self.mlp[0].weight  # type: ignore[assignment]
        pairs = torch.cat([x_s.flatten(1), x_d.flatten(1)], dim=1)
        delta = self.mlp(pairs.to(weight.dtype)).to(wide(weight.dtype))  # (b, 65)
        points = x_d + delta[:, :-2].unflatten(1, (KEYPOINTS, 3))
        return points + torch.nn.functional.pad(delta[:, None, -2:], (0, 1))
