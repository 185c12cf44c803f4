"""Green screen: a presenter before one green becomes one with straight alpha, or before another picture.

A pixel is seen as a mix, alpha F + (1 - alpha) K, of a colour F that is not green and the screen's K. How far
green exceeds the larger of red and blue is then (1 - alpha) of what it does in K, which gives alpha; the mix,
solved for F, is the colour without the screen. (Nearly so where red is the larger in F and blue in K.) Green that
is left over is light from the screen on the presenter (spill), and is reduced to the larger of red and blue.
After Smith and Blinn, "Blue Screen Matting", SIGGRAPH 96.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InvalidValueError

_GREENEST = 40
"""Levels by which green must exceed red and blue in a screen."""
_BORDER = 0.02


@dataclass(frozen=True, kw_only=True)
class GreenScreen:
    """The screen that a presenter stands before.

    Attributes:
        colour: its red, green and blue, 0 to 255.
        clear: share of the screen's green excess above which a pixel is only screen; lower it where the screen
            is unevenly lit.
        solid: share below which a pixel is only presenter; raise it where the presenter shows holes.
    """

    colour: tuple[float, float, float]
    clear: float = 0.9
    solid: float = 0.05

    def __post_init__(self) -> None:
        """Checks colour and shares.

        Raises:
            InvalidValueError: the colour is not green, or the shares are not in order within 0 to 1.
        """
        if not all(0 <= value <= 255 for value in self.colour) or self.excess < _GREENEST:
            raise InvalidValueError(
                f"a screen of colour {tuple(round(value) for value in self.colour)}",
                remedy=f"use a screen whose green exceeds red and blue by {_GREENEST} levels or more",
            )
        if not 0 <= self.solid < self.clear <= 1:
            raise InvalidValueError(
                f"solid {self.solid} and clear {self.clear}", remedy="choose 0 <= solid < clear <= 1"
            )

    @classmethod
    def of(cls, picture: Tensor) -> GreenScreen:
        """Measures the screen: the median colour at the upper, left and right borders of a picture.

        Args:
            picture: (H, W, 3) uint8 RGB.

        Raises:
            InvalidValueError: it is not green.
        """
        height, width = picture.shape[:2]
        rows, columns = max(1, round(height * _BORDER)), max(1, round(width * _BORDER))
        # the lower halves of the sides may show the presenter's shoulders
        parts = picture[:rows], picture[: height // 2, :columns], picture[: height // 2, -columns:]
        red, green, blue = torch.cat([part.reshape(-1, 3) for part in parts]).float().median(0).values.tolist()
        return cls(colour=(red, green, blue))

    @property
    def excess(self) -> float:
        """Levels by which the screen's green exceeds its red and blue."""
        red, green, blue = self.colour
        return green - max(red, blue)

    @torch.inference_mode()
    def straight(self, pictures: Tensor) -> Tensor:
        """Cuts the presenter out.

        Args:
            pictures: (n, H, W, 3) uint8 RGB.

        Returns:
            (n, H, W, 4) uint8: RGB without the screen, not multiplied with alpha, and alpha; 0 where only the
            screen is seen.
        """
        return torch.stack([(self._cut_out(picture) + 0.5).to(torch.uint8).permute(1, 2, 0) for picture in pictures])

    @torch.inference_mode()
    def over(self, pictures: Tensor, background: Tensor) -> Tensor:
        """Puts the presenter before another picture.

        Args:
            pictures: (n, H, W, 3) uint8 RGB.
            background: (H, W, 3) uint8 RGB on the same device, see `fitted_background`.

        Returns:
            (n, H, W, 3) uint8 RGB.
        """
        behind = background.permute(2, 0, 1).float()
        made = []
        for picture in pictures:
            cut = self._cut_out(picture)
            mixed = torch.lerp(behind, cut[:3], cut[3:] / 255)
            made.append((mixed + 0.5).to(torch.uint8).permute(1, 2, 0))
        return torch.stack(made)

    def _cut_out(self, picture: Tensor) -> Tensor:
        """(H, W, 3) uint8 -> (4, H, W) float32 in 0..255."""
        rgb = picture.permute(2, 0, 1).contiguous().float()
        screen = torch.tensor(self.colour, device=rgb.device).view(3, 1, 1)
        share = (rgb[1] - torch.maximum(rgb[0], rgb[2])) / self.excess
        alpha = ((self.clear - share) / (self.clear - self.solid)).clamp(0, 1)
        colour = ((rgb - (1 - alpha) * screen) / alpha.clamp(min=1 / 255)).clamp(0, 255)
        colour[1] = torch.minimum(colour[1], torch.maximum(colour[0], colour[2]))
        return torch.cat([colour * (alpha > 0), 255 * alpha[None]])


def fitted_background(picture: Tensor, size: tuple[int, int]) -> Tensor:
    """A picture that fills the frame: scaled with an antialiasing filter, and cut at both ends where it is too long.

    Args:
        picture: (h, w, 3) uint8 RGB.
        size: height and width of the frame.

    Returns:
        (H, W, 3) uint8 RGB.
    """
    height, width = size
    scale = max(height / picture.shape[0], width / picture.shape[1])
    scaled = max(height, round(picture.shape[0] * scale)), max(width, round(picture.shape[1] * scale))
    larger = F.interpolate(picture.permute(2, 0, 1)[None], scaled, mode="bilinear", antialias=True)[0]
    top, left = (scaled[0] - height) // 2, (scaled[1] - width) // 2
    return larger[:, top : top + height, left : left + width].permute(1, 2, 0).contiguous()
