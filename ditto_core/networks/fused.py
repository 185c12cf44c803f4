"""The rendering networks as one graph: from the warped volume, or from key points, to the picture."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from .fused_spade import FusedDecoder
from .fused_warp import PLAIN_LAYOUT, FusedWarp, WarpLayout
from .spade import SpadeDecoder
from .warping import WarpingNetwork


class FusedPostWarp(nn.Module):
    """Third, fourth, occlusion and decoder in one module.

    Args:
        warp: the loaded, folded warping network; its last two convolutions are used.
        decoder: the loaded, folded decoder.
        fold_upsampling: whether convolutions of an enlarged condition run at the condition's own size.
    """

    def __init__(self, warp: WarpingNetwork, decoder: SpadeDecoder, *, fold_upsampling: bool = True) -> None:
        super().__init__()
        self.third, self.fourth = warp.third.conv, warp.fourth
        self.decoder = FusedDecoder(decoder, fold_upsampling=fold_upsampling)

    def forward(self, deformed: Tensor, occlusion: Tensor) -> Tensor:
        """Draws faces from deformed volumes.

        Args:
            deformed: (b, c * depth, size, size); official (b, 512, 64, 64).
            occlusion: (b, 1, size, size) in 0..1.

        Returns:
            (b, 3, 512, 512) RGB in 0..1.
        """
        return self.decoder(self.fourth(F.leaky_relu(self.third(deformed), 0.01)) * occlusion)


class FusedWarpDecode(nn.Module):
    """The whole rendering network in one module.

    Args:
        warp: the loaded, folded warping network.
        decoder: the loaded, folded decoder.
        layout: how the warping is laid out; by default with a native 5-D grid sample and nothing padded.
    """

    def __init__(self, warp: WarpingNetwork, decoder: SpadeDecoder, layout: WarpLayout = PLAIN_LAYOUT) -> None:
        super().__init__()
        self.warp = FusedWarp(warp, layout)
        self.decoder = FusedDecoder(decoder)

    def draw(self, compressed: Tensor, volume: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """`forward` from what `FusedWarp.prepare` makes of f_s, once for all frames of a source picture."""
        return self.decoder(self.warp.project(*self.warp.deform(compressed, volume, x_s, x_d)))

    def forward(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """Draws faces from appearance volumes and key points.

        Args:
            f_s: (b, c, depth, size, size); official (b, 32, 16, 64, 64).
            x_s: (b, 21, 3) source key points.
            x_d: (b, 21, 3) driving key points.

        Returns:
            (b, 3, 512, 512) RGB in 0..1.
        """
        return self.draw(*self.warp.prepare(f_s), x_s, x_d)
