"""The SPADE decoder with the same numbers in fewer operations, made from a loaded one.

In one block, all SPADE norms read the same map: their hidden convolutions are one. Gamma and beta of a norm are one
convolution. Where the map was enlarged, the hidden convolution runs at the map's own size. Instance norm commutes with
nearest enlargement, and the shortcut's 1x1 convolution merges with the convolution of its beta.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import instance_norm
from .spade import Spade, SpadeBlock, SpadeDecoder
from .upsampled import UpsampledConv, convolution


class FusedSpadeBlock(nn.Module):
    """A residual block of SPADE norms.

    Args:
        block: the loaded block, its spectral norm folded.
        enlarged: how much larger the block's maps are than the condition: 1, 2 or 4; above 1, x is enlarged x2 first.
        fold_upsampling: whether the hidden convolution of an enlarged condition runs at the condition's own size.
    """

    def __init__(self, block: SpadeBlock, enlarged: int, *, fold_upsampling: bool = True) -> None:
        super().__init__()
        norms = [block.norm_0, block.norm_1, *([block.norm_s] if block.learned_shortcut else [])]
        hidden = _joined([cast(nn.Conv2d, norm.mlp_shared[0]) for norm in norms])
        self.enlarged, self.norms = enlarged, len(norms)
        self.fold = fold_upsampling and enlarged > 1
        self.hidden = UpsampledConv(hidden, enlarged) if self.fold else hidden
        self.modulation_0, self.modulation_1 = _modulation(block.norm_0), _modulation(block.norm_1)
        self.conv_0, self.conv_1 = block.conv_0, block.conv_1
        self.learned_shortcut = block.learned_shortcut
        if self.learned_shortcut:
            self.conv_s = block.conv_s
            self.modulation_s = _shortcut_modulation(block.norm_s, cast(nn.Conv2d, block.conv_s))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(b, in, h, w), and the condition at its own size -> (b, out, h, w), or twice the size where enlarged."""
        if self.enlarged > 1 and not self.fold:
            condition = F.interpolate(condition, scale_factor=float(self.enlarged), mode="nearest")
        hidden = F.relu(self.hidden(condition)).chunk(self.norms, dim=1)
        normal = instance_norm(x)
        if self.enlarged > 1:
            x, normal = _twice(x), _twice(normal)
        gamma, beta = self.modulation_0(hidden[0]).chunk(2, dim=1)
        y = self.conv_0(F.leaky_relu(normal * gamma + beta, 0.2))
        gamma, beta = self.modulation_1(hidden[1]).chunk(2, dim=1)
        y = self.conv_1(F.leaky_relu(instance_norm(y) * gamma + beta, 0.2))
        if not self.learned_shortcut:
            return x + y
        gamma, shift = self.modulation_s(hidden[2]).split([normal.shape[1], y.shape[1]], dim=1)
        return self.conv_s(normal * gamma) + shift + y


class FusedDecoder(nn.Module):
    """The decoder of fused blocks; see `SpadeDecoder`.

    Args:
        decoder: the loaded decoder, its spectral norm folded. It is left as it is; weights are shared where they
            are the same.
        fold_upsampling: see `FusedSpadeBlock`.
    """

    def __init__(self, decoder: SpadeDecoder, *, fold_upsampling: bool = True) -> None:
        super().__init__()
        self.fc, self.conv_img = decoder.fc, decoder.conv_img
        middle, ups = decoder.blocks()
        self.middle = nn.ModuleList(FusedSpadeBlock(block, 1) for block in middle)
        self.ups = nn.ModuleList(
            FusedSpadeBlock(block, 2 ** (i + 1), fold_upsampling=fold_upsampling) for i, block in enumerate(ups)
        )

    def forward(self, feature: Tensor) -> Tensor:
        """(b, feature_channels, size, size) -> (b, 3, 512, 512) RGB in 0..1."""
        x = self.fc(feature)
        for block in self.middle:
            x = block(x, feature)
        for block in self.ups:
            x = block(x, feature)
        return torch.sigmoid(self.conv_img(F.leaky_relu(x, 0.2)))


def _twice(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def _joined(convs: list[nn.Conv2d]) -> nn.Conv2d:
    """One convolution whose outputs are those of several over one input."""
    biases = [conv.bias for conv in convs if conv.bias is not None]
    joined = convolution(torch.cat([conv.weight for conv in convs]), torch.cat(biases), convs[0].padding)
    return cast(nn.Conv2d, joined)


def _modulation(norm: Spade) -> nn.Conv2d:
    """1 + gamma and beta as one convolution."""
    joined = _joined([norm.mlp_gamma, norm.mlp_beta])
    cast(Tensor, joined.bias)[: norm.mlp_gamma.out_channels] += 1
    return joined


def _shortcut_modulation(norm: Spade, shortcut: nn.Conv2d) -> nn.Conv2d:
    """1 + gamma, and what the shortcut's 1x1 convolution makes of beta, as one convolution."""
    matrix = shortcut.weight[:, :, 0, 0].double()
    weight = torch.einsum("oc,cikl->oikl", matrix, norm.mlp_beta.weight.double())
    bias = matrix @ cast(Tensor, norm.mlp_beta.bias).double()
    beta = convolution(weight.to(norm.mlp_beta.weight.dtype), bias, (1, 1))
    joined = _joined([norm.mlp_gamma, cast(nn.Conv2d, beta)])
    cast(Tensor, joined.bias)[: norm.mlp_gamma.out_channels] += 1
    return joined
